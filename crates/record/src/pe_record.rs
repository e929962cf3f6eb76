//! What one PE has recorded: spans, bins of time, and totals by type.

use crate::answer::MainAnswer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// The [`Span::kind`] of tasks.
pub const TASK: u16 = u16::MAX - 1;
/// The [`Span::kind`] of work of the runtime itself.
pub const OTHER: u16 = u16::MAX;
/// Maximum number of bins of a PE: a timeline on a wide screen has fewer pixels.
pub const BINS_MAX: usize = 2048;

/// What one PE has recorded.
///
/// ```
/// use gridspan_record::{PeRecord, Span};
///
/// let span = Span { begin_ns: 1_000, duration_ns: 500, ..Span::default() };
/// let record =
///     PeRecord { types: vec!["Patch".to_owned()], spans: vec![span], ..PeRecord::default() };
/// assert_eq!(record.spans[0].end_ns(), 1_500);
/// assert_eq!(record.type_name(record.spans[0].kind), "Patch");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeRecord {
    /// Number of the PE.
    pub pe: u32,
    /// Start of its process, if that started during the job; nothing is known of the time before. 0
    /// for a process of the first run.
    pub began_ns: u64,
    /// Names of the actor types, by number. [`TASK`] and [`OTHER`] have no entry.
    #[serde(deserialize_with = "types")]
    pub types: Vec<String>,
    /// Width of a bin.
    pub bin_ns: u64,
    /// Bins from the start of the job, at most [`BINS_MAX`]; those before `began_ns` are empty.
    #[serde(deserialize_with = "bins")]
    pub bins: Vec<Bin>,
    /// Totals by type, exact for the whole run; in the order of type numbers.
    #[serde(deserialize_with = "totals")]
    pub totals: Vec<TypeTotal>,
    /// Spans are kept or dropped by windows of this width, the same windows on all PEs.
    pub window_ns: u64,
    /// Spans of window `n`, which begins at `n * window_ns`, are kept if `n % kept_every == 0`. A
    /// power of two.
    pub kept_every: u32,
    /// The kept spans, in the order of their numbers and of their begins.
    pub spans: Vec<Span>,
    /// Spans that were dropped.
    pub dropped_spans: u64,
    /// The answers to requests of main, in the order in which they came, since version 3. Empty for
    /// PEs without main, and if there were too many. In the file they follow the record.
    #[serde(skip)]
    pub answers: Vec<MainAnswer>,
    /// The spans that handled messages of timers, in the order of their numbers, since version 3.
    /// Empty if there were too many. In the file they follow the answers.
    #[serde(skip)]
    pub timed: Vec<TimedSpan>,
}

impl PeRecord {
    /// Returns the end of the last span, or the begin of the last bin if that is later. The record
    /// lasts at least until then.
    pub(crate) fn known_until_ns(&self) -> u64 {
        let last_bin = self.bins.len().saturating_sub(1) as u64;
        let spans = self.spans.iter().map(Span::end_ns).max().unwrap_or(0);
        last_bin.saturating_mul(self.bin_ns).max(spans)
    }

    /// Returns the name of a type number.
    pub fn type_name(&self, kind: u16) -> &str {
        match kind {
            TASK => "task",
            OTHER => "runtime",
            _ => self.types.get(usize::from(kind)).map_or("unknown", String::as_str),
        }
    }
}

impl Default for PeRecord {
    fn default() -> Self {
        Self {
            pe: 0,
            began_ns: 0,
            types: Vec::new(),
            bin_ns: 1_000_000,
            bins: Vec::new(),
            totals: Vec::new(),
            window_ns: 10_000_000,
            kept_every: 1,
            spans: Vec::new(),
            dropped_spans: 0,
            answers: Vec::new(),
            timed: Vec::new(),
        }
    }
}

fn types<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    at_most(usize::from(TASK), from)
}

fn bins<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Bin>, D::Error> {
    at_most(BINS_MAX, from)
}

fn totals<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<TypeTotal>, D::Error> {
    at_most(usize::from(u16::MAX) + 1, from)
}

/// Reads a list of at most `most` elements. An element takes much more memory than its encoded
/// bytes.
fn at_most<'de, T, D>(most: usize, from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_seq(AtMost { most, elements: PhantomData })
}

struct AtMost<T> {
    most: usize,
    elements: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} elements", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = from.next_element()? {
            if elements.len() == self.most {
                return Err(A::Error::custom("a list has too many elements"));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

/// The time and the traffic of a PE in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Time in handlers and tasks by type number, in the order of numbers.
    pub busy_ns: Vec<(u16, u64)>,
    /// Time in the network.
    pub network_ns: u64,
    /// Idle time.
    pub idle_ns: u64,
    /// Time in which the PE was ready while other threads had the processor.
    pub waited_ns: u64,
    /// Messages that it sent, by site, in the order of sites.
    pub sent: Vec<SentTo>,
    /// The highest step of the actors that it ran, plus one; 0 if there was no step.
    pub steps: u64,
    /// The largest number of ready messages.
    pub queue: u32,
    /// Successful steals of tasks.
    pub steals: u32,
    /// Requests for tasks.
    pub steal_attempts: u32,
}

impl Bin {
    /// Adds busy time of a type.
    pub(crate) fn add_busy(&mut self, kind: u16, ns: u64) {
        match self.busy_ns.binary_search_by_key(&kind, |(kind, _)| *kind) {
            Ok(at) => self.busy_ns[at].1 = self.busy_ns[at].1.saturating_add(ns),
            Err(at) => self.busy_ns.insert(at, (kind, ns)),
        }
    }

    pub(crate) fn add_sent(&mut self, site: u32, messages: u32, bytes: u64) {
        match self.sent.binary_search_by_key(&site, |sent| sent.site) {
            Ok(at) => {
                let sent = &mut self.sent[at];
                sent.messages = sent.messages.saturating_add(messages);
                sent.bytes = sent.bytes.saturating_add(bytes);
            }
            Err(at) => self.sent.insert(at, SentTo { site, messages, bytes }),
        }
    }

    /// Adds the content of another bin.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (kind, ns) in &other.busy_ns {
            self.add_busy(*kind, *ns);
        }
        for sent in &other.sent {
            self.add_sent(sent.site, sent.messages, sent.bytes);
        }
        self.network_ns = self.network_ns.saturating_add(other.network_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.steps = self.steps.max(other.steps);
        self.queue = self.queue.max(other.queue);
        self.steals = self.steals.saturating_add(other.steals);
        self.steal_attempts = self.steal_attempts.saturating_add(other.steal_attempts);
    }
}

/// Merges each second bin into the one before it. The width of a bin doubles.
pub(crate) fn widen(bins: &mut Vec<Bin>) {
    for at in 0..bins.len().div_ceil(2) {
        let mut merged = std::mem::take(&mut bins[2 * at]);
        if let Some(second) = bins.get(2 * at + 1) {
            merged.absorb(second);
        }
        bins[at] = merged;
    }
    bins.truncate(bins.len().div_ceil(2));
}

/// Messages from a PE to the PEs of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentTo {
    /// Number of the site.
    pub site: u32,
    /// Number of messages.
    pub messages: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// The runs of the handlers of one type, on one PE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTotal {
    /// Number of the type.
    pub number: u16,
    /// Number of runs.
    pub count: u64,
    /// Total time of the runs.
    pub total_ns: u64,
    /// Time of the longest run.
    pub max_ns: u64,
}

/// One run of a handler or a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its number on its PE. Dropped spans have numbers, too. The first is 0, or higher if the PE
    /// was started again.
    pub number: u64,
    /// When it began.
    pub begin_ns: u64,
    /// How long it ran.
    pub duration_ns: u64,
    /// Number of the type of the actor, or [`TASK`] or [`OTHER`].
    pub kind: u16,
    /// Hash of collection and index of the actor, equal on all PEs; 0 for tasks.
    pub actor: u64,
    /// The step of the actor, if it has stated one.
    pub step: Option<u64>,
    /// The message that it handled, if it handled one.
    pub cause: Option<SpanCause>,
}

impl Span {
    /// Returns when the span ended.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.duration_ns)
    }
}

/// A span that handled the message of a timer. It has no [`SpanCause`].
///
/// ```
/// use gridspan_record::TimedSpan;
///
/// // The second handler of the PE has set a timer, whose message is handled by the fifth.
/// let timed = TimedSpan { number: 4, set_by: 1, delay_ns: 5_000_000 };
/// assert!(timed.set_by < timed.number);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedSpan {
    /// Number of the span.
    pub number: u64,
    /// Number of the span on the same PE that set the timer.
    pub set_by: u64,
    /// Time from the setting of the timer until it was due, in nanoseconds. The span began later if
    /// the PE had something else to do.
    pub delay_ns: u64,
}

/// The message that a span handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanCause {
    /// Number of the sending PE.
    pub pe: u32,
    /// Number of the span that sent it; `None` if main or the runtime did.
    pub span: Option<u64>,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the PE received it.
    pub received_ns: u64,
    /// Its size in bytes; 0 if it did not leave the PE, or if its size is not known because it came
    /// as a value from the same process.
    pub bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::{Bin, SentTo, widen};

    #[test]
    fn widening_keeps_sums_and_maxima() {
        let bin = |kind, ns, site, queue| {
            let mut bin = Bin { queue, idle_ns: 10, steps: u64::from(queue), ..Bin::default() };
            bin.add_busy(kind, ns);
            bin.add_sent(site, 1, 100);
            bin
        };
        let mut bins = vec![bin(1, 5, 0, 3), bin(0, 7, 0, 9), bin(1, 2, 1, 4)];

        widen(&mut bins);

        assert_eq!(bins.len(), 2);
        assert_eq!(bins[0].busy_ns, [(0, 7), (1, 5)]);
        assert_eq!(bins[0].sent, [SentTo { site: 0, messages: 2, bytes: 200 }]);
        assert_eq!((bins[0].idle_ns, bins[0].queue, bins[0].steps), (20, 9, 9));
        assert_eq!(bins[1], bin(1, 2, 1, 4));
    }
}
