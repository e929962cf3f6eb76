//! Checkpoints: a consistent image of the job, made while it runs.
//!
//! **Start.** Main asks for a checkpoint at a point where it waits for nothing else. A rebalance in
//! progress ends first.
//!
//! **Draining.** All PEs stop handling messages, pass on what they hold back for others, and report
//! their counts, in rounds. If two rounds in a row report the same counts, and every message that
//! was created is handled or waits in a mailbox or a timer, nothing was in flight anywhere once the
//! first of them had ended (the four-counter method of F. Mattern, "Algorithms for distributed
//! termination detection", 1987, with waiting messages in the place of handled ones). One round is
//! not enough: a PE that has reported may still forward a packet, which another PE counts as
//! received before it reports. A PE reports again when its counts change, so that the first round
//! usually ends with nothing in flight: each count of a round may be as late as the end of the
//! round.
//!
//! A PE with an actor that has a replica stops once the replica has ended: each actor of an image
//! lives in one place. After the checkpoint these replicas begin again, before any rebalance.
//!
//! **Capture.** In each round after one with nothing in flight, each PE also captures its part, an
//! image that holds no state of any protocol: it encodes waiting messages, questions and published
//! data, and notes its actors. If that round reports the same counts, all PEs continue, and encode
//! the states of these actors between handlers (see `pe/checkpoint/encoding.rs`). Otherwise they
//! capture their parts again in a later round.
//!
//! **Storing.** Meanwhile the nodes store and copy the parts. Once all are encoded, stored and
//! copied, all nodes get the manifest, and the checkpoint is complete. The next checkpoint is
//! captured only when all nodes have the manifest, which counts as a message in flight: the orders
//! of the next checkpoint may overtake it, also because they come from the coordinator's next node.
//!
//! **Pause.** If the nodes of the job are to change, the job stays stopped after the checkpoint:
//! its launcher begins another run on other nodes from there. The parts of nodes that leave are
//! copied to nodes that stay.
//!
//! **Pools of tasks** are not part of an image: a main that begins again opens its pools again, and
//! hands in the tasks of repeatable streams again. During a checkpoint such tasks stay where they
//! are, and count as messages that wait.
//!
//! **Questions** of actors are part of an image if their answers become messages by a tag, and so
//! are requests for quiescence. A question counts as a message that waits, and its answer as one
//! that is handled when it arrives: so no answer is in flight when PEs capture their parts.
//!
//! **Postponement.** An image cannot contain tasks that are not repeatable, futures of actors, or
//! questions whose answers go to a closure or to main. While there are any, or messages stay in
//! flight for [`DRAIN_MAX`](draining::DRAIN_MAX), the job continues without the checkpoint, and
//! main learns the reason. The same holds while some members of a [resizable
//! group](crate::Job::resizable_group) have contributed to an operation and others have not: after
//! a loss it would be unknown which of the remaining members have contributed.
//!
//! **Deadline.** A PE may be inside a handler that does not end, or wait for a replica that does
//! not end, although its node is alive. So in real time the coordinator gives up a checkpoint if a
//! rebalance before it, or a round of draining, takes longer than [`STEP_MAX`](deadline::STEP_MAX):
//! the other PEs continue, and main learns which PEs are late. A late PE stops once it can,
//! answers, and continues at once. No other checkpoint, and no rebalance, begins before all late
//! PEs have answered.
//!
//! A handler that does not end also keeps a PE from encoding a captured part, and a folder or an
//! object store may not answer. So a captured checkpoint is given up if no further part is encoded
//! or kept for [`STEP_MAX`](deadline::STEP_MAX). The previous checkpoint stays valid, and another
//! one may begin.
//!
//! **Restoration.** PEs begin stopped, with the collections of the image. The node that has a part
//! reads it; members continue on the PE that the layout gives them, and their homes learn their
//! places. When all members can be reached, all PEs continue. Then PEs that have read parts which
//! too few nodes still have send copies to other nodes, as at a checkpoint. Once all are there, the
//! job survives as many losses as before. Main makes the next checkpoint after the usual interval,
//! or at its first progress point if the job goes back to the same one again. If it is captured
//! before all copies are there, its own copies replace those that are not sent yet.
//!
//! Reason for the stop, instead of snapshot numbers on packets (T. H. Lai and T. H. Yang, "On
//! distributed snapshots", 1987): packets in flight belong to protocols that depend on the layout,
//! and an image with such packets could only be restored on the same layout. The stop takes four
//! crossings of the link with the largest latency or more, and the capture of the largest part. The
//! states of actors are encoded after it, each before the actor changes (K. Li, J. F. Naughton and
//! J. S. Plank, "Real-time, concurrent checkpoint for parallel programs", 1990, with actors in the
//! place of pages).

mod deadline;
mod draining;
mod image;
mod storing;

use super::event::Asker;
use super::machine::Coordinator;
use super::state::checkpoint::{Making, Stage};
use crate::error::JobError;
use crate::message::{CheckpointMessage, NOT_STORED};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId};
use std::time::Duration;

impl Coordinator {
    /// Makes a checkpoint, and answers with its number or with the reason why it is postponed.
    pub(super) fn checkpoint(
        &mut self,
        asker: Asker,
        (progress, phases): (Bytes, u32),
        pause: Option<Vec<NodeId>>,
    ) {
        let reason = if !self.members.pools.is_empty() && !self.members.taking_part().is_empty() {
            "nodes that have joined work for a pool of tasks".to_owned()
        } else if self.losses.is_any() {
            "a node was lost, and the others repeat its tasks".to_owned()
        } else if self.checkpoints.making.is_some() {
            "another checkpoint is being made".to_owned()
        } else if self.checkpoints.keeping.is_some() {
            NOT_STORED.to_owned()
        } else if !self.checkpoints.late.is_empty() {
            let late = self.silence_of_all(self.checkpoints.late.iter().copied());
            format!("the checkpoint before was given up, and {late}")
        } else {
            self.checkpoints.last += 1;
            let number = self.checkpoints.last;
            self.checkpoints.making = Some(Making {
                number,
                asker,
                asked: self.now,
                progress,
                phases,
                since: None,
                first_answers: None,
                computed: Duration::ZERO,
                stage: Stage::Waiting,
                replicas: 0,
                pause,
                is_warned: false,
            });
            // In virtual time a PE that does nothing more is a stall, which is found at once.
            if self.stall.is_on && !self.checkpoints.is_watched {
                self.look_at_checkpoint_after(self.step_max());
            }
            return;
        };
        self.answer(asker, Err::<(u64, Duration), _>(reason));
    }

    pub(super) fn handle_checkpoint(&mut self, from: PeId, message: CheckpointMessage) {
        match message {
            CheckpointMessage::Drained { checkpoint, round, counts } => {
                self.note_drained(from, (checkpoint, round), counts);
            }
            CheckpointMessage::Encoded { checkpoint, part, took } => {
                self.note_encoded(from, checkpoint, (part, took));
            }
            CheckpointMessage::Kept { checkpoint, part } => {
                self.note_kept(checkpoint, (part, self.common.layout.node_of(from)));
            }
            CheckpointMessage::NotKept { checkpoint, reason } => {
                self.note_not_kept(checkpoint, reason);
            }
            CheckpointMessage::Restored { items } => self.note_restored(items),
            CheckpointMessage::Rebuilt => {
                self.checkpoints.rebuilding = self.checkpoints.rebuilding.saturating_sub(1);
            }
            other => {
                let reason = format!("{from} sent the coordinator a packet for a PE: {other:?}");
                self.fail(JobError::Protocol(reason));
            }
        }
    }

    /// Counts restored members. When none is missing, all PEs continue.
    pub(super) fn note_restored(&mut self, items: u64) {
        let Some(missing) = &mut self.checkpoints.restoring else { return };
        *missing = missing.saturating_sub(items);
        if *missing > 0 {
            return;
        }
        self.checkpoints.restoring = None;
        let checkpoint = self.checkpoints.restored;
        self.post_checkpoint_to_all(|| CheckpointMessage::Resume { checkpoint });
        if !self.collections.is_empty() {
            self.begin_periods();
            self.survey_to_balance();
        }
        self.settle_first_syncs();
    }
}

#[cfg(test)]
mod tests;
