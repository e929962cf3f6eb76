//! Counts of the messages with which nodes share tasks.

/// Counts of the messages and tasks that the nodes of a pool have sent each other so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StealStatistics {
    /// Attempts of idle nodes to get tasks, including those without success.
    pub attempts: u64,
    /// Messages, including attempts and answers, but without packets of tasks and their results.
    pub messages: u64,
    /// Messages to another site.
    pub far_messages: u64,
    /// Packets of tasks.
    pub grants: u64,
    /// Packets of tasks to another site.
    pub far_grants: u64,
    /// Tasks in all packets.
    pub tasks: u64,
}

impl StealStatistics {
    pub(super) fn to_vec(self) -> Vec<u64> {
        let Self { attempts, messages, far_messages, grants, far_grants, tasks } = self;
        vec![attempts, messages, far_messages, grants, far_grants, tasks]
    }

    pub(super) fn from_slice(values: &[u64]) -> Self {
        let at = |position: usize| values.get(position).copied().unwrap_or_default();
        Self {
            attempts: at(0),
            messages: at(1),
            far_messages: at(2),
            grants: at(3),
            far_grants: at(4),
            tasks: at(5),
        }
    }
}
