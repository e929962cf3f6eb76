//! What a driver does after a turn of a PE.

use super::checkpoint::captured_part::CapturedPart;
use super::{Pe, PeCommand};
use crate::message::Packet;
use gridspan_topology::{PeId, Time};
use std::time::Duration;
use std::vec::Drain;

/// What a turn leaves for the driver.
pub struct TurnOutput<'a> {
    /// Compute time that handlers charged.
    pub charged: Duration,
    /// Bytes of the PE's part of a checkpoint that were encoded.
    pub encoded: u64,
    /// Commands, which the driver carries out before it sends the packets.
    pub commands: Vec<PeCommand>,
    /// The packets to be sent, in order.
    pub packets: Drain<'a, (PeId, Packet)>,
}

/// What a PE does next if nothing arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Takes another turn: messages are ready, or actors are to be encoded for a checkpoint.
    Turn,
    /// Waits.
    Wait {
        /// The time at which [`Pe::finish_turn`] has work.
        wakeup: Option<Time>,
        /// The time at which the PE should compute for [`TRIAL`](super::TRIAL), only to measure the
        /// processor time that it gets; the driver reports that by [`Pe::note_trial`]. `None`
        /// unless other programs have slowed the PE.
        trial: Option<Time>,
    },
}

impl Pe {
    /// Removes and returns what the PE has produced since the last call.
    pub fn take_output(&mut self) -> TurnOutput<'_> {
        TurnOutput {
            charged: std::mem::take(&mut self.core.charged),
            encoded: std::mem::take(&mut self.core.encoded_bytes),
            commands: std::mem::take(&mut self.core.commands),
            packets: self.core.outbox.drain(),
        }
    }

    /// What the PE does next if nothing arrives. If it must not handle messages, it does not do so
    /// even if some are ready. If it has failed, it waits for the end of the job.
    pub fn next(&self, may_handle: bool) -> Next {
        let core = &self.core;
        let has_failed = core.failure.is_some();
        let is_stopped = core.checkpointing.is_stopped;
        let handles = may_handle && !is_stopped && !core.lanes.is_empty();
        let captured = core.checkpointing.captured.as_ref();
        if !has_failed && (handles || captured.is_some_and(CapturedPart::is_to_encode)) {
            return Next::Turn;
        }
        let timer = core.timers.next().filter(|_| !is_stopped);
        let room_at = core.checkpointing.sending.room_at;
        let report_at = core.checkpointing.reported.as_ref().and_then(|reported| reported.due);
        let [passes_up, asks] = [core.next_accumulator(), core.delivery.next_deadline()];
        let deadlines = [timer, passes_up, asks, room_at, report_at];
        // Drivers count from the start of the run.
        let driver_time = |at: Time| Time(at.0.saturating_sub(core.checkpointing.began.0));
        let measures = core.measures.as_ref().filter(|_| !has_failed);
        Next::Wait {
            wakeup: deadlines.into_iter().flatten().min().map(driver_time),
            trial: measures.and_then(|measures| measures.time.next_trial()).map(driver_time),
        }
    }
}
