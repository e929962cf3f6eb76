//! Checkpoints: a consistent image of the job, made while it runs.
//!
//! **Start.** Main asks for a checkpoint at a point where it waits for nothing else. A rebalance in
//! progress ends first.
//!
//! **Draining.** All PEs stop handling messages, pass on what they hold back for others, and report
//! their counts, in rounds. If two rounds in a row report the same counts, and every message that
//! was created is handled or waits in a mailbox or a timer, nothing is in flight anywhere (the
//! four-counter method of F. Mattern, "Algorithms for distributed termination detection", 1987,
//! with waiting messages in the place of handled ones). One round is not enough: a PE that has
//! reported may still forward a packet, which another PE counts as received before it reports.
//!
//! A PE with an actor that has a replica stops once the replica has ended: each actor of an image
//! lives in one place. After the checkpoint these replicas begin again, before any rebalance.
//!
//! **Encoding.** Each PE encodes its part, an image that holds no state of any protocol. When all
//! have done so, all continue. Meanwhile the nodes store and copy the parts. Once all are stored,
//! all nodes get the manifest, and the checkpoint is complete. The next checkpoint begins only when
//! all nodes have the manifest: a large one, which later messages may overtake, counts as a message
//! in flight.
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
//! that is handled when it arrives: so no answer is in flight when PEs are encoded.
//!
//! **Postponement.** An image cannot contain tasks that are not repeatable, futures of actors, or
//! questions whose answers go to a closure or to main. While there are any, or messages stay in
//! flight for [`DRAIN_MAX`], the job continues without the checkpoint, and main learns the reason.
//! The same holds while some members of a [resizable group](crate::Job::resizable_group) have
//! contributed to an operation and others have not: after a loss it would be unknown which of the
//! remaining members have contributed.
//!
//! **Deadline.** A PE may be inside a handler that does not end, or wait for a replica that does
//! not end, although its node is alive. So in real time the coordinator gives up a checkpoint if a
//! rebalance before it, a round of draining or the encoding takes longer than [`STEP_MAX`]: the
//! other PEs continue, and main learns which PEs are late. A late PE stops once it can, answers,
//! and continues at once. No other checkpoint, and no rebalance, begins before all late PEs have
//! answered.
//!
//! A folder or an object store may not answer either. Once all parts are encoded, a checkpoint is
//! given up if no further part is kept for [`STEP_MAX`]. The previous checkpoint stays valid, and
//! another one may begin.
//!
//! **Restoration.** PEs begin stopped, with the collections of the image. The node that has a part
//! reads it; members continue on the PE that the layout gives them, and their homes learn their
//! places. When all members can be reached, all PEs continue. Then PEs that have read parts which
//! only one node still has send copies to other nodes, as at a checkpoint. Once these are sent, the
//! job survives another loss before the next checkpoint, which main makes at its first progress
//! point. If that one is encoded earlier, its copies replace those that are not sent yet.
//!
//! Reason for the stop, instead of snapshot numbers on packets (T. H. Lai and T. H. Yang, "On
//! distributed snapshots", 1987): packets in flight belong to protocols that depend on the layout,
//! and an image with such packets could only be restored on the same layout. The stop takes six
//! crossings of the link with the largest latency or more, and the encoding of the largest part.

mod image;

use super::event::Asker;
use super::machine::Coordinator;
use super::stall::HANDLER_LONG;
use super::state::checkpoint::{Keeping, Making, Stage};
use super::state::timers::Timer;
use crate::address::collection::CollectionInfo;
use crate::error::{JobError, Warning};
use crate::message::pending_work::{NAMED_MAX, counted};
use crate::message::{CheckpointMessage, Control, DrainCounts, PartSummary, ReductionGroup};
use crate::pe::{CheckpointReport, PlantedFault, Resizing};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for which messages may stay in flight while PEs are drained.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Time for each step of a checkpoint in which a PE does its part: much longer than most handlers,
/// or the encoding of a PE, take.
const STEP_MAX: Duration = Duration::from_secs(300);
/// Maximum number of times that [`STEP_MAX`] is doubled: once for each checkpoint given up since
/// the last one that was made, or stored, in time. So a job whose handlers take up to 80 minutes
/// makes checkpoints, too, and so does one with a store that takes as long for a part.
const DOUBLINGS_MAX: u32 = 4;
/// Maximum size of a manifest: it travels in one packet, and to the launcher in one line.
const MANIFEST_BYTES_MAX: usize = 6 << 20;
/// The pause before the next round is the time since the first round divided by this number.
const PAUSE_SHARE: u32 = 8;
/// Bounds of that pause.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);

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
            "the checkpoint before is still being stored".to_owned()
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
                given_up: None,
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

    /// Begins the first round once no rebalance is in progress, and all replicas that ended for the
    /// previous checkpoint have begun again. Called after each event.
    pub(super) fn begin_checkpoint(&mut self) {
        let is_settled = self.balances.is_settled()
            && self.departing.is_none()
            && self.checkpoints.rebuilding == 0;
        let now = self.now;
        if let Some(making) = &mut self.checkpoints.making
            && is_settled
            && matches!(making.stage, Stage::Waiting)
        {
            making.since = Some(now);
            self.begin_drain_round();
        }
    }

    pub(super) fn begin_drain_round(&mut self) {
        let pes: Vec<PeId> = self.common.layout.pes().collect();
        let Some(making) = &mut self.checkpoints.making else { return };
        let (round, previous) = match making.stage {
            Stage::Waiting => (1, None),
            Stage::Draining { round, sum, .. } => (round + 1, Some(sum)),
            Stage::Encoding { .. } | Stage::Paused => return,
        };
        let (missing, sum) = (pes.iter().copied().collect(), DrainCounts::default());
        let checkpoint = making.number;
        let (began, answers) = (self.now, Duration::ZERO);
        making.stage = Stage::Draining { round, missing, sum, previous, began, answers };
        for pe in pes {
            self.post_checkpoint(pe, CheckpointMessage::Drain { checkpoint, round });
        }
    }

    fn post_checkpoint(&mut self, to: PeId, message: CheckpointMessage) {
        self.post(to, Control::Checkpoint(Box::new(message)));
    }

    fn post_checkpoint_to_all(&mut self, make: impl Fn() -> CheckpointMessage) {
        for pe in self.common.layout.pes() {
            self.post_checkpoint(pe, make());
        }
    }

    pub(super) fn handle_checkpoint(&mut self, from: PeId, message: CheckpointMessage) {
        match message {
            CheckpointMessage::Drained { round, counts } => self.note_drained(from, round, counts),
            CheckpointMessage::Encoded { checkpoint, part } => {
                self.note_encoded(from, checkpoint, part);
            }
            CheckpointMessage::Kept { checkpoint, part, is_copy } => {
                self.note_kept(checkpoint, (part, is_copy));
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

    fn step_max(&self) -> Duration {
        STEP_MAX * 2_u32.pow(self.checkpoints.given_up)
    }

    fn look_at_checkpoint_after(&mut self, delay: Duration) {
        self.checkpoints.is_watched = true;
        self.run_after(delay, Timer::LookAtCheckpoint);
    }

    /// Gives up the checkpoint that is being made if its present step takes too long.
    pub(super) fn look_at_checkpoint(&mut self) {
        self.checkpoints.is_watched = false;
        let Some((number, since, late)) = self.present_step() else {
            return self.look_at_storing();
        };
        let (waited, step_max) = (self.now.since(since), self.step_max());
        if waited < step_max {
            return self.look_at_checkpoint_after(step_max - waited);
        }
        let reason = match late.is_empty() {
            true => {
                let seconds = waited.as_secs();
                format!("a rebalance, or the start of replicas, has not ended for {seconds} s")
            }
            false => self.silence_of_all(late.iter().copied()),
        };
        let told = reason.clone();
        self.warn(&Warning::CheckpointLate { checkpoint: number, reason: told });
        self.give_up(late, reason);
    }

    /// Gives up a checkpoint whose parts are all encoded, if for too long none of them was stored
    /// or copied.
    fn look_at_storing(&mut self) {
        let Some(keeping) = &self.checkpoints.keeping else { return };
        let waited = self.now.since(keeping.heard);
        let storing_max = STEP_MAX * 2_u32.pow(self.checkpoints.unstored);
        let storing_max = storing_max.saturating_add(keeping.copying);
        if waited < storing_max {
            return self.look_at_checkpoint_after(storing_max - waited);
        }
        let pes: BTreeSet<PeId> = keeping.missing.iter().map(|&(pe, _)| pe).collect();
        let named: Vec<String> = pes.iter().take(NAMED_MAX).map(PeId::to_string).collect();
        let more = match pes.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (number, seconds) = (keeping.number, waited.as_secs());
        let inside = self.inside_handlers(keeping, waited);
        let cause = match inside.is_empty() {
            true => "look at the folder or object store, and at the links between nodes".to_owned(),
            false => self.silence_of_all(inside.into_iter()),
        };
        let reason = format!(
            "no part was stored or copied for {seconds} s, and those of {}{more} are missing; \
             {cause}",
            named.join(", ")
        );
        let told = reason.clone();
        self.warn(&Warning::CheckpointNotStored { checkpoint: number, reason: told });
        self.checkpoints.keeping = None;
        self.checkpoints.unstored = (self.checkpoints.unstored + 1).min(DOUBLINGS_MAX);
        if self.checkpoints.is_paused() {
            self.end_making(Err(reason));
        }
    }

    /// The PEs that would send or confirm missing parts between two handlers, and have been inside
    /// one handler for at least half of the time `waited`.
    fn inside_handlers(&self, keeping: &Keeping, waited: Duration) -> BTreeSet<PeId> {
        let (layout, run) = (&self.common.layout, &self.common.run);
        let receiver = |&(pe, is_copy): &(PeId, bool)| {
            let node = layout.node_of(pe);
            let partner = run.checkpoints.partner(layout, &run.hosts, node, &[]);
            Some(layout.leader(partner.filter(|_| is_copy)?))
        };
        let senders = keeping.missing.iter().map(|&(pe, _)| pe);
        let all = senders.chain(keeping.missing.iter().filter_map(receiver));
        let is_inside = |pe: &PeId| {
            let handler = self.stall.inside.get(pe);
            handler.is_some_and(|(_, since)| self.now.since(*since) >= waited / 2)
        };
        all.filter(is_inside).collect()
    }

    /// The number of the checkpoint that is being made, the time at which its present step began,
    /// and the PEs that have not finished the step; `None` if no checkpoint is being made, or if it
    /// waits for the launcher.
    fn present_step(&self) -> Option<(u64, Time, BTreeSet<PeId>)> {
        let making = self.checkpoints.making.as_ref()?;
        let (since, late) = match &making.stage {
            Stage::Waiting => (making.asked, BTreeSet::new()),
            Stage::Draining { began, missing, .. } => (*began, missing.clone()),
            Stage::Encoding { began, parts } => {
                let is_missing = |pe: &PeId| !parts.contains_key(pe);
                (*began, self.common.layout.pes().filter(is_missing).collect())
            }
            Stage::Paused => return None,
        };
        Some((making.number, since, late))
    }

    /// Lets the job continue without the checkpoint that is being made, since some PEs are late.
    fn give_up(&mut self, late: BTreeSet<PeId>, reason: String) {
        let Some(making) = &mut self.checkpoints.making else { return };
        let counted = match &making.stage {
            Stage::Draining { sum, previous: None, .. } => Some(sum.replicas),
            _ => None,
        };
        making.replicas = counted.unwrap_or(making.replicas);
        self.checkpoints.is_late_with_replicas = counted.is_some();
        self.checkpoints.late = late;
        self.checkpoints.given_up = (self.checkpoints.given_up + 1).min(DOUBLINGS_MAX);
        // `keeping` belongs to this checkpoint: all parts of the previous one are kept.
        self.checkpoints.keeping = None;
        self.end_making(Err(reason));
    }

    /// Notes that a PE has done its part of a checkpoint. Returns whether that checkpoint was given
    /// up.
    fn take_late_answer(&mut self, from: PeId, replicas: u64) -> bool {
        let checkpoints = &mut self.checkpoints;
        let is_late = checkpoints.late.remove(&from);
        if is_late && checkpoints.is_late_with_replicas {
            checkpoints.rebuilding = checkpoints.rebuilding.saturating_add(replicas);
        }
        is_late
    }

    /// Warns once if the other PEs have stood still for long because some do not stop.
    pub(super) fn tell_slow_checkpoint(&mut self) {
        let Some((number, since, late)) = self.present_step() else { return };
        let is_slow = !late.is_empty() && self.now.since(since) >= HANDLER_LONG;
        let making = self.checkpoints.making.as_mut().filter(|it| is_slow && !it.is_warned);
        let Some(making) = making else { return };
        making.is_warned = true;
        let late = self.silence_of_all(late.iter().copied());
        self.warn(&Warning::CheckpointSlow { checkpoint: number, late });
    }

    fn note_drained(&mut self, from: PeId, of: u64, counts: DrainCounts) {
        if self.take_late_answer(from, counts.replicas) {
            return;
        }
        let own = [self.created, self.processed];
        let contributing = self.group_contributing();
        let Some(making) = &mut self.checkpoints.making else { return };
        let Stage::Draining { round, missing, sum, previous, began, answers } = &mut making.stage
        else {
            return;
        };
        if of != *round || !missing.remove(&from) {
            return;
        }
        *sum += counts;
        *answers += self.now.since(*began);
        if !missing.is_empty() {
            return;
        }
        // PEs answer the first round after the handler under way, and later ones at once.
        let first = *making.first_answers.get_or_insert(*answers);
        making.computed = first.saturating_sub(*answers) / self.common.layout.pe_count();
        sum.created = sum.created.saturating_add(own[0]);
        sum.processed = sum.processed.saturating_add(own[1]);
        let (sum, is_repeated) = (*sum, *previous == Some(*sum));
        making.replicas = sum.replicas;
        let since = making.since.unwrap_or(self.now);
        let left = sum.created.saturating_sub(sum.processed).saturating_sub(sum.waiting);
        let waited = self.now.since(since);
        let reason = if sum.questions > 0 {
            Some(questions_without_answer(&sum))
        } else if sum.tasks > 0 {
            Some(counted(sum.tasks, "task is not done", "tasks are not done"))
        } else if sum.unmovable > 0 {
            let several = "actors wait within an async method";
            Some(counted(sum.unmovable, "actor waits within an async method", several))
        } else if let Some(actor) = contributing {
            Some(format!("an operation over the group of `{actor}` is under way"))
        } else if left > 0 && left == sum.stranded.saturating_add(sum.insertions) {
            Some(format!("{left} messages or insertions wait for members that do not exist yet"))
        } else if left > 0 && waited >= DRAIN_MAX {
            Some(format!("{left} messages were in flight for {DRAIN_MAX:?}"))
        } else {
            None
        };
        let is_drained =
            left == 0 && is_repeated || self.common.fault == PlantedFault::EncodedInFlight;
        match reason {
            // After one round, answers and members may still be on their way.
            Some(reason) if is_repeated => self.end_making(Err(reason)),
            None if is_drained => self.begin_encoding(),
            _ if left == 0 => self.begin_drain_round(),
            _ => {
                let pause = (waited / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
                self.run_after(pause, Timer::BeginDrainRound);
            }
        }
    }

    /// The type of a group that can change its size and may have an operation under way. Of the
    /// collections of a section, only the oldest is known here; all have one type of actors.
    fn group_contributing(&self) -> Option<&'static str> {
        let resizing = &self.common.resizing;
        let is_in_section = |info: &CollectionInfo| {
            let of_section = |(group, _): &(ReductionGroup, u64)| match group {
                ReductionGroup::Section(section) => self.collections.get(&section.collection),
                ReductionGroup::Collection(_) | ReductionGroup::Sync(_) => None,
            };
            let mut oldest = self.accumulators.0.keys().filter_map(of_section);
            oldest.any(|state| state.info.kind == info.kind && state.info.id <= info.id)
        };
        let contributes = |info: &&CollectionInfo| {
            let is_resizable = matches!(resizing.get(&info.kind), Some(Resizing::Merge { .. }));
            is_resizable
                && !info.migratable()
                && (self.accumulators.has(info.id) || is_in_section(info))
        };
        let info = self.collections.values().map(|state| &state.info).find(contributes)?;
        self.common.kind(info.kind).map(|kind| kind.name())
    }

    fn begin_encoding(&mut self) {
        let Some(making) = &mut self.checkpoints.making else { return };
        making.stage = Stage::Encoding { began: self.now, parts: BTreeMap::new() };
        let checkpoint = making.number;
        let is_pause = making.pause.is_some();
        let leaving = making.pause.clone().unwrap_or_default();
        let (layout, run) = (&self.common.layout, &self.common.run);
        let mut missing = BTreeSet::new();
        for node in layout.nodes() {
            let partner = run.checkpoints.partner(layout, &run.hosts, node, &leaving);
            let has_copy = partner.is_some();
            for pe in layout.place(node).pes.clone().map(PeId) {
                missing.insert((pe, false));
                missing.extend(has_copy.then_some((pe, true)));
            }
        }
        self.checkpoints.keeping = Some(Keeping {
            number: checkpoint,
            manifest: None,
            missing,
            bytes: 0,
            stopped: Duration::ZERO,
            since: self.now,
            heard: self.now,
            silence: Duration::ZERO,
            copying: Duration::ZERO,
        });
        self.post_checkpoint_to_all(|| {
            let leaving = leaving.clone();
            CheckpointMessage::Encode { checkpoint, leaving, is_pause }
        });
    }

    fn note_encoded(&mut self, from: PeId, checkpoint: u64, part: PartSummary) {
        if self.take_late_answer(from, 0) {
            return;
        }
        let pes = self.common.layout.pe_count() as usize;
        let Some(making) = &mut self.checkpoints.making else { return };
        let Stage::Encoding { parts, .. } = &mut making.stage else { return };
        if making.number != checkpoint {
            return;
        }
        parts.insert(from, part);
        if parts.len() < pes {
            return;
        }
        let parts: Vec<PartSummary> = std::mem::take(parts).into_values().collect();
        if let Some(reason) = making.given_up.take() {
            return self.end_making(Err(reason));
        }
        let bytes = parts.iter().map(PartSummary::bytes).fold(0, u64::saturating_add);
        let begun = making.since.unwrap_or(self.now);
        let stopped = self.now.since(begun).saturating_sub(making.computed);
        let is_pause = making.pause.is_some();
        let copying = if is_pause { Duration::ZERO } else { self.copying_time(&parts) };
        let manifest = self.manifest(parts);
        let encoded = manifest.encode(&self.balances.speeds);
        if encoded.len() > MANIFEST_BYTES_MAX {
            self.checkpoints.keeping = None;
            let reason = self.too_large(&manifest, encoded.len());
            return self.end_making(Err(reason));
        }
        match &mut self.checkpoints.keeping {
            Some(keeping) => {
                keeping.manifest = Some(encoded);
                (keeping.bytes, keeping.stopped, keeping.since) = (bytes, stopped, self.now);
                (keeping.heard, keeping.copying) = (self.now, copying);
            }
            // Then `making.given_up` has the reason, and the function has returned above.
            None => return self.end_making(Err("a part could not be kept".to_owned())),
        }
        match &mut self.checkpoints.making {
            Some(Making { pause: Some(_), stage, .. }) => *stage = Stage::Paused,
            _ => self.end_making(Ok(checkpoint)),
        }
        self.complete_checkpoint();
    }

    /// Returns the longest time that the copies of a PE take at the bandwidth for copies.
    fn copying_time(&self, parts: &[PartSummary]) -> Duration {
        let (layout, run) = (&self.common.layout, &self.common.run);
        if run.checkpoints.copy_rate.is_none() {
            return Duration::ZERO;
        }
        let time = |(pe, part): (PeId, &PartSummary)| {
            let node = layout.node_of(pe);
            let partner = run.checkpoints.partner(layout, &run.hosts, node, &[])?;
            Some(run.checkpoints.copy_time(layout, [node, partner], part.bytes()))
        };
        layout.pes().zip(parts).filter_map(time).max().unwrap_or_default()
    }

    /// Ends the making of a checkpoint: all PEs continue, and main gets the result.
    fn end_making(&mut self, result: Result<u64, String>) {
        let Some(making) = self.checkpoints.making.take() else { return };
        let checkpoint = making.number;
        if result.is_ok() {
            self.checkpoints.given_up = 0;
        }
        // If this checkpoint was given up at once, some replicas of the previous one may not have
        // begun again yet.
        self.checkpoints.rebuilding = self.checkpoints.rebuilding.saturating_add(making.replicas);
        self.post_checkpoint_to_all(|| CheckpointMessage::Resume { checkpoint });
        self.answer(making.asker, result.map(|number| (number, making.computed)));
    }

    fn note_kept(&mut self, checkpoint: u64, part: (PeId, bool)) {
        let Some(keeping) = &mut self.checkpoints.keeping else { return };
        if keeping.number != checkpoint || !keeping.missing.remove(&part) {
            return;
        }
        if keeping.manifest.is_some() {
            keeping.silence = keeping.silence.max(self.now.since(keeping.heard));
        }
        keeping.heard = self.now;
        self.complete_checkpoint();
    }

    /// Gives up a checkpoint of which a part cannot be kept. The one from which the job continues
    /// stays valid if a copy cannot be made again: then warns once.
    fn note_not_kept(&mut self, checkpoint: u64, reason: String) {
        if self.checkpoints.restored == checkpoint && self.checkpoints.restoring.is_none() {
            self.checkpoints.restored = 0;
            return self.warn(&Warning::CopyNotKept { checkpoint, reason });
        }
        if self.checkpoints.keeping.take_if(|it| it.number == checkpoint).is_none() {
            return;
        }
        self.warn(&Warning::CheckpointNotKept { checkpoint, reason: reason.clone() });
        if self.checkpoints.is_paused() {
            self.end_making(Err(reason));
        } else if let Some(making) = &mut self.checkpoints.making {
            // All parts are encoded before the job continues.
            making.given_up = Some(reason);
        }
    }

    /// Sends the manifest to all nodes once all parts are kept.
    fn complete_checkpoint(&mut self) {
        let is_kept = |it: &mut Keeping| it.missing.is_empty() && it.manifest.is_some();
        let Some(keeping) = self.checkpoints.keeping.take_if(is_kept) else { return };
        if keeping.silence < STEP_MAX {
            self.checkpoints.unstored = 0;
        }
        self.checkpoints.restored = 0;
        let Keeping { number, bytes, stopped, .. } = keeping;
        let stored = self.now.since(keeping.since);
        let report = self.checkpoint_report(number, bytes, (stopped, stored));
        self.common.watch.on_checkpoint.iter().for_each(|tell| tell(&report));
        let manifest = keeping.manifest.unwrap_or_default();
        let layout = self.common.layout.clone();
        let is_paused = self.checkpoints.is_paused();
        for node in layout.nodes() {
            let manifest = manifest.clone();
            let message = CheckpointMessage::Complete { manifest, is_paused };
            self.post_checkpoint(layout.leader(node), message);
        }
    }

    fn checkpoint_report(
        &self,
        number: u64,
        bytes: u64,
        (stopped, stored): (Duration, Duration),
    ) -> CheckpointReport {
        let (settings, nodes) = (&self.common.run.checkpoints, self.common.layout.node_count());
        let next_after = settings.auto_interval(stopped, nodes);
        let time_to_loss = settings.time_to_loss(nodes);
        CheckpointReport { at: self.now, number, bytes, stopped, stored, next_after, time_to_loss }
    }

    fn warn(&self, warning: &Warning) {
        self.common.watch.on_warning.iter().for_each(|tell| tell(warning));
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

/// Says how many questions have no answer, and whether main or actors have asked them.
fn questions_without_answer(sum: &DrainCounts) -> String {
    let of_main = sum.questions_of_main;
    match (of_main, sum.questions.saturating_sub(of_main)) {
        (0, of_actors) => {
            let several = "questions of actors wait for an answer";
            counted(of_actors, "question of an actor waits for an answer", several)
        }
        (_, 0) => {
            let several = "questions of main wait for an answer";
            counted(of_main, "question of main waits for an answer", several)
        }
        (_, of_actors) => {
            let of_main = counted(of_main, "question of main", "questions of main");
            let of_actors = counted(of_actors, "question of an actor", "questions of actors");
            format!("{of_main} and {of_actors} wait for an answer")
        }
    }
}

#[cfg(test)]
mod tests;
