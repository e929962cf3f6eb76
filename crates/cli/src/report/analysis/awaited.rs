//! What PEs waited for.

use super::places::Places;
use serde::Serialize;

/// What a PE waited for. PEs and sites are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub(crate) enum Awaited {
    /// For a PE that computed.
    Computing {
        /// The PE.
        pe: usize,
    },
    /// For a PE that sent, received, or waited for its processor.
    Overhead {
        /// The PE.
        pe: usize,
    },
    /// For the latency of a link.
    Latency {
        /// The sending site.
        from: usize,
        /// The receiving site.
        to: usize,
    },
    /// For the transmission of bytes: those of other messages on the link, or those of the awaited
    /// message, if it is large.
    Bandwidth {
        /// The sending site.
        from: usize,
        /// The receiving site.
        to: usize,
    },
    /// For packets that were sent again after losses.
    Loss {
        /// The sending site.
        from: usize,
        /// The receiving site.
        to: usize,
    },
    /// For a message that took longer than the link explains.
    Delay {
        /// The sending site.
        from: usize,
        /// The receiving site.
        to: usize,
    },
    /// For main.
    Main,
    /// For the end of a checkpoint.
    Checkpoint,
    /// For the end of a rebalance.
    Rebalance,
    /// For the job to continue after a loss.
    Recovery,
    /// For something that was not recorded.
    Unknown,
}

impl Awaited {
    /// The label in reports.
    pub(crate) fn name(self, places: &Places) -> String {
        match self {
            Self::Computing { pe } => format!("{} computes", places.pe_name(pe)),
            Self::Overhead { pe } => format!("{} handles messages", places.pe_name(pe)),
            Self::Latency { from, to } => format!("latency, {}", places.link_name(from, to)),
            Self::Bandwidth { from, to } => format!("bandwidth, {}", places.link_name(from, to)),
            Self::Loss { from, to } => format!("lost packets, {}", places.link_name(from, to)),
            Self::Delay { from, to } => format!("delays, {}", places.link_name(from, to)),
            Self::Main => "main".to_owned(),
            Self::Checkpoint => "checkpoints".to_owned(),
            Self::Rebalance => "rebalances".to_owned(),
            Self::Recovery => "recovery after losses".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// Maximum number of pieces that are not merged.
const PIECES_MAX: usize = 16;
/// Number of slots of equal length into which more pieces are merged.
const SLOTS: usize = 4;

/// What a PE waited for, as pieces in the order of time, each with its length in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pieces(Vec<(Awaited, f64)>);

impl Pieces {
    /// The pieces in the order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Awaited, f64)> {
        self.0.iter().copied()
    }

    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, awaited: Awaited, ns: f64) {
        if ns <= 0.0 {
            return;
        }
        match self.0.last_mut() {
            Some((last, sum)) if *last == awaited => *sum += ns,
            _ => self.0.push((awaited, ns)),
        }
    }

    /// Adds the part of other pieces between two times, counted from their beginning.
    pub(crate) fn push_part(&mut self, other: &Self, [from_ns, to_ns]: [f64; 2]) {
        let mut begin = 0.0_f64;
        for (awaited, ns) in other.iter() {
            let end = begin + ns;
            self.push(awaited, end.min(to_ns) - begin.max(from_ns));
            begin = end;
        }
    }

    /// Adds other pieces, scaled to a total of `ns`.
    pub(crate) fn push_scaled(&mut self, other: &Self, ns: f64) {
        let total = other.total();
        if total > 0.0 {
            other.iter().for_each(|(awaited, part)| self.push(awaited, part * ns / total));
        }
    }

    /// The total length in nanoseconds.
    pub(crate) fn total(&self) -> f64 {
        self.0.iter().map(|(_, ns)| ns).sum()
    }

    /// Merges more than [`PIECES_MAX`] pieces into slots of equal length. A slot keeps the times of
    /// the largest causes, but not their order; the others count as unknown.
    pub(crate) fn shorten(&mut self) {
        if self.0.len() <= PIECES_MAX {
            return;
        }
        let slot_ns = self.total() / SLOTS as f64;
        let mut short = Self::default();
        for slot in 0..SLOTS {
            let mut part = Self::default();
            part.push_part(self, [slot, slot + 1].map(|slot| slot as f64 * slot_ns));
            let mut sums: Vec<(Awaited, f64)> = Vec::new();
            for (awaited, ns) in part.iter() {
                match sums.iter_mut().find(|(known, _)| *known == awaited) {
                    Some((_, sum)) => *sum += ns,
                    None => sums.push((awaited, ns)),
                }
            }
            sums.sort_by(|a, b| b.1.total_cmp(&a.1));
            let kept = PIECES_MAX / SLOTS - 1;
            let rest = sums.iter().skip(kept).map(|(_, ns)| ns).sum();
            sums.iter().take(kept).for_each(|(awaited, ns)| short.push(*awaited, *ns));
            short.push(Awaited::Unknown, rest);
        }
        *self = short;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computing(pe: usize) -> Awaited {
        Awaited::Computing { pe }
    }

    #[test]
    fn a_part_of_pieces_is_cut_at_both_ends() {
        let mut pieces = Pieces::default();
        pieces.push(computing(0), 10.0);
        pieces.push(Awaited::Main, 5.0);
        pieces.push(Awaited::Main, 5.0);
        pieces.push(computing(1), 0.0);
        let mut part = Pieces::default();
        part.push_part(&pieces, [8.0, 13.0]);
        assert_eq!(part.iter().collect::<Vec<_>>(), [(computing(0), 2.0), (Awaited::Main, 3.0)]);
        let mut half = Pieces::default();
        half.push_scaled(&pieces, 10.0);
        assert_eq!(half.iter().collect::<Vec<_>>(), [(computing(0), 5.0), (Awaited::Main, 5.0)]);
    }

    #[test]
    fn many_pieces_become_few_of_the_same_time() {
        let mut pieces = Pieces::default();
        for number in 0..1000 {
            pieces.push(computing(number % 2), 3.0);
            pieces.push(Awaited::Main, 1.0);
        }
        pieces.shorten();
        assert!(pieces.0.len() <= PIECES_MAX, "{}", pieces.0.len());
        assert!((pieces.total() - 4000.0).abs() < 1e-6);
        let of_main: f64 = pieces.iter().filter(|it| it.0 == Awaited::Main).map(|it| it.1).sum();
        assert!((of_main - 1000.0).abs() < 1e-6);
    }
}
