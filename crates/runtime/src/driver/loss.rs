//! Describes the nodes that this node has declared lost, for reports that do not wait for a PE.
//!
//! The PEs of this node may be inside handlers for any length of time. So the thread that drives
//! the network, which detects the loss, notifies the job's listeners itself, once. The first PE of
//! the node is notified too, and ends the job when it handles the notification.

use crate::error::JobError;
use crate::message::CoordinatorPlace;
use crate::net::LossReason;
use gridspan_topology::{Layout, NodeId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number of other lost nodes that one error names; a terminal shows these in a few lines.
const NAMED_MAX: usize = 64;

/// The nodes whose losses certainly end a job that recovers tasks locally: those of main and of the
/// coordinator, which may move.
pub(super) struct Needed {
    main: NodeId,
    /// The number of times that the coordinator has moved, in the upper 32 bits, and its node.
    coordinator: AtomicU64,
}

impl Needed {
    pub(super) fn new(main: NodeId, coordinator: NodeId) -> Self {
        Self { main, coordinator: AtomicU64::new(coordinator.0.into()) }
    }

    /// Notes where the coordinator runs, unless a later place is known: the PEs of this node report
    /// the same places at different times.
    pub(super) fn note_coordinator(&self, CoordinatorPlace { term, node }: CoordinatorPlace) {
        self.coordinator.fetch_max(term << 32 | u64::from(node.0), Ordering::Relaxed);
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        node == self.main || node.0 == self.coordinator.load(Ordering::Relaxed) as u32
    }
}

/// Returns the error for a lost node.
pub(super) fn error(layout: &Layout, node: NodeId, reason: &LossReason) -> JobError {
    let others = match reason {
        LossReason::Silent { others, .. } => others.clone(),
        _ => Vec::new(),
    };
    let site = layout.site_name(layout.site_of_node(node)).to_owned();
    let cause = reason.cause();
    let reason = format!("{reason}{}", company(layout, node, &others));
    JobError::NodeLost { node, site, cause, reason, others }
}

/// Whether the loss of a node certainly ends the job, so that it may be reported before a PE
/// handles it. A node that closes its connections may do so because the job is over.
pub(super) fn is_fatal(layout: &Layout, node: NodeId, reason: &LossReason) -> bool {
    let is_farewell = matches!(reason, LossReason::Closed(_) | LossReason::Refused(_));
    !layout.is_guest(node) && !is_farewell
}

/// Describes the nodes that were lost together with `node`.
fn company(layout: &Layout, node: NodeId, others: &[NodeId]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let site_of = |node: NodeId| layout.site_name(layout.site_of_node(node));
    let named =
        others.iter().take(NAMED_MAX).map(|&other| format!("{other} at {}", site_of(other)));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match others.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let lost: BTreeSet<NodeId> = others.iter().copied().chain([node]).collect();
    let is_lost = |site| {
        let all: Vec<NodeId> = layout.nodes_in(site).collect();
        all.len() > 1 && all.iter().all(|node| lost.contains(node))
    };
    let sites = layout.sites().filter(|&site| is_lost(site)).map(|site| layout.site_name(site));
    let sites: Vec<&str> = sites.collect();
    let whole = match &sites[..] {
        [] => String::new(),
        [site] => format!("; that is all of site {site}"),
        sites => format!("; that is all of the sites {}", sites.join(", ")),
    };
    format!(", and so were {named}{more}{whole}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;
    use std::time::Duration;

    fn layout() -> Layout {
        Layout::new(vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1, 1, 1])])
    }

    fn silent(others: &[u32]) -> LossReason {
        let others = others.iter().copied().map(NodeId).collect();
        LossReason::Silent { silence: Duration::from_secs(3), others }
    }

    #[test]
    fn the_node_that_the_coordinator_has_left_is_not_needed() {
        let needed = Needed::new(NodeId(0), NodeId(2));
        let are_needed = || [0, 1, 2].map(|node| needed.contains(NodeId(node)));
        assert_eq!(are_needed(), [true, false, true]);

        needed.note_coordinator(CoordinatorPlace { term: 2, node: NodeId(1) });
        needed.note_coordinator(CoordinatorPlace { term: 1, node: NodeId(2) });

        assert_eq!(are_needed(), [true, true, false]);
    }

    #[test]
    fn a_node_that_was_lost_alone_is_named_alone() {
        assert_eq!(
            error(&layout(), NodeId(2), &silent(&[])).to_string(),
            "lost node2 at site b: it was silent for 3s"
        );
    }

    #[test]
    fn the_nodes_of_a_lost_site_are_all_named() {
        let error = error(&layout(), NodeId(2), &silent(&[3, 4]));

        assert_eq!(
            error.to_string(),
            "lost node2 at site b: it was silent for 3s, and so were node3 at b, node4 at b; \
             that is all of site b"
        );
        let JobError::NodeLost { cause, others, .. } = error else { panic!("{error:?}") };
        assert_eq!((cause, others), (LossCause::Silent, vec![NodeId(3), NodeId(4)]));
    }

    #[test]
    fn a_site_with_a_surviving_node_is_not_called_lost() {
        let text = error(&layout(), NodeId(1), &silent(&[3, 4])).to_string();
        assert!(text.ends_with("so were node3 at b, node4 at b"), "{text}");
    }

    #[test]
    fn the_loss_of_a_node_that_closed_its_connections_is_not_fatal() {
        let layout = layout();
        let closed = LossReason::Closed("the job is over".to_owned());
        assert!(is_fatal(&layout, NodeId(2), &silent(&[])));
        assert!(is_fatal(&layout, NodeId(2), &LossReason::Unreachable(Duration::from_secs(9))));
        assert!(!is_fatal(&layout, NodeId(2), &closed));
    }
}
