//! When the cores of servers are free, in the course of a mapping.

use crate::id::ServerId;
use crate::platform::Platform;

/// A span of time in which a core is taken, in seconds.
type Span = (f64, f64);

/// Where on a server a task would run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    core: usize,
    /// When it would begin, in seconds.
    pub(super) start_s: f64,
}

/// The spans that are taken, by server and core, in order.
#[derive(Clone, Debug)]
pub(super) struct Cores {
    taken: Vec<Vec<Vec<Span>>>,
}

impl Cores {
    pub(super) fn new(platform: &Platform) -> Self {
        let of = |server: &crate::platform::Server| vec![Vec::new(); server.cores as usize];
        Self { taken: platform.servers().iter().map(of).collect() }
    }

    /// The earliest slot of so many seconds from a time on: in a gap, or behind all that is there.
    pub(super) fn earliest(&self, server: ServerId, from_s: f64, time_s: f64) -> Slot {
        let cores = self.taken[server.index()].iter().enumerate();
        let slots = cores.map(|(core, spans)| Slot { core, start_s: gap_s(spans, from_s, time_s) });
        let first = slots.min_by(|one, other| one.start_s.total_cmp(&other.start_s));
        first.unwrap_or(Slot { core: 0, start_s: from_s })
    }

    /// The earliest slot from a time on behind all that is there.
    pub(super) fn behind(&self, server: ServerId, from_s: f64) -> Slot {
        let cores = self.taken[server.index()].iter().enumerate();
        let ends = cores.map(|(core, spans)| (core, spans.last().map_or(0.0, |span| span.1)));
        let first = ends.min_by(|one, other| one.1.total_cmp(&other.1));
        let (core, end_s) = first.unwrap_or_default();
        Slot { core, start_s: from_s.max(end_s) }
    }

    pub(super) fn take(&mut self, server: ServerId, slot: Slot, time_s: f64) {
        let spans = &mut self.taken[server.index()][slot.core];
        let at = spans.partition_point(|span| span.0 <= slot.start_s);
        spans.insert(at, (slot.start_s, slot.start_s + time_s));
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
    fn a_task_goes_into_the_first_gap_that_holds_it() {
        let spans = [(1.0, 2.0), (5.0, 6.0)];

        assert_eq!(gap_s(&spans, 0.0, 1.0), 0.0);
        assert_eq!(gap_s(&spans, 0.5, 1.0), 2.0);
        assert_eq!(gap_s(&spans, 0.0, 4.0), 6.0);
        assert_eq!(gap_s(&spans, 7.0, 4.0), 7.0);
    }
}
