//! The recorder of a PE, and what it knows of the messages that arrive.

use crate::address::id::ActorId;
use crate::message::envelope::Header;
use crate::message::trace::Trace;
use crate::pe::recording::records::Records;
use gridspan_record::{Recorder, RecorderConfig, SpanCause};
use std::collections::BTreeMap;
use std::time::Duration;

/// Largest number of messages that wait for their turn, or for their receiver, whose causes are
/// kept. Further ones have none.
const HELD_MAX: usize = 1 << 16;

/// What identifies a message that waits: receiver, sender, channel, number, and whether it is a
/// broadcast.
type HeldKey = (ActorId, ActorId, i32, u64, bool);

fn key(header: &Header) -> HeldKey {
    (header.to, header.source, header.priority, header.sequence, header.is_broadcast)
}

/// The recorder of a PE while the job is recorded.
pub(crate) struct Recording {
    records: Records,
    pub(super) recorder: Recorder,
    /// What is added to times of the driver.
    pub(super) offset_ns: u64,
    /// In virtual time: what is added to the time of the turn, since packets are accepted first.
    pub(super) lead_ns: u64,
    /// In virtual time: the time of a handler that charges nothing.
    pub(super) message_cost: Duration,
    /// The running span, or the last one of the running handler.
    pub(super) current: Option<u64>,
    /// Compute time that was charged in this turn before the running handler.
    pub(super) charged: Duration,
    /// When the packet that is being handled has arrived at the node.
    pub(super) arrived_ns: Option<u64>,
    /// The cause of the message that is being delivered.
    pub(super) passing: Option<SpanCause>,
    /// The cause of all messages that are being delivered or sent: a multicast, a broadcast or an
    /// answer.
    pub(super) origin: Option<SpanCause>,
    held: BTreeMap<HeldKey, SpanCause>,
}

impl Recording {
    /// Begins to record a PE of a node, which shares the bytes of the node with its other PEs.
    pub(crate) fn new(
        records: &Records,
        pe: u32,
        pes_of_node: usize,
        types: impl Iterator<Item = String>,
    ) -> Self {
        let settings = records.settings();
        let budget = usize::try_from(settings.node_bytes).unwrap_or(usize::MAX);
        let budget = budget / pes_of_node.max(1);
        let config = RecorderConfig::new(settings.pe(pe), types.collect(), budget)
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
            held: BTreeMap::new(),
        }
    }

    /// The number of a site in the recording.
    pub(super) fn site(&self, site: u32) -> u32 {
        self.records.settings().site(site)
    }

    /// Returns the cause of a message that is delivered here, or leaves for another PE, now. It has
    /// arrived, or was held before; otherwise, if it `is_new`, it is sent now by what runs here.
    pub(super) fn cause_of(
        &mut self,
        header: Option<&Header>,
        is_new: bool,
        now_ns: u64,
    ) -> SpanCause {
        let known = self.passing.take().or_else(|| {
            let header = header.filter(|_| !self.held.is_empty())?;
            self.held.remove(&key(header))
        });
        let sent_now = || self.sent_now(self.current.filter(|_| is_new), now_ns);
        known.or_else(|| self.origin.clone()).unwrap_or_else(sent_now)
    }

    /// The cause of a message that a span of this PE sends now, or the runtime.
    pub(super) fn sent_now(&self, span: Option<u64>, now_ns: u64) -> SpanCause {
        let pe = self.recorder.pe();
        SpanCause { pe, span, sent_ns: now_ns, received_ns: now_ns, bytes: 0 }
    }

    /// The trace of a message that is sent now.
    pub(super) fn trace(&self, now_ns: u64) -> Trace {
        Trace { pe: self.recorder.pe(), span: self.current, sent_ns: now_ns }
    }

    /// The cause of a message of this trace and size that has arrived.
    pub(super) fn arrived(&self, trace: Trace, bytes: u32, now_ns: u64) -> SpanCause {
        let Trace { pe, span, sent_ns } = trace;
        let received_ns = self.arrived_ns.unwrap_or(now_ns);
        SpanCause { pe, span, sent_ns, received_ns, bytes }
    }

    /// Keeps the cause of the message that was being delivered, if it waits.
    pub(super) fn hold(&mut self, header: &Header) {
        if let Some(cause) = self.passing.take()
            && self.held.len() < HELD_MAX
        {
            self.held.insert(key(header), cause);
        }
    }
}

impl Drop for Recording {
    /// Keeps what was recorded when the PE's run has ended, however it did.
    fn drop(&mut self) {
        let nothing = Recorder::new(RecorderConfig::new(0, Vec::new(), 0));
        self.records.keep(std::mem::replace(&mut self.recorder, nothing));
    }
}
