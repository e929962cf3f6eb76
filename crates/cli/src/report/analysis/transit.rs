//! What the travel time of a message consists of.
//!
//! The latency of the link explains the first part. The rest is due to the bandwidth, if at least
//! half of it is the time to send the bytes that crossed the link meanwhile, or those of the
//! message itself. Otherwise it is due to losses, if the link loses packets and these explain the
//! number of late messages (see [`losses`](super::losses)). Otherwise its cause is unknown.

use super::places::Places;
use super::traffic::{LinkState, Traffic};

/// Part of the latency by which a message may be late without another cause: jitter, and the time
/// to send and to receive it.
const TOLERANCE: f64 = 0.1;
/// Part of the delay that the bandwidth must explain.
const BANDWIDTH_PART_MIN: f64 = 0.5;

/// The travel time of a message in nanoseconds: the latency, and at most one other part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    /// The latency of the link.
    pub(crate) latency: f64,
    /// The wait for the link, and the transmission.
    pub(crate) bandwidth: f64,
    /// Retransmission after losses.
    pub(crate) loss: f64,
    /// The rest, whose cause is unknown.
    pub(crate) delay: f64,
}

/// The travel times of messages over links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit<'a> {
    pub(crate) places: &'a Places,
    pub(crate) traffic: &'a Traffic,
}

impl Transit<'_> {
    /// Whether two PEs belong to one node, so that messages between them cross no link.
    pub(crate) fn is_inside_node(&self, from_pe: usize, to_pe: usize) -> bool {
        self.places.node_of(from_pe) == self.places.node_of(to_pe)
    }

    /// Returns the latency of the link between two PEs at a time, in nanoseconds; 0 if it is
    /// unknown, and inside a node.
    pub(crate) fn latency_ns(&self, from_pe: usize, to_pe: usize, at_ns: u64) -> f64 {
        if self.is_inside_node(from_pe, to_pe) {
            return 0.0;
        }
        let [from, to] = [from_pe, to_pe].map(|pe| self.places.site_of(pe));
        let state = self.traffic.link(from, to).and_then(|link| link.state(at_ns));
        state.map_or(0.0, |state| state.latency_ns)
    }

    /// Returns the parts of the travel time of a message between PEs of different nodes.
    pub(crate) fn parts(
        &self,
        [from_pe, to_pe]: [usize; 2],
        [sent_ns, received_ns]: [u64; 2],
        bytes: u32,
    ) -> Parts {
        let total = received_ns.saturating_sub(sent_ns) as f64;
        let [from, to] = [from_pe, to_pe].map(|pe| self.places.site_of(pe));
        let Some(link) = self.traffic.link(from, to) else {
            return Parts { delay: total, ..Parts::default() };
        };
        let Some(&LinkState { latency_ns, bytes_per_second, .. }) = link.state(sent_ns) else {
            return Parts { delay: total, ..Parts::default() };
        };
        let latency = total.min(latency_ns);
        let rest = total - latency;
        if rest <= TOLERANCE * latency_ns {
            return Parts { latency: total, ..Parts::default() };
        }
        let needed = bytes_per_second.map_or(0.0, |rate| {
            let own = f64::from(bytes);
            // Inside a site each pair of nodes has its own link, so other messages do not count.
            let all = match from == to {
                true => own,
                false => self.traffic.bytes_within(link, [sent_ns, received_ns]).max(own),
            };
            all * 1e9 / rate
        });
        match () {
            () if needed >= BANDWIDTH_PART_MIN * rest => {
                Parts { latency, bandwidth: rest, ..Parts::default() }
            }
            // `losses` determines whether losses explain this.
            () if link.loss > 0.0 => Parts { latency, loss: rest, ..Parts::default() },
            () => Parts { latency, delay: rest, ..Parts::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, recording};
    use super::super::profile::Profile;
    use super::*;
    use gridspan_record::{Recording, SentTo};

    /// The parts in ms of a message from PE 0 to PE 1, which is at another site 10 ms away.
    fn parts(recording: &Recording, times_ms: [u64; 2], bytes: u32) -> [f64; 4] {
        let places = Places::of(recording);
        let traffic = Traffic::of(recording, &places, &Profile::of(recording, &places));
        let transit = Transit { places: &places, traffic: &traffic };
        let Parts { latency, bandwidth, loss, delay } =
            transit.parts([0, 1], times_ms.map(|ms| ms * MS), bytes);
        [latency, bandwidth, loss, delay].map(|ns| ns / MS as f64)
    }

    fn far_apart() -> Recording {
        let mut recording = recording(2, 1);
        complete(&mut recording, 200);
        recording
    }

    #[test]
    fn latency_comes_first() {
        assert_eq!(parts(&far_apart(), [20, 30], 100), [10.0, 0.0, 0.0, 0.0]);
        assert_eq!(parts(&far_apart(), [20, 31], 100), [11.0, 0.0, 0.0, 0.0]);
        assert_eq!(parts(&far_apart(), [20, 26], 100), [6.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_large_message_and_much_traffic_need_bandwidth() {
        // 1 MB/s: 20 kB take 20 ms.
        assert_eq!(parts(&far_apart(), [20, 50], 20_000), [10.0, 20.0, 0.0, 0.0]);
        let mut recording = far_apart();
        recording.header.links.iter_mut().for_each(|link| link.loss = 0.2);
        recording.pes[0].bins[20].sent = vec![SentTo { site: 1, messages: 9, bytes: 50_000 }];
        assert_eq!(parts(&recording, [20, 80], 100), [10.0, 50.0, 0.0, 0.0]);
        assert_eq!(parts(&recording, [100, 160], 100), [10.0, 0.0, 50.0, 0.0]);
    }

    #[test]
    fn what_nothing_explains_is_a_delay() {
        assert_eq!(parts(&far_apart(), [20, 50], 100), [10.0, 0.0, 0.0, 20.0]);
        let mut recording = far_apart();
        recording.header.links.clear();
        assert_eq!(parts(&recording, [20, 50], 100), [0.0, 0.0, 0.0, 30.0]);
    }
}
