//! Levels work between groups of nodes that can begin with it at different times.

/// A group of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Receivers {
    /// Number of its workers or nodes.
    pub(super) nodes: f64,
    /// Time until they can begin with more work, in units of the time of a task.
    pub(super) from: f64,
}

/// Returns the time from now, in units of the time of a task, at which all groups finish `tasks`
/// tasks if their shares let them end together. A group that cannot begin before that time gets
/// nothing. Infinite without groups.
///
/// This is the fluid optimum: the latency of a task on its way is discounted from its receiver's
/// share.
pub(super) fn level(receivers: &[Receivers], tasks: f64) -> f64 {
    let mut sorted: Vec<Receivers> =
        receivers.iter().copied().filter(|receiver| receiver.nodes > 0.0).collect();
    sorted.sort_by(|a, b| a.from.total_cmp(&b.from));
    let (mut nodes, mut work, mut level) = (0.0, tasks, f64::INFINITY);
    for receiver in sorted {
        if receiver.from >= level {
            break;
        }
        nodes += receiver.nodes;
        work += receiver.nodes * receiver.from;
        level = work / nodes;
    }
    level
}

/// Returns the share of a group at this level.
pub(super) fn share(receiver: Receivers, level: f64) -> f64 {
    if level.is_finite() { receiver.nodes * (level - receiver.from).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_nodes_get_less_work_by_their_latency() {
        // 5120 tasks of 10 ms on one of four sites of 256 nodes that are 20 ms apart: 256 T + 768
        // (T - 2) = 5120.
        let near = Receivers { nodes: 256.0, from: 0.0 };
        let far = Receivers { nodes: 256.0, from: 2.0 };

        let level = level(&[near, far, far, far], 5120.0);

        assert_eq!(level, 6.5);
        assert_eq!((share(near, level), share(far, level)), (1664.0, 1152.0));
    }

    #[test]
    fn a_group_too_far_for_so_little_work_gets_nothing() {
        let near = Receivers { nodes: 10.0, from: 0.0 };
        let far = Receivers { nodes: 90.0, from: 2.0 };

        let level = level(&[far, near], 15.0);

        assert_eq!((share(near, level), share(far, level)), (15.0, 0.0));
    }

    #[test]
    fn without_groups_the_share_is_zero() {
        let level = level(&[], 3.0);

        assert_eq!(share(Receivers { nodes: 1.0, from: 0.0 }, level), 0.0);
    }
}
