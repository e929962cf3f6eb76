//! The times at which cores of servers are free, in the course of a mapping.

use crate::id::ServerId;
use crate::platform::Platform;

/// A time span in which a core is occupied, in seconds.
type Span = (f64, f64);

/// A slot for a task on a core of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    core: usize,
    /// Start of the slot in seconds.
    pub(super) start_s: f64,
}

/// The occupied time of a core.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// The span of each task, in order.
    spans: Vec<Span>,
    /// The same spans, with adjacent ones merged, so that a search for a gap examines gaps rather
    /// than tasks.
    blocks: Vec<Span>,
}

/// The occupied times, by server and core.
#[derive(Clone, Debug)]
pub(super) struct Cores {
    taken: Vec<Vec<Taken>>,
}

impl Cores {
    pub(super) fn new(platform: &Platform) -> Self {
        let of =
            |server: &crate::platform::ServerSpec| vec![Taken::default(); server.cores as usize];
        Self { taken: platform.servers().iter().map(of).collect() }
    }

    /// Returns the earliest slot of `time_s` seconds from a time on: in a gap, or after all tasks.
    pub(super) fn earliest(&self, server: ServerId, from_s: f64, time_s: f64) -> Slot {
        let cores = self.taken[server.index()].iter().enumerate();
        let slots = cores.map(|(core, taken)| Slot { core, start_s: taken.gap_s(from_s, time_s) });
        let first = slots.min_by(|one, other| one.start_s.total_cmp(&other.start_s));
        first.unwrap_or(Slot { core: 0, start_s: from_s })
    }

    /// Returns the earliest slot from a time on that comes after all tasks of its core.
    pub(super) fn behind(&self, server: ServerId, from_s: f64) -> Slot {
        let cores = self.taken[server.index()].iter().enumerate();
        let ends =
            cores.map(|(core, taken)| (core, taken.blocks.last().map_or(0.0, |last| last.1)));
        let first = ends.min_by(|one, other| one.1.total_cmp(&other.1));
        let (core, end_s) = first.unwrap_or_default();
        Slot { core, start_s: from_s.max(end_s) }
    }

    pub(super) fn take(&mut self, server: ServerId, slot: Slot, time_s: f64) {
        self.taken[server.index()][slot.core].take((slot.start_s, slot.start_s + time_s));
    }
}

impl Taken {
    fn take(&mut self, span: Span) {
        // A task that takes no time is sorted before another one with the same start, because
        // searches rely on the order of the ends.
        let at = self.spans.partition_point(|other| *other <= span);
        self.spans.insert(at, span);
        let at = self.blocks.partition_point(|other| other.0 <= span.0);
        let follows = at > 0 && self.blocks[at - 1].1 >= span.0;
        let leads = self.blocks.get(at).is_some_and(|next| next.0 <= span.1);
        match (follows, leads) {
            (true, true) => self.blocks[at - 1].1 = self.blocks.remove(at).1,
            (true, false) => self.blocks[at - 1].1 = self.blocks[at - 1].1.max(span.1),
            (false, true) => self.blocks[at].0 = span.0,
            (false, false) => self.blocks.insert(at, span),
        }
    }

    fn gap_s(&self, from_s: f64, time_s: f64) -> f64 {
        // A task that takes no time fits between two adjacent tasks.
        gap_s(if time_s > 0.0 { &self.blocks } else { &self.spans }, from_s, time_s)
    }
}

fn gap_s(spans: &[Span], from_s: f64, time_s: f64) -> f64 {
    let first = spans.partition_point(|span| span.1 <= from_s);
    let mut start_s = from_s;
    for span in &spans[first..] {
        if span.0 - start_s >= time_s {
            return start_s;
        }
        start_s = start_s.max(span.1);
    }
    start_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_tasks_form_one_block() {
        let mut taken = Taken::default();
        // The second half of these close gaps.
        for number in (0..1000).step_by(2).chain((1..999).step_by(2)) {
            taken.take((f64::from(number), f64::from(number + 1)));
        }
        assert_eq!((taken.spans.len(), &taken.blocks[..]), (999, &[(0.0, 999.0)][..]));
        assert_eq!((taken.gap_s(0.5, 1.0), taken.gap_s(0.5, 0.0)), (999.0, 1.0));

        taken.take((1005.0, 1006.0));

        assert_eq!([6.0, 7.0].map(|time_s| taken.gap_s(0.0, time_s)), [999.0, 1006.0]);
        taken.take((999.0, 1005.0));
        assert_eq!(taken.blocks, [(0.0, 1006.0)]);
    }

    #[test]
    fn a_task_that_takes_no_time_begins_after_a_task_that_runs() {
        let mut taken = Taken::default();
        for span in [(5.0, 8.0), (5.0, 5.0), (8.0, 8.0)] {
            taken.take(span);
        }

        assert_eq!(taken.spans, [(5.0, 5.0), (5.0, 8.0), (8.0, 8.0)]);
        assert_eq!(
            [4.0, 5.0, 6.0, 8.0].map(|from_s| taken.gap_s(from_s, 0.0)),
            [4.0, 5.0, 8.0, 8.0]
        );
    }

    #[test]
    fn a_task_goes_into_the_first_gap_that_holds_it() {
        let spans = [(1.0, 2.0), (5.0, 6.0)];

        assert_eq!(gap_s(&spans, 0.0, 1.0), 0.0);
        assert_eq!(gap_s(&spans, 0.5, 1.0), 2.0);
        assert_eq!(gap_s(&spans, 0.0, 4.0), 6.0);
        assert_eq!(gap_s(&spans, 7.0, 4.0), 7.0);
    }
}
