//! The costs of messages, fitted to a recording: the time that a PE takes for a packet, the delay
//! that the runtime adds to that of a link, the typical sizes of messages, for those whose size was
//! not recorded, and the types of messages that are sent once for many receivers.

use crate::recorded_grid::RecordedGrid;
use gridspan_record::Recording;
use std::collections::{BTreeMap, BTreeSet};

/// Largest time of a PE for a packet. A longer time in the recording has other causes, such as
/// waiting.
const PACKET_NS_MAX: f64 = 100_000.0;
/// Number of pairs of types whose messages may be sent once for many receivers: those with the most
/// messages.
const PAIRS_MAX: usize = 8;

/// The types of the sender and the receiver of messages.
pub(crate) type KindPair = (u32, u32);

/// A message between two actors, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Number of the handler that sent it.
    pub(crate) sender: u32,
    /// The types of the actors.
    pub(crate) kinds: KindPair,
    /// The sending and the receiving PE.
    pub(crate) pes: (u32, u32),
    /// Its bytes; 0 if they are not known.
    pub(crate) bytes: u32,
    /// When it left: not before the end of the handler that sent it.
    pub(crate) left_ns: u64,
    /// When it was received.
    pub(crate) received_ns: u64,
}

/// The costs of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    /// Time of an ordinary PE to send or to accept a packet.
    pub(crate) packet_ns: f64,
    /// Time from node to node beyond that of the link.
    pub(crate) delay_ns: f64,
    /// Types of messages that cross the link to a site once, for all receivers there.
    pub(crate) casts: BTreeSet<KindPair>,
    /// Median bytes, by types.
    pub(crate) bytes: BTreeMap<KindPair, u64>,
}

impl Costs {
    /// Fits the costs.
    pub(crate) fn of(
        recording: &Recording,
        messages: &[Message],
        grid: &RecordedGrid,
        is_simulated: bool,
    ) -> Self {
        let packet_ns = packet_ns(recording, messages);
        // In virtual time only links delay messages.
        let delay_ns = if is_simulated { 0.0 } else { delay_ns(messages, grid, packet_ns) };
        Self {
            packet_ns,
            delay_ns,
            casts: casts(recording, messages, grid),
            bytes: sizes(messages),
        }
    }
}

/// Returns the time for a packet. All messages of a handler to one PE are a packet, which takes
/// this time to send and again to accept.
fn packet_ns(recording: &Recording, messages: &[Message]) -> f64 {
    let leaving = messages.iter().filter(|message| message.pes.0 != message.pes.1);
    let packets: BTreeSet<_> = leaving.map(|message| (message.sender, message.pes.1)).collect();
    let bins = recording.pes.iter().flat_map(|pe| &pe.bins);
    let network: f64 = bins.map(|bin| bin.network_ns as f64).sum();
    match packets.len() {
        0 => 0.0,
        packets => (network / (2.0 * packets as f64)).min(PACKET_NS_MAX),
    }
}

/// Returns the median time that messages between nodes take beyond the link and the packet.
fn delay_ns(messages: &[Message], grid: &RecordedGrid, packet_ns: f64) -> f64 {
    let far = messages.iter().filter(|message| !grid.is_one_node(message.pes.0, message.pes.1));
    let late = far.map(|message| {
        let took = message.received_ns.saturating_sub(message.left_ns) as f64;
        took - packet_ns - grid.transfer_ns(message.pes.0, message.pes.1, message.bytes)
    });
    median(late.collect()).unwrap_or(0.0).max(0.0)
}

fn sizes(messages: &[Message]) -> BTreeMap<KindPair, u64> {
    let mut known: BTreeMap<KindPair, Vec<f64>> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.bytes > 0) {
        known.entry(message.kinds).or_default().push(f64::from(message.bytes));
    }
    let typical = |sizes| median(sizes).map_or(0, |size| size as u64);
    known.into_iter().map(|(kinds, sizes)| (kinds, typical(sizes))).collect()
}

/// Finds the types of messages that are sent once for many receivers. A recording counts each of
/// them once for a site, and other messages once for each receiver on another PE. Returns the
/// choice of types that comes closest to the recorded count.
fn casts(recording: &Recording, messages: &[Message], grid: &RecordedGrid) -> BTreeSet<KindPair> {
    let sent = recording.pes.iter().flat_map(|pe| &pe.bins).flat_map(|bin| &bin.sent);
    let counted: f64 = sent.map(|sent| f64::from(sent.messages)).sum();
    let mut single: BTreeMap<KindPair, f64> = BTreeMap::new();
    let mut once: BTreeMap<KindPair, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for message in messages {
        let leaves = message.pes.0 != message.pes.1;
        *single.entry(message.kinds).or_default() += f64::from(u8::from(leaves));
        once.entry(message.kinds).or_default().insert((message.sender, grid.site(message.pes.1)));
    }
    let once: BTreeMap<KindPair, f64> =
        once.into_iter().map(|(kinds, groups)| (kinds, groups.len() as f64)).collect();
    let mut pairs: Vec<(KindPair, f64, f64)> =
        single.into_iter().map(|(kinds, single)| (kinds, single, once[&kinds])).collect();
    pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let rest: f64 = pairs.iter().skip(PAIRS_MAX).map(|(_, single, _)| single).sum();
    pairs.truncate(PAIRS_MAX);
    // Of equally good choices, the one with the fewest casts is taken.
    let error_of = |choice: u32| {
        let all = pairs.iter().enumerate();
        let count =
            all.map(|(at, (_, single, once))| if choice >> at & 1 == 1 { *once } else { *single });
        (count.sum::<f64>() + rest - counted).abs()
    };
    let choices = 0..1_u32 << pairs.len();
    let best = choices.min_by(|a, b| {
        error_of(*a).total_cmp(&error_of(*b)).then(a.count_ones().cmp(&b.count_ones()))
    });
    let best = best.unwrap_or(0);
    let chosen = pairs.iter().enumerate().filter(|(at, _)| best >> at & 1 == 1);
    chosen.map(|(_, (kinds, ..))| *kinds).collect()
}

/// Returns the median of numbers, the lower one of two; `None` if there is none.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{Bin, Header, PeRecord, RecordedNode, RecordedPe, SentTo};

    /// Two PEs of two nodes of a site.
    fn recording(sent: u32, network_ns: u64) -> Recording {
        let header = Header {
            sites: vec!["a".to_owned()],
            nodes: vec![RecordedNode::default(); 2],
            pes: (0..2).map(|node| RecordedPe { node, speed: 1.0 }).collect(),
            ..Header::default()
        };
        let sent = vec![SentTo { site: 0, messages: sent, bytes: 0 }];
        let bins = vec![Bin { network_ns, sent, ..Bin::default() }];
        let pes = vec![PeRecord { bins, ..PeRecord::default() }];
        Recording { header, pes, ..Recording::default() }
    }

    /// A handler that sends to three actors of the other PE.
    fn three(sender: u32, kinds: KindPair, bytes: u32) -> [Message; 3] {
        let received_ns = 7_000;
        [Message { sender, kinds, pes: (0, 1), bytes, left_ns: 2_000, received_ns }; 3]
    }

    #[test]
    fn packets_share_the_time_in_the_network() {
        let messages = [three(1, (0, 1), 100), three(2, (0, 1), 100)].concat();
        let recording = recording(6, 2_000);
        let grid = RecordedGrid::of(&recording.header);
        let costs = Costs::of(&recording, &messages, &grid, true);
        assert_eq!((costs.packet_ns, costs.delay_ns), (500.0, 0.0));
        let costs = Costs::of(&recording, &messages, &grid, false);
        assert_eq!(costs.delay_ns, 4_500.0);
    }

    #[test]
    fn types_that_are_counted_once_for_a_site_are_casts() {
        let messages = [three(1, (0, 1), 100), three(2, (1, 0), 0)].concat();
        let casts_of = |sent| {
            let recording = recording(sent, 0);
            casts(&recording, &messages, &RecordedGrid::of(&recording.header)).len()
        };
        assert_eq!([casts_of(6), casts_of(4), casts_of(2)], [0, 1, 2]);
        assert_eq!(sizes(&messages), BTreeMap::from([((0, 1), 100)]));
    }
}
