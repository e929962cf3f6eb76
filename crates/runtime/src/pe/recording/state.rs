//! The recorder of a PE, and the causes of the messages that wait there.

use crate::address::id::ActorId;
use crate::message::envelope::Header;
use crate::message::trace::Trace;
use crate::pe::recording::causes::Causes;
use crate::pe::recording::records::{RecordSettings, Records};
use gridspan_record::{MainWait, Recorder, RecorderConfig, SpanCause, TimeUse};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Divisor of a PE's budget that gives the part for the causes of held messages, which wait for
/// earlier messages or their receiver. Causes of ready messages get as much, and the recorder gets
/// the rest.
const CAUSES_PART: usize = 8;

/// Identifies a message that waits, by receiver, sender, priority, number, and whether it is a
/// broadcast.
type HeldKey = (ActorId, ActorId, i32, u64, bool);

/// Bytes of the cause of a message that waits, in a map whose nodes are at least half full.
const HELD_BYTES: usize = 2 * size_of::<(HeldKey, SpanCause)>();

fn key(header: &Header) -> HeldKey {
    (header.to, header.source, header.priority, header.sequence, header.is_broadcast)
}

/// The recorder of a PE while the job is recorded.
pub(crate) struct Recording {
    records: Records,
    pub(super) recorder: Recorder,
    /// The time of the recording at which the driver begins to count.
    pub(super) offset_ns: u64,
    /// In virtual time: the time for which a turn accepts packets before it runs handlers.
    pub(super) lead_ns: u64,
    /// In virtual time: the time of a handler that charges nothing.
    pub(super) message_cost: Duration,
    /// The running span, or the last one of the running handler.
    pub(super) current: Option<u64>,
    /// Compute time that was charged in this turn before the running handler.
    pub(super) charged: Duration,
    /// When the packet that is being handled arrived at the node.
    pub(super) arrived_ns: Option<u64>,
    /// The cause of the message that is being delivered.
    pub(super) passing: Option<SpanCause>,
    /// The cause of all messages that are delivered or sent while the PE handles a multicast, a
    /// broadcast or an answer that has arrived.
    pub(super) origin: Option<SpanCause>,
    /// The unanswered requests of main: by the slot of the answer, the time of the request and what
    /// main waits for.
    pub(super) asked: BTreeMap<u64, (u64, MainWait)>,
    held: BTreeMap<HeldKey, SpanCause>,
    /// Maximum number of entries in `held`.
    held_max: usize,
    /// Whether the message that is being delivered comes from a timer. Such a message has no cause.
    pub(super) is_timed: bool,
    /// Whether that message has become ready on this PE.
    pub(super) is_timed_ready: bool,
    /// By receiver: the setters of the timers whose messages are ready, in order.
    timers: BTreeMap<u64, VecDeque<TimerSetter>>,
    /// Number of all entries of `timers`.
    timer_count: usize,
}

/// Maximum number of ready messages of timers whose setters are known. Entries of removed messages
/// may remain, so all are dropped at this number.
const TIMERS_MAX: usize = 1 << 16;

/// The span that set a timer, and the delay of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerSetter {
    pub(crate) span: u64,
    pub(crate) delay: Duration,
}

/// The cause of a message, saved while a copy of the message is sent.
pub(crate) struct SavedCause {
    passing: Option<SpanCause>,
    held: Option<SpanCause>,
}

impl Recording {
    /// Begins to record a PE. The `pes_of_node` PEs of its node share the budget of the node.
    pub(crate) fn new(
        records: &Records,
        pe: u32,
        pes_of_node: usize,
        types: impl Iterator<Item = String>,
    ) -> Self {
        let settings = records.settings();
        let budget = budget(settings, pes_of_node);
        let for_causes = budget / CAUSES_PART;
        let config = RecorderConfig::new(settings.pe(pe), types.collect(), budget - 2 * for_causes)
            .with_first_span(settings.first_span());
        Self {
            recorder: records.begin(config),
            records: records.clone(),
            offset_ns: 0,
            lead_ns: 0,
            message_cost: Duration::ZERO,
            current: None,
            charged: Duration::ZERO,
            arrived_ns: None,
            passing: None,
            origin: None,
            asked: BTreeMap::new(),
            held: BTreeMap::new(),
            held_max: for_causes / HELD_BYTES,
            is_timed: false,
            is_timed_ready: false,
            timers: BTreeMap::new(),
            timer_count: 0,
        }
    }

    /// The causes of ready messages, which take a part of the PE's budget.
    pub(super) fn causes(records: &Records, pes_of_node: usize) -> Causes {
        Causes::new(budget(records.settings(), pes_of_node) / CAUSES_PART)
    }

    /// Begins at this time of the recording, or at the end of the previous run if that is later:
    /// the clock of the host may have been set back since.
    pub(super) fn begin_at(&mut self, offset_ns: u64) {
        self.offset_ns = offset_ns.max(self.recorder.until_ns());
        let is_first_run = self.records.settings().run == 0;
        if !is_first_run && self.recorder.until_ns() == 0 {
            // The process was started for this run.
            self.recorder.begin_at(self.offset_ns);
        }
        self.recorder.use_until(self.offset_ns, TimeUse::Idle);
    }

    /// The number of a site in the recording.
    pub(super) fn site(&self, site: u32) -> u32 {
        self.records.settings().site(site)
    }

    /// Takes the cause of a message that is now delivered here or leaves for another PE: its own,
    /// or that of the multicast, broadcast or answer under way. `None` for a message that is sent
    /// now without one of these.
    pub(super) fn known_cause(
        &mut self,
        header: Option<&Header>,
        is_new: bool,
    ) -> Option<SpanCause> {
        let known = self.passing.take().or_else(|| {
            let header = header.filter(|_| !is_new && !self.held.is_empty())?;
            self.held.remove(&key(header))
        });
        known.or_else(|| self.origin.clone())
    }

    /// The cause of a message that a span of this PE, or the runtime, sends now.
    pub(super) fn sent_now(&self, span: Option<u64>, now_ns: u64) -> SpanCause {
        let pe = self.recorder.pe();
        SpanCause { pe, span, sent_ns: now_ns, received_ns: now_ns, bytes: 0 }
    }

    /// The trace of a message that is sent now.
    pub(super) fn trace(&self, now_ns: u64) -> Trace {
        Trace { pe: self.recorder.pe(), span: self.current, sent_ns: now_ns }
    }

    /// The cause of a message of this trace and size that has arrived. `now_ns` is called only if
    /// the driver did not state when it arrived.
    pub(super) fn arrived(
        &self,
        trace: Trace,
        bytes: u32,
        now_ns: impl FnOnce() -> u64,
    ) -> SpanCause {
        let Trace { pe, span, sent_ns } = trace;
        let received_ns = self.arrived_ns.unwrap_or_else(now_ns);
        SpanCause { pe, span, sent_ns, received_ns, bytes }
    }

    /// Notes that a message of a timer to this receiver is ready, and the setter of the timer.
    pub(super) fn add_timer(&mut self, receiver: u64, set_by: TimerSetter) {
        if self.timer_count >= TIMERS_MAX {
            self.timers.clear();
            self.timer_count = 0;
        }
        self.timer_count += 1;
        self.timers.entry(receiver).or_default().push_back(set_by);
    }

    /// Returns the setter of the timer whose message this receiver handles now.
    pub(super) fn take_timer(&mut self, receiver: u64) -> Option<TimerSetter> {
        let set_by = self.timers.get_mut(&receiver)?;
        let first = set_by.pop_front();
        self.timer_count -= usize::from(first.is_some());
        if set_by.is_empty() {
            self.timers.remove(&receiver);
        }
        first
    }

    /// Keeps the cause of a message that waits instead of being delivered.
    pub(super) fn hold(&mut self, header: &Header) {
        let Some(cause) = self.passing.take() else { return };
        if self.held.len() >= self.held_max {
            // Some of these messages may have left in a way that the recording does not see.
            self.held.clear();
        }
        if self.held_max > 0 {
            self.held.insert(key(header), cause);
        }
    }

    /// Forgets the cause of a message that is dropped.
    pub(super) fn forget(&mut self, header: &Header) {
        if self.passing.take().is_none() {
            self.held.remove(&key(header));
        }
    }

    /// Saves the cause of a message, if it is known, before a copy of the message is sent.
    pub(super) fn save(&self, header: &Header) -> SavedCause {
        let held = self.held.get(&key(header)).cloned();
        SavedCause { passing: self.passing.clone(), held }
    }

    /// Restores the cause of a message after a copy of the message was sent.
    pub(super) fn restore(&mut self, header: &Header, saved: SavedCause) {
        self.passing = saved.passing;
        if let Some(held) = saved.held {
            self.held.insert(key(header), held);
        }
    }
}

/// The budget of a PE in bytes, if its node has this number of PEs.
fn budget(settings: &RecordSettings, pes_of_node: usize) -> usize {
    usize::try_from(settings.node_bytes).unwrap_or(usize::MAX) / pes_of_node.max(1)
}

impl Drop for Recording {
    /// Keeps the recorder, however the PE's run has ended.
    fn drop(&mut self) {
        let nothing = Recorder::new(RecorderConfig::new(0, Vec::new(), 0));
        self.records.keep(std::mem::replace(&mut self.recorder, nothing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setters_of_timers_are_taken_in_order_and_take_bounded_memory() {
        let records = Records::new(RecordSettings::new(1 << 20));
        let mut recording = Recording::new(&records, 0, 1, std::iter::empty());
        let by = |span| TimerSetter { span, delay: Duration::from_millis(span) };
        recording.add_timer(7, by(1));
        recording.add_timer(7, by(2));
        recording.add_timer(8, by(3));
        let taken = [7, 7, 7, 8].map(|receiver| recording.take_timer(receiver));
        assert_eq!(taken, [Some(by(1)), Some(by(2)), None, Some(by(3))]);
        assert_eq!((recording.timer_count, recording.timers.len()), (0, 0));

        for span in 0..3 * TIMERS_MAX as u64 {
            recording.add_timer(7, by(span));
        }
        assert!(recording.timer_count <= TIMERS_MAX);
        assert_eq!(recording.timers[&7].len(), recording.timer_count);
    }
}
