//! Advice about a job that failed.

use gridspan_runtime::{JobError, NodeId};
use gridspan_topology::Layout;

/// Returns the next step for a user whose job ended with `error`, or `None` if the error says
/// everything.
pub fn hint(error: &JobError) -> Option<&'static str> {
    Some(match error {
        JobError::Panicked { .. } | JobError::MainPanicked { .. } => backtrace(),
        JobError::NodeLost { .. } => {
            "look at what that node printed last, and at the link to its site"
        }
        JobError::OverBudget { queued_bytes, held_bytes, .. }
            if held_bytes > &(queued_bytes / 2) =>
        {
            "most of it waits for earlier messages, for broadcasts or for receivers that have not arrived yet: let those \
             arrive before sending more, or raise the budget with `Job::limits`"
        }
        JobError::OverBudget { .. } => {
            "send less before receiving, or raise the budget with `Job::limits`"
        }
        JobError::Stalled { .. } => {
            "find the member that did not send, answer, contribute or reach the sync point; run the job by \
             `gridctl sim`: each run with the same seed stalls in the same way"
        }
        JobError::TimeLimit { .. } => "give it more time, or look at what it waits for",
        JobError::Protocol(_) | JobError::OtherProgram { .. } => {
            "start all nodes from one build of the program"
        }
        // The texts of all others say what to do.
        _ => return None,
    })
}

/// Returns the next step for a user whose program panicked.
pub fn backtrace() -> &'static str {
    match std::env::var_os("RUST_BACKTRACE") {
        Some(value) if value != "0" => "its backtrace, on its standard error, shows where",
        _ => "set RUST_BACKTRACE=1 to see where",
    }
}

/// Returns the node where the error arose, if the error names it.
pub fn culprit(error: &JobError, layout: &Layout) -> Option<NodeId> {
    match error {
        JobError::Panicked { pe, .. } | JobError::OverBudget { pe, .. } => {
            layout.contains(*pe).then(|| layout.node_of(*pe))
        }
        JobError::NodeLost { node, .. } | JobError::OtherProgram { node, .. } => Some(*node),
        JobError::CoordinatorOverBudget { node, .. } => Some(*node),
        JobError::MainPanicked { .. } => Some(NodeId(0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::PeId;

    #[test]
    fn a_panic_is_blamed_on_the_node_of_its_pe() {
        let layout = Layout::new(vec![("a".to_owned(), vec![2, 2])]);
        let at = |pe| JobError::Panicked {
            actor: "Cell".to_owned(),
            pe: PeId(pe),
            place: "a/1".to_owned(),
            reason: "no luck".to_owned(),
        };

        assert_eq!(culprit(&at(3), &layout), Some(NodeId(1)));
        assert_eq!(culprit(&at(4), &layout), None, "a PE that the job does not have");
    }
}
