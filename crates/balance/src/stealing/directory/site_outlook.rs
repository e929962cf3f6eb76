//! The work of a site and how long it will last, as estimated by its head.

use super::super::message::Demand;
use super::backlog::Backlog;
use super::outgoing::Outgoing;
use super::requests::TaskPace;
use super::task_time::blend;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// Reports of the parts of a site, and the estimates derived from them.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteOutlook {
    pub(super) parts: BTreeMap<usize, Part>,
    /// Observed time of a task in nanoseconds; 0 while there is none.
    pub(super) task_ns: u64,
    pub(super) backlog: Backlog,
}

/// One part of the site, as last reported.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) demand: Demand,
    pub(super) at: Time,
}

impl SiteOutlook {
    /// Handles the report of a part.
    pub(super) fn report(&mut self, part: usize, demand: Demand, now: Time) {
        if demand.task_ns > 0 {
            self.task_ns = blend(self.task_ns, demand.task_ns);
        }
        self.parts.insert(part, Part { demand, at: now });
        if self.is_dry() {
            self.backlog = Backlog::default();
        } else {
            self.backlog.observe_spawned(now, self.queued());
        }
    }

    /// Returns whether no tasks wait although nodes are idle. While all nodes are busy, the running
    /// tasks may spawn others.
    fn is_dry(&self) -> bool {
        self.queued() == 0 && self.parts.values().any(|part| part.demand.idle > 0)
    }

    /// Returns the outlook of the site until its parts report again.
    pub(super) fn without_parts(&self) -> Self {
        Self { parts: BTreeMap::new(), ..self.clone() }
    }

    /// Returns the time of a task; 0 while it is not known.
    pub(super) fn pace(&self, post: &Outgoing<'_>) -> TaskPace {
        let nodes = post.places.nodes_in(post.own().0).len() as u64;
        TaskPace {
            task_ns: self.backlog.task_ns(post.now, self.queued(), nodes, self.task_ns),
            is_replenished: self.task_ns > 0
                && self.backlog.is_replenished(post.now, nodes, self.task_ns),
        }
    }

    /// Returns the number of tasks that wait in the site.
    pub(super) fn queued(&self) -> u64 {
        self.parts.values().fold(0, |sum, part| sum.saturating_add(part.demand.queued))
    }

    /// Returns the number of tasks of a part that run or wait, and the number of those that wait.
    pub(super) fn work(&self, number: usize, post: &Outgoing<'_>) -> (f64, f64) {
        let nodes = post.places.nodes_of_part(post.own().0, number).len() as f64;
        let Some(Part { demand, at }) = self.parts.get(&number) else { return (0.0, 0.0) };
        let busy = nodes - f64::from(demand.idle).min(nodes);
        // Queued tasks are reported when their number halves; the end of running tasks is not
        // reported.
        let elapsed = post.now.0.saturating_sub(at.0) as f64;
        let rounds = if self.task_ns > 0 { elapsed / self.task_ns as f64 } else { 0.0 };
        if demand.queued == 0 {
            return (busy * (1.0 - rounds).max(0.0), 0.0);
        }
        let done = if self.pace(post).is_replenished { 0.0 } else { rounds * busy };
        let queued = (demand.queued as f64 - done).max(1.0);
        (queued + busy, queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn demand(queued: u64, idle: u32) -> Demand {
        Demand { queued, idle, task_ns: 100, receivers: Vec::new() }
    }

    #[test]
    fn a_site_is_dry_if_no_task_waits_and_nodes_are_idle() {
        let lasted = |idle: u32| {
            let mut outlook = SiteOutlook::default();
            outlook.report(0, demand(40, 0), Time(0));
            outlook.report(0, demand(0, idle), Time(10 * MS));
            outlook.report(0, demand(1, idle), Time(20 * MS));
            outlook.backlog.lasted_ns(Time(30 * MS))
        };

        assert_eq!(lasted(1), 10 * MS);
        // While all nodes are busy, running tasks may spawn others, so the backlog goes on.
        assert_eq!(lasted(0), 30 * MS);
    }
}
