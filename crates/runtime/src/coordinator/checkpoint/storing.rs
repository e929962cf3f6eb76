//! Waits until all parts of a captured checkpoint are encoded, stored and copied, and tells all
//! nodes that it is complete.

use crate::address::id::MAIN_PE;
use crate::coordinator::checkpoint::deadline::STEP_MAX;
use crate::coordinator::checkpoint::image::too_large;
use crate::coordinator::machine::Coordinator;
use crate::coordinator::state::checkpoint::Keeping;
use crate::error::Warning;
use crate::message::{CheckpointMessage, Manifest, PartSummary};
use crate::pe::{CheckpointReport, CopiesRemade};
use gridspan_topology::{NodeId, PeId};
use std::time::Duration;

/// Time of a PE, in nanoseconds, to send a byte to another node and to receive one, over QUIC and
/// with all copies in memory, on processors of 2026 (`checkpoint_cost`).
const COPY_NS_PER_BYTE: u64 = 2;

impl Coordinator {
    pub(super) fn note_encoded(
        &mut self,
        from: PeId,
        checkpoint: u64,
        (part, took): (PartSummary, Duration),
    ) {
        let is_pause = self.checkpoints.is_paused();
        let copying = if is_pause { Duration::ZERO } else { self.copying_time(from, &part) };
        let Some(keeping) = &mut self.checkpoints.keeping else { return };
        if keeping.number != checkpoint {
            return;
        }
        keeping.parts.insert(from, part);
        keeping.encoding = keeping.encoding.max(took);
        keeping.copying = keeping.copying.max(copying);
        keeping.note_progress(self.now);
        self.complete_checkpoint();
    }

    /// Returns the time that the copies of a PE's part take at the bandwidth for copies.
    fn copying_time(&self, pe: PeId, part: &PartSummary) -> Duration {
        let (layout, settings) = (&self.common.layout, &self.common.run.checkpoints);
        if settings.copy_rate.is_none() {
            return Duration::ZERO;
        }
        let node = layout.node_of(pe);
        let partners = self.common.partners(node, &[]).into_iter();
        let time = |partner| settings.copy_time(layout, [node, partner], part.bytes());
        partners.map(time).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Estimates the time that a PE takes to send and receive the copies of a checkpoint, from the
    /// bytes of the largest part.
    fn copying_work(&self, parts: &[PartSummary]) -> Duration {
        let others = self.common.layout.node_count().saturating_sub(1);
        let copies = self.common.run.checkpoints.copies.saturating_sub(1).min(others);
        let bytes = parts.iter().map(PartSummary::bytes).max().unwrap_or_default();
        Duration::from_nanos(bytes.saturating_mul(COPY_NS_PER_BYTE)) * copies
    }

    pub(super) fn note_kept(&mut self, checkpoint: u64, part: (PeId, NodeId)) {
        if checkpoint == self.checkpoints.restored {
            return self.note_copied_again(checkpoint, part);
        }
        let Some(keeping) = &mut self.checkpoints.keeping else { return };
        if keeping.number != checkpoint || !keeping.missing.remove(&part) {
            return;
        }
        keeping.note_progress(self.now);
        self.complete_checkpoint();
    }

    /// Notes that a part of the checkpoint from which the job continues has another copy again.
    /// Reports when all have.
    fn note_copied_again(&mut self, checkpoint: u64, part: (PeId, NodeId)) {
        let uncopied = &mut self.checkpoints.uncopied;
        if uncopied.remove(&part) && uncopied.is_empty() {
            let at = self.now;
            let told = CopiesRemade { at, checkpoint };
            self.common.watch.on_copies_remade.iter().for_each(|tell| tell(&told));
        }
    }

    /// Gives up a checkpoint of which a part cannot be kept. The one from which the job continues
    /// stays valid if a copy cannot be made again: then warns once, and main makes the next
    /// checkpoint early.
    pub(super) fn note_not_kept(&mut self, checkpoint: u64, reason: String) {
        if self.checkpoints.restored == checkpoint && self.checkpoints.restoring.is_none() {
            self.checkpoints.forget_restored();
            self.post_checkpoint(MAIN_PE, CheckpointMessage::LacksCopy);
            return self.warn(&Warning::CopyNotKept { checkpoint, reason });
        }
        if self.checkpoints.keeping.take_if(|it| it.number == checkpoint).is_some() {
            let told = reason.clone();
            let warning = Warning::CheckpointNotKept { checkpoint, reason: told };
            self.give_up_captured(checkpoint, &warning, reason);
        }
    }

    /// Gives up a captured checkpoint that is not complete: warns, and lets PEs forget what they
    /// have captured, and continue if they are stopped.
    pub(super) fn give_up_captured(&mut self, checkpoint: u64, warning: &Warning, reason: String) {
        self.warn(warning);
        match self.checkpoints.is_paused() {
            true => self.end_making(reason),
            false => self.post_checkpoint_to_all(|| CheckpointMessage::Resume { checkpoint }),
        }
    }

    /// Sends the manifest to all nodes once all parts are kept.
    fn complete_checkpoint(&mut self) {
        let pes = self.common.layout.pe_count() as usize;
        let is_kept = |it: &mut Keeping| it.missing.is_empty() && it.parts.len() == pes;
        let Some(keeping) = self.checkpoints.keeping.take_if(is_kept) else { return };
        let parts: Vec<PartSummary> = keeping.parts.into_values().collect();
        let bytes = parts.iter().map(PartSummary::bytes).fold(0, u64::saturating_add);
        let stored = self.now.since(keeping.since);
        let work = keeping.encoding.saturating_add(self.copying_work(&parts).min(stored));
        let cost = keeping.stopped.saturating_add(work);
        let manifest = Manifest { parts, cost, ..keeping.manifest };
        let encoded = manifest.encode(&keeping.speeds);
        if let Some(reason) = too_large(&manifest, encoded.len()) {
            let (checkpoint, told) = (keeping.number, reason.clone());
            let warning = Warning::CheckpointNotKept { checkpoint, reason: told };
            return self.give_up_captured(checkpoint, &warning, reason);
        }
        if keeping.silence < STEP_MAX {
            self.checkpoints.unstored = 0;
        }
        self.checkpoints.forget_restored();
        let Keeping { number, stopped, .. } = keeping;
        let report = self.checkpoint_report(number, bytes, [stopped, work, stored]);
        self.common.watch.on_checkpoint.iter().for_each(|tell| tell(&report));
        let layout = self.common.layout.clone();
        let is_paused = self.checkpoints.is_paused();
        for node in layout.nodes() {
            let manifest = encoded.clone();
            let message =
                CheckpointMessage::Complete { checkpoint: number, manifest, is_paused, cost };
            self.post_checkpoint(layout.leader(node), message);
        }
    }

    fn checkpoint_report(
        &self,
        number: u64,
        bytes: u64,
        [stopped, work, stored]: [Duration; 3],
    ) -> CheckpointReport {
        let (settings, nodes) = (&self.common.run.checkpoints, self.common.layout.node_count());
        CheckpointReport {
            at: self.now,
            number,
            bytes,
            stopped,
            work,
            stored,
            next_after: settings.auto_interval(stopped.saturating_add(work), nodes),
            time_to_loss: settings.time_to_loss(nodes),
        }
    }

    pub(super) fn warn(&self, warning: &Warning) {
        self.common.watch.on_warning.iter().for_each(|tell| tell(warning));
    }
}
