//! Recordings whose times follow from a recurrence, for tests.

use gridspan_record::{
    Header, JobEnding, PeRecord, RecordedLink, RecordedNode, RecordedPe, Recording, Span, SpanCause,
};

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Two actors at two sites: each computes, sends to the other, and goes on when it has received the
/// other's message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) rounds: usize,
    /// Time to compute, for each of the two.
    pub(crate) compute_ns: [u64; 2],
    /// Latency between the sites.
    pub(crate) latency_ns: u64,
}

impl Exchange {
    /// When each round of each actor begins, after main has sent to both at 0.
    pub(crate) fn begins(&self) -> Vec<[u64; 2]> {
        let Self { rounds, compute_ns, latency_ns } = *self;
        let mut begins = vec![[0, latency_ns]];
        while begins.len() < rounds {
            let [a, b] = begins[begins.len() - 1];
            let ends = [a + compute_ns[0], b + compute_ns[1]];
            begins.push([ends[0].max(ends[1] + latency_ns), ends[1].max(ends[0] + latency_ns)]);
        }
        begins
    }

    /// When main knows that both have ended.
    pub(crate) fn end_ns(&self) -> u64 {
        let [a, b] = self.begins()[self.rounds - 1];
        (a + self.compute_ns[0]).max(b + self.compute_ns[1] + self.latency_ns)
    }

    /// Returns the recording of the exchange.
    pub(crate) fn recording(&self) -> Recording {
        let begins = self.begins();
        let record = |pe: usize| {
            let span = |round: usize| {
                let other = 1 - pe;
                let (from, span, sent_ns) = match round {
                    0 => (0, None, 0),
                    _ => {
                        let sent_ns = begins[round - 1][other] + self.compute_ns[other];
                        (other as u32, Some(round as u64 - 1), sent_ns)
                    }
                };
                let is_far = from as usize != pe;
                let received_ns = sent_ns + if is_far { self.latency_ns } else { 0 };
                Span {
                    number: round as u64,
                    begin_ns: begins[round][pe],
                    duration_ns: self.compute_ns[pe],
                    actor: pe as u64 + 100,
                    cause: Some(SpanCause { pe: from, span, sent_ns, received_ns, bytes: 0 }),
                    ..Span::default()
                }
            };
            PeRecord {
                pe: pe as u32,
                types: vec!["Patch".to_owned()],
                spans: (0..self.rounds).map(span).collect(),
                ..PeRecord::default()
            }
        };
        let ending = JobEnding { at_ns: self.end_ns(), ..JobEnding::default() };
        let pes = vec![record(0), record(1)];
        Recording { header: self.header(), ending: Some(ending), pes, ..Recording::default() }
    }

    fn header(&self) -> Header {
        let link = |from, to| {
            let latency_us = if from == to { 50.0 } else { self.latency_ns as f64 / 1e3 };
            RecordedLink { from, to, latency_us, ..RecordedLink::default() }
        };
        Header {
            sites: vec!["a".to_owned(), "b".to_owned()],
            nodes: (0..2).map(|site| RecordedNode { site, ..RecordedNode::default() }).collect(),
            pes: (0..2).map(|node| RecordedPe { node, speed: 1.0 }).collect(),
            links: vec![link(0, 0), link(0, 1), link(1, 0), link(1, 1)],
            ..Header::default()
        }
    }
}
