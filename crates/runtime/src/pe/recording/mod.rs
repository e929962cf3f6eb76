//! Recording of what a PE does, for reports after the job. Nothing is recorded unless the job asks
//! for it; then the PE has a [`Recording`].
//!
//! **Spans.** Each run of a handler is a span. Its times come from the driver's clock. In virtual
//! time, they are the time of the turn plus the time that handlers have charged. In a worker's
//! handler each task is a span; the handler's own span ends where the first task begins.
//!
//! **Clock reads.** For a short handler, reading the clock is a large part of the cost of
//! recording. So the PE reads it only at the end of each handler and for each message that it
//! sends: a handler begins when the one before it in the batch ends, and a message that has arrived
//! has the time of its packet.
//!
//! **Causes.** A message that leaves its PE carries a [trace](crate::message::trace): the sending
//! PE, its span, and the time. Inside a PE, the recording keeps this cause beside the message: in
//! `passing` while the message is delivered, in `held` while it waits for earlier messages or for
//! its receiver, and in `causes` while it is ready. Messages of a mailbox that moves with its actor
//! lose their traces.
//!
//! **Main** is no actor, so it has no spans. The recording of main's PE lists the answers for which
//! main has waited, with the times of main's requests.

pub(in crate::pe) mod causes;
pub(in crate::pe) mod records;
pub(in crate::pe) mod state;

use crate::address::id::{ActorId, KindId, Slot};
use crate::message::envelope::Header;
use crate::message::payload::Payload;
use crate::message::trace::Trace;
use crate::pe::Pe;
use crate::pe::core::Core;
use crate::pe::rank::{Rank, step_of};
use gridspan_record::{MainAnswer, MainWait, Span, SpanCause, TASK, TimeUse};
use gridspan_topology::{PeId, SiteId, Time};
use state::{Recording, SavedCause, TimerSetter};
use std::time::Duration;

impl Core {
    /// Begins to record, if the job is recorded.
    pub(in crate::pe) fn begin_recording(&mut self) {
        let Some(records) = &self.common.records else { return };
        let name = |(id, kind): (KindId, &'static dyn crate::pe::Kind)| {
            let tasks = self.common.task_names.get(&id);
            tasks.map_or_else(|| kind.name().to_owned(), |tasks| format!("worker of {tasks}"))
        };
        let pes = self.common.layout.place(self.common.layout.node_of(self.me)).pes.len();
        let recording = Recording::new(records, self.me.0, pes, self.common.kinds().map(name));
        self.lanes.causes = Some(Box::new(Recording::causes(records, pes)));
        self.recording = Some(Box::new(recording));
    }

    /// The time of the recording. The driver emulates a slower processor by a pause at the end of
    /// the turn; the recording makes each handler longer instead.
    fn recorded_ns(&self, recording: &Recording) -> u64 {
        self.recorded_after(recording, 0)
    }

    /// The time of the recording after `uncharged_ns` that the handler has used but not charged
    /// yet.
    fn recorded_after(&self, recording: &Recording, uncharged_ns: u64) -> u64 {
        let turn = self.driver_ns(self.now);
        let turn = match &self.clock {
            None => turn.saturating_add(recording.lead_ns).saturating_add(nanos(self.charged)),
            Some(clock) => {
                let computed = Duration::from_nanos(clock().saturating_sub(turn));
                turn.saturating_add(nanos(self.pace.takes(computed)))
            }
        };
        // In virtual time, tasks are charged when their handler ends.
        turn.saturating_add(recording.offset_ns)
            .saturating_add(self.uncharged(uncharged_ns))
            .max(recording.recorder.until_ns())
    }

    /// The time of the driver, which counts from the start of the run.
    fn driver_ns(&self, time: Time) -> u64 {
        time.0.saturating_sub(self.checkpointing.began.0)
    }

    /// Notes the cause of the message that has become ready last. `header`: the header of the
    /// message, or `None` for one that is being sent or has just arrived.
    #[cold]
    pub(in crate::pe) fn note_ready(&mut self, kind: KindId, rank: Rank, header: Option<&Header>) {
        let Some(mut recording) = self.recording.take() else { return };
        let cause = self.cause_of(&mut recording, header, header.is_none());
        recording.is_timed_ready |= recording.is_timed && cause.is_none();
        self.recording = Some(recording);
        if let (Some(causes), Some(cause)) = (&mut self.lanes.causes, cause) {
            causes.set_last(kind, rank, cause);
        }
    }

    /// Returns the cause of a message that is now delivered here or leaves for another PE. If the
    /// message has arrived or was held, its cause is known. Otherwise the cause names this PE and,
    /// if the message `is_new`, the running span. Messages of timers have no cause.
    fn cause_of(
        &self,
        recording: &mut Recording,
        header: Option<&Header>,
        is_new: bool,
    ) -> Option<SpanCause> {
        let known = recording.known_cause(header, is_new);
        if known.is_some() || recording.is_timed {
            return known;
        }
        let span = recording.current.filter(|_| is_new);
        Some(recording.sent_now(span, self.recorded_ns(recording)))
    }

    /// Adds a trace to the message that was put into the outbox last, and counts the message.
    /// `is_new`: whether this PE sends the message, rather than passing it on.
    #[cold]
    pub(in crate::pe) fn note_put_out(
        &mut self,
        to: PeId,
        (header, is_new): (&Header, bool),
        bytes: usize,
    ) {
        let Some(mut recording) = self.recording.take() else { return };
        let cause = self.cause_of(&mut recording, Some(header), is_new);
        let cause = cause.unwrap_or_else(|| recording.sent_now(None, self.recorded_ns(&recording)));
        let SpanCause { pe, span, sent_ns, .. } = cause;
        self.outbox.trace(to, Trace { pe, span, sent_ns }, bytes);
        if self.common.layout.knows(to) {
            let site = recording.site(self.common.site_of(to).0);
            recording.recorder.note_sent(site, bytes as u64);
        }
        self.recording = Some(recording);
    }

    /// Counts a message for many members, at these sites.
    pub(in crate::pe) fn note_cast(&mut self, sites: impl Iterator<Item = SiteId>, bytes: usize) {
        let Some(recording) = &mut self.recording else { return };
        for site in sites {
            let site = recording.site(site.0);
            recording.recorder.note_sent(site, bytes as u64);
        }
    }

    /// Returns the bytes of a message for many members. If the caller encodes the message anyway
    /// (`encoded`), these are the bytes on the wire. Otherwise they are an estimate, since a
    /// message that stays in its process may have a type that cannot be encoded.
    pub(in crate::pe) fn cast_bytes(
        &self,
        kind: KindId,
        message: &Payload,
        encoded: bool,
    ) -> usize {
        match encoded {
            true => message.to_bytes().len(),
            false => self.common.kind(kind).map_or(0, |kind| kind.payload_bytes(message)),
        }
    }

    /// Returns a payload that leaves this PE, with its trace while the job is recorded.
    pub(in crate::pe) fn traced(&self, payload: Payload) -> Payload {
        match &self.recording {
            None => payload,
            Some(recording) => payload.with_trace(recording.trace(self.recorded_ns(recording))),
        }
    }

    /// Takes the trace off a payload that has arrived. Until [`end_origin`](Self::end_origin), all
    /// messages that are delivered or sent have this trace as their cause.
    pub(in crate::pe) fn begin_origin(&mut self, payload: Payload) -> Payload {
        // Another PE may record although this one does not.
        let (payload, trace) = payload.take_trace();
        let Some(mut recording) = self.recording.take() else { return payload };
        if let Some(trace) = trace {
            let bytes = u32::try_from(payload.wire_len()).unwrap_or(u32::MAX);
            let origin = recording.arrived(trace, bytes, || self.recorded_ns(&recording));
            recording.origin = Some(origin);
        }
        self.recording = Some(recording);
        payload
    }

    /// Ends the origin that [`begin_origin`](Self::begin_origin) has begun.
    pub(in crate::pe) fn end_origin(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.origin = None;
        }
    }

    /// Notes that main waits for an answer in this slot.
    pub(in crate::pe) fn note_asked(&mut self, slot: u64, wait: MainWait) {
        let Some(asked_ns) = self.main_asks() else { return };
        if let Some(recording) = &mut self.recording {
            recording.asked.insert(slot, (asked_ns, wait));
        }
    }

    /// The time of the recording at which main makes a request, if the job is recorded.
    pub(in crate::pe) fn main_asks(&self) -> Option<u64> {
        self.recording.as_ref().map(|recording| self.recorded_ns(recording))
    }

    /// Notes that the answer in this slot has come, if main waits for it, or that no answer came in
    /// time. Call it between [`begin_origin`](Self::begin_origin) and
    /// [`end_origin`](Self::end_origin), so that the message of the answer is known.
    pub(in crate::pe) fn note_answered(&mut self, slot: u64, has_come: bool) {
        let Some(mut recording) = self.recording.take() else { return };
        if let Some((asked_ns, wait)) = recording.asked.remove(&slot) {
            let answered_ns = self.recorded_ns(&recording).max(asked_ns);
            let wait = if has_come { wait } else { MainWait::Time };
            let origin = recording.origin.as_ref().filter(|_| has_come);
            let span = origin.and_then(|origin| Some((origin.pe, origin.span?)));
            recording.recorder.note_answer(MainAnswer { asked_ns, answered_ns, wait, span });
        }
        self.recording = Some(recording);
    }

    /// Notes that a sleep of main that began at `asked_ns` is over.
    pub(in crate::pe) fn note_slept(&mut self, asked_ns: Option<u64>) {
        let Some(mut recording) = self.recording.take() else { return };
        if let Some(asked_ns) = asked_ns {
            let answered_ns = self.recorded_ns(&recording).max(asked_ns);
            let wait = MainWait::Time;
            let answer = MainAnswer { asked_ns, answered_ns, wait, span: None };
            recording.recorder.note_answer(answer);
        }
        self.recording = Some(recording);
    }

    /// Begins to deliver a message with this trace and size. A message without a trace is a copy of
    /// one whose origin is known, or is sent now.
    pub(in crate::pe) fn begin_passing(&mut self, traced: Option<(Trace, u32)>) {
        let Some(mut recording) = self.recording.take() else { return };
        let now_ns = || self.recorded_ns(&recording);
        let arrived = traced.map(|(trace, bytes)| recording.arrived(trace, bytes, now_ns));
        let cause = arrived.or_else(|| recording.origin.clone());
        let sent_now =
            || (!recording.is_timed).then(|| recording.sent_now(recording.current, now_ns()));
        let passing = cause.or_else(sent_now);
        recording.passing = passing;
        self.recording = Some(recording);
    }

    /// Ends the delivery of a message. If it waits, its cause is kept.
    pub(in crate::pe) fn end_passing(&mut self, header: &Header) {
        if let Some(recording) = &mut self.recording {
            recording.hold(header);
        }
    }

    /// Forgets the cause of a message that is dropped.
    pub(in crate::pe) fn forget_cause(&mut self, header: &Header) {
        if let Some(recording) = &mut self.recording {
            recording.forget(header);
        }
    }

    /// Saves the cause of a message while a copy of it, which has the same cause, is sent.
    pub(in crate::pe) fn save_cause(&self, header: &Header) -> Option<SavedCause> {
        self.recording.as_ref().map(|recording| recording.save(header))
    }

    /// Restores the cause that [`save_cause`](Self::save_cause) has saved.
    pub(in crate::pe) fn restore_cause(&mut self, header: &Header, saved: Option<SavedCause>) {
        if let (Some(recording), Some(saved)) = (&mut self.recording, saved) {
            recording.restore(header, saved);
        }
    }

    /// The running span, as the setter of a timer of this delay.
    pub(in crate::pe) fn timer_setter(&self, delay: Duration) -> Option<TimerSetter> {
        let span = self.recording.as_ref()?.current?;
        Some(TimerSetter { span, delay })
    }

    /// Sends the message of a timer, which has no cause. `set_by`: the span that set the timer.
    pub(in crate::pe) fn send_timed(
        &mut self,
        to: ActorId,
        set_by: Option<TimerSetter>,
        send: impl FnOnce(&mut Self),
    ) {
        if let Some(recording) = &mut self.recording {
            (recording.is_timed, recording.is_timed_ready) = (true, false);
        }
        send(self);
        if let Some(recording) = &mut self.recording {
            recording.is_timed = false;
            if let Some(set_by) = set_by.filter(|_| recording.is_timed_ready) {
                recording.add_timer(hash(to), set_by);
            }
        }
    }

    /// Begins the span of a handler. Call it once the message is taken out of its queue.
    /// `ended_ns`: when the previous handler of the batch ended, which is when this one begins.
    pub(in crate::pe) fn begin_span(&mut self, slot: Slot, rank: Rank, ended_ns: Option<u64>) {
        let causes = self.lanes.causes.as_mut();
        let (cause, ready) =
            causes.map_or((None, 0), |causes| (causes.pop(slot.kind, rank), causes.waiting()));
        if let Some(recording) = &mut self.recording {
            recording.recorder.note_queue(ready + 1);
        }
        let has_cause = cause.is_some();
        self.open_span(slot, step_of(rank.priority), cause, ended_ns);
        if !has_cause && self.recording.is_some() {
            self.note_timer(slot);
        }
    }

    /// Notes which span set the timer, if the message that is handled is that of a timer.
    #[cold]
    fn note_timer(&mut self, slot: Slot) {
        let receiver = hash(self.id_in(slot));
        let Some(recording) = &mut self.recording else { return };
        if let Some(set_by) = recording.take_timer(receiver) {
            recording.recorder.note_timed(set_by.span, nanos(set_by.delay));
        }
    }

    /// Begins the span of an actor's code outside message handlers.
    #[inline]
    pub(in crate::pe) fn begin_actor_span(&mut self, slot: Slot) {
        if self.recording.is_some() {
            self.open_span(slot, None, None, None);
        }
    }

    #[cold]
    fn open_span(
        &mut self,
        slot: Slot,
        step: Option<u64>,
        cause: Option<SpanCause>,
        ended_ns: Option<u64>,
    ) {
        let Some(mut recording) = self.recording.take() else { return };
        let at_ns = ended_ns.unwrap_or_else(|| self.recorded_ns(&recording));
        let actor = hash(self.id_in(slot));
        let span = Span { kind: slot.kind.0, actor, step, cause, ..Span::default() };
        recording.current = Some(recording.recorder.begin_span(at_ns, span));
        recording.charged = self.charged;
        self.recording = Some(recording);
    }

    /// Ends the span that [`begin_actor_span`](Self::begin_actor_span) has begun.
    #[inline]
    pub(in crate::pe) fn end_actor_span(&mut self, kind: KindId) {
        if self.recording.is_some() {
            self.close_span(kind, false);
        }
    }

    /// Ends the span of a handler of this type. Returns when it ended, for the next one of the
    /// batch; `None` in virtual time, which needs no clock.
    pub(in crate::pe) fn end_span(&mut self, kind: KindId) -> Option<u64> {
        let ended_ns = self.close_span(kind, true)?;
        self.clock.is_some().then_some(ended_ns)
    }

    /// Ends the running span, and returns when it ended. `is_message`: whether the span handled a
    /// message. In virtual time, such a span takes `message_cost` if the handler charged nothing.
    #[cold]
    fn close_span(&mut self, kind: KindId, is_message: bool) -> Option<u64> {
        let mut recording = self.recording.take()?;
        let mut at_ns = self.recorded_ns(&recording);
        if is_message && self.clock.is_none() && recording.charged == self.charged {
            at_ns = at_ns.saturating_add(nanos(recording.message_cost));
        }
        recording.recorder.end_span(at_ns);
        // If the handler ran tasks, the last one has ended the span. Count the rest of the handler.
        recording.recorder.note_busy(at_ns, kind.0);
        recording.current = None;
        self.recording = Some(recording);
        Some(at_ns)
    }

    /// Begins the span of a task inside a handler that has used `uncharged_ns` without a charge
    /// yet.
    pub(crate) fn begin_task(&mut self, uncharged_ns: u64) {
        let Some(mut recording) = self.recording.take() else { return };
        let at_ns = self.recorded_after(&recording, uncharged_ns);
        let span = Span { kind: TASK, ..Span::default() };
        recording.current = Some(recording.recorder.begin_span(at_ns, span));
        self.recording = Some(recording);
    }

    /// Ends the span of the latest task, or cancels it unless the task `has_run`: another PE may
    /// have taken the task.
    pub(crate) fn end_task(&mut self, uncharged_ns: u64, has_run: bool) {
        let Some(mut recording) = self.recording.take() else { return };
        let at_ns = self.recorded_after(&recording, uncharged_ns);
        match has_run {
            true => recording.recorder.end_span(at_ns),
            false => {
                recording.recorder.cancel_span();
                recording.current = None;
            }
        }
        self.recording = Some(recording);
    }

    fn uncharged(&self, ns: u64) -> u64 {
        match self.clock {
            None => nanos(self.pace.takes(Duration::from_nanos(ns))),
            Some(_) => 0,
        }
    }

    /// Notes that this PE has looked for tasks of others, and whether it found some.
    pub(crate) fn note_steal(&mut self, has_found: bool) {
        if let Some(recording) = &mut self.recording {
            recording.recorder.note_steal(has_found);
        }
    }
}

/// For drivers. Nothing here has an effect unless the job is recorded.
impl Pe {
    /// Whether the job is recorded.
    pub fn is_recorded(&self) -> bool {
        self.core.recording.is_some()
    }

    /// Sets the time of the recording at which the driver begins to count. This time never goes
    /// back. Before it, the PE had nothing to do, or its process did not exist.
    pub fn set_recording_offset(&mut self, offset: Duration) {
        if let Some(recording) = &mut self.core.recording {
            recording.begin_at(nanos(offset));
        }
    }

    /// In virtual time: begins a turn. The PE accepts packets for `lead` and then runs handlers;
    /// one that charges nothing takes `message_cost`. Call it after [`set_now`](Self::set_now).
    pub fn begin_recorded_turn(&mut self, lead: Duration, message_cost: Duration) {
        let now = Time(self.core.driver_ns(self.core.now));
        self.record_use(now, TimeUse::Idle);
        if let Some(recording) = &mut self.core.recording {
            (recording.lead_ns, recording.message_cost) = (nanos(lead), message_cost);
        }
        self.record_use(now + lead, TimeUse::Network);
    }

    /// Records what this PE did from the last recorded time up to `until`, a time of the driver.
    pub fn record_use(&mut self, until: Time, what: TimeUse) {
        if let Some(recording) = &mut self.core.recording {
            let until_ns = until.0.saturating_add(recording.offset_ns);
            recording.recorder.use_until(until_ns, what);
        }
    }

    /// Records that other programs had the processor for a part of the time since `from`. Until
    /// now, the recording has counted this part as busy.
    pub fn record_waited(&mut self, from: Time, waited: Duration) {
        if let Some(recording) = &mut self.core.recording {
            let from_ns = from.0.saturating_add(recording.offset_ns);
            recording.recorder.note_waited(from_ns, nanos(waited));
        }
    }

    /// Notes when the packet that is handled next has arrived; `None` if the driver does not say.
    pub(in crate::pe) fn note_arrival(&mut self, arrived_ns: Option<u64>) {
        if let Some(recording) = &mut self.core.recording {
            let offset_ns = recording.offset_ns;
            recording.arrived_ns = arrived_ns.map(|at_ns| at_ns.saturating_add(offset_ns));
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A hash of an actor, equal on all PEs; never 0, which stands for no actor.
fn hash(id: ActorId) -> u64 {
    let key = id.key.0;
    let parts = [u64::from(id.collection.0), (key >> 64) as u64, key as u64];
    // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after each part.
    let mixed = parts.into_iter().fold(0_u64, |hash, part| {
        let mut mixed = hash.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::CollectionId;
    use crate::address::index::Key;
    use std::collections::BTreeSet;

    #[test]
    fn actors_have_different_hashes() {
        let actor =
            |collection, key| ActorId { collection: CollectionId(collection), key: Key(key) };
        let keys = [0, 1, 1 << 64, (1 << 64) + 1, 1 << 96, u128::MAX];
        let hashes: BTreeSet<u64> =
            (0..50).flat_map(|collection| keys.map(|key| hash(actor(collection, key)))).collect();
        assert_eq!(hashes.len(), 50 * keys.len());
        assert!(!hashes.contains(&0));
    }
}
