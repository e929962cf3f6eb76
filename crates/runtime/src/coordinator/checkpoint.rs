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
//! received before it reports.
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
//! copied, all nodes get the manifest, and the checkpoint is complete. The next checkpoint begins
//! only when all nodes have the manifest: a large one, which later messages may overtake, counts as
//! a message in flight.
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
//! flight for [`DRAIN_MAX`], the job continues without the checkpoint, and main learns the reason.
//! The same holds while some members of a [resizable group](crate::Job::resizable_group) have
//! contributed to an operation and others have not: after a loss it would be unknown which of the
//! remaining members have contributed.
//!
//! **Deadline.** A PE may be inside a handler that does not end, or wait for a replica that does
//! not end, although its node is alive. So in real time the coordinator gives up a checkpoint if a
//! rebalance before it, or a round of draining, takes longer than [`STEP_MAX`]: the other PEs
//! continue, and main learns which PEs are late. A late PE stops once it can, answers, and
//! continues at once. No other checkpoint, and no rebalance, begins before all late PEs have
//! answered.
//!
//! A handler that does not end also keeps a PE from encoding a captured part, and a folder or an
//! object store may not answer. So a captured checkpoint is given up if no further part is encoded
//! or kept for [`STEP_MAX`]. The previous checkpoint stays valid, and another one may begin.
//!
//! **Restoration.** PEs begin stopped, with the collections of the image. The node that has a part
//! reads it; members continue on the PE that the layout gives them, and their homes learn their
//! places. When all members can be reached, all PEs continue. Then PEs that have read parts which
//! only one node still has send copies to other nodes, as at a checkpoint. Once these are sent, the
//! job survives another loss before the next checkpoint, which main makes at its first progress
//! point. If that one is captured earlier, its copies replace those that are not sent yet.
//!
//! Reason for the stop, instead of snapshot numbers on packets (T. H. Lai and T. H. Yang, "On
//! distributed snapshots", 1987): packets in flight belong to protocols that depend on the layout,
//! and an image with such packets could only be restored on the same layout. The stop takes four
//! crossings of the link with the largest latency or more, and the capture of the largest part. The
//! states of actors are encoded after it, each before the actor changes (K. Li, J. F. Naughton and
//! J. S. Plank, "Real-time, concurrent checkpoint for parallel programs", 1990, with actors in the
//! place of pages).

mod image;

use self::image::too_large;
use super::event::Asker;
use super::machine::Coordinator;
use super::stall::HANDLER_LONG;
use super::state::checkpoint::{Draining, Keeping, Making, Stage};
use super::state::timers::Timer;
use crate::address::collection::CollectionInfo;
use crate::error::{JobError, Warning};
use crate::message::codec::encoded_len;
use crate::message::pending_work::{NAMED_MAX, counted};
use crate::message::{
    CheckpointMessage, Control, DrainCounts, Manifest, NOT_STORED, PartSummary, ReductionGroup,
};
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
/// Time of a PE, in nanoseconds, to send a byte to another node and to receive one, over QUIC and
/// with all copies in memory, on processors of 2026 (`checkpoint_cost`).
const COPY_NS_PER_BYTE: u64 = 2;
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
        let (round, previous) = match &making.stage {
            Stage::Waiting => (1, None),
            Stage::Draining(before) => (before.round + 1, Some(before.sum)),
            Stage::Paused => return,
        };
        let is_faulty = self.common.fault == PlantedFault::CapturedInFlight;
        let is_quiet = |sum: DrainCounts| sum.in_flight() == 0 && !sum.postpone();
        let captures = previous.is_some_and(|sum| is_quiet(sum) || is_faulty);
        let (missing, sum) = (pes.iter().copied().collect(), DrainCounts::default());
        let checkpoint = making.number;
        let (began, answers) = (self.now, Duration::ZERO);
        let draining = Draining { round, captures, missing, sum, previous, began, answers };
        making.stage = Stage::Draining(Box::new(draining));
        for pe in pes {
            self.post_checkpoint(pe, CheckpointMessage::Drain { checkpoint, round, captures });
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
            CheckpointMessage::Encoded { checkpoint, part, took } => {
                self.note_encoded(from, checkpoint, (part, took));
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

    /// Gives up a captured checkpoint if for too long no part of it was encoded, stored or copied.
    fn look_at_storing(&mut self) {
        let Some(keeping) = &self.checkpoints.keeping else { return };
        let waited = self.now.since(keeping.heard);
        let storing_max = STEP_MAX * 2_u32.pow(self.checkpoints.unstored);
        let storing_max = storing_max.saturating_add(keeping.copying);
        if waited < storing_max {
            return self.look_at_checkpoint_after(storing_max - waited);
        }
        let pes: BTreeSet<PeId> = self.pes_without_part(keeping).collect();
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
            "no part was encoded, stored or copied for {seconds} s, and those of {}{more} are \
             missing; {cause}",
            named.join(", ")
        );
        self.checkpoints.keeping = None;
        self.checkpoints.unstored = (self.checkpoints.unstored + 1).min(DOUBLINGS_MAX);
        let told = reason.clone();
        let warning = Warning::CheckpointNotStored { checkpoint: number, reason: told };
        self.give_up_captured(number, &warning, reason);
    }

    /// The PEs whose parts are not all encoded, stored and copied.
    fn pes_without_part<'a>(&'a self, keeping: &'a Keeping) -> impl Iterator<Item = PeId> + 'a {
        let kept = keeping.missing.iter().map(|&(pe, _)| pe);
        let is_unencoded = |pe: &PeId| !keeping.parts.contains_key(pe);
        kept.chain(self.common.layout.pes().filter(is_unencoded))
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
        let senders = self.pes_without_part(keeping);
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
            Stage::Draining(draining) => (draining.began, draining.missing.clone()),
            Stage::Paused => return None,
        };
        Some((making.number, since, late))
    }

    /// Lets the job continue without the checkpoint that is being made, since some PEs are late.
    fn give_up(&mut self, late: BTreeSet<PeId>, reason: String) {
        let Some(making) = &mut self.checkpoints.making else { return };
        let counted = match &making.stage {
            Stage::Draining(first) if first.previous.is_none() => Some(first.sum.replicas),
            _ => None,
        };
        making.replicas = counted.unwrap_or(making.replicas);
        self.checkpoints.is_late_with_replicas = counted.is_some();
        self.checkpoints.late = late;
        self.checkpoints.given_up = (self.checkpoints.given_up + 1).min(DOUBLINGS_MAX);
        self.end_making(reason);
    }

    /// Notes that a PE has answered a round of draining. Returns whether the coordinator had given
    /// up that checkpoint.
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
        let Stage::Draining(draining) = &mut making.stage else { return };
        let Draining { round, captures, missing, sum, previous, began, answers } = &mut **draining;
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
        let (sum, captures, is_repeated) = (*sum, *captures, *previous == Some(*sum));
        making.replicas = sum.replicas;
        let since = making.since.unwrap_or(self.now);
        let left = sum.in_flight();
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
            left == 0 && is_repeated || self.common.fault == PlantedFault::CapturedInFlight;
        match reason {
            // After one round, answers and members may still be on their way.
            Some(reason) if is_repeated => self.end_making(reason),
            None if captures && is_drained => self.continue_captured(),
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

    /// Lets all PEs continue with a checkpoint that they have captured, and tells main.
    fn continue_captured(&mut self) {
        let manifest = self.manifest();
        if let Some(reason) = too_large(&manifest, encoded_len(&manifest)) {
            return self.end_making(reason);
        }
        let missing = self.all_copies();
        let Some(making) = &mut self.checkpoints.making else { return };
        let (checkpoint, is_pause) = (making.number, making.pause.is_some());
        let leaving = making.pause.clone().unwrap_or_default();
        let begun = making.since.unwrap_or(self.now);
        self.checkpoints.keeping = Some(Keeping {
            number: checkpoint,
            manifest,
            speeds: self.balances.speeds.clone(),
            parts: BTreeMap::new(),
            missing,
            stopped: self.now.since(begun).saturating_sub(making.computed),
            encoding: Duration::ZERO,
            since: self.now,
            heard: self.now,
            silence: Duration::ZERO,
            copying: Duration::ZERO,
        });
        self.checkpoints.given_up = 0;
        self.post_checkpoint_to_all(|| {
            let leaving = leaving.clone();
            CheckpointMessage::Captured { checkpoint, leaving, is_pause }
        });
        if let Some(making) = self.checkpoints.making.as_mut().filter(|_| is_pause) {
            making.stage = Stage::Paused;
        } else if let Some(making) = self.take_making() {
            self.answer(making.asker, Ok::<_, String>((checkpoint, making.computed)));
        }
    }

    /// The parts of all PEs, and their copies in memory.
    fn all_copies(&self) -> BTreeSet<(PeId, bool)> {
        let making = self.checkpoints.making.as_ref();
        let leaving = making.and_then(|it| it.pause.as_deref()).unwrap_or_default();
        let (layout, run) = (&self.common.layout, &self.common.run);
        let mut all = BTreeSet::new();
        for node in layout.nodes() {
            let partner = run.checkpoints.partner(layout, &run.hosts, node, leaving);
            for pe in layout.place(node).pes.clone().map(PeId) {
                all.insert((pe, false));
                all.extend(partner.map(|_| (pe, true)));
            }
        }
        all
    }

    fn note_encoded(&mut self, from: PeId, checkpoint: u64, (part, took): (PartSummary, Duration)) {
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
        let (layout, run) = (&self.common.layout, &self.common.run);
        let node = layout.node_of(pe);
        let partner = run.checkpoints.partner(layout, &run.hosts, node, &[]);
        partner.map_or(Duration::ZERO, |partner| {
            run.checkpoints.copy_time(layout, [node, partner], part.bytes())
        })
    }

    /// Estimates the time that a PE takes to send and receive the copies of a checkpoint, from the
    /// bytes of the largest part.
    fn copying_work(&self, parts: &[PartSummary]) -> Duration {
        let (layout, run) = (&self.common.layout, &self.common.run);
        let partner = |node| run.checkpoints.partner(layout, &run.hosts, node, &[]);
        let bytes = parts.iter().map(PartSummary::bytes).max().unwrap_or_default();
        match layout.nodes().any(|node| partner(node).is_some()) {
            true => Duration::from_nanos(bytes.saturating_mul(COPY_NS_PER_BYTE)),
            false => Duration::ZERO,
        }
    }

    /// Ends the making of a checkpoint that is given up: all PEs continue, and main learns why.
    fn end_making(&mut self, reason: String) {
        let Some(making) = self.take_making() else { return };
        let checkpoint = making.number;
        self.post_checkpoint_to_all(|| CheckpointMessage::Resume { checkpoint });
        self.answer(making.asker, Err::<(u64, Duration), _>(reason));
    }

    /// Ends the making of a checkpoint. The replicas that ended for it begin again.
    fn take_making(&mut self) -> Option<Making> {
        let making = self.checkpoints.making.take()?;
        // If this checkpoint was given up at once, some replicas of the previous one may not have
        // begun again yet.
        self.checkpoints.rebuilding = self.checkpoints.rebuilding.saturating_add(making.replicas);
        Some(making)
    }

    fn note_kept(&mut self, checkpoint: u64, part: (PeId, bool)) {
        let Some(keeping) = &mut self.checkpoints.keeping else { return };
        if keeping.number != checkpoint || !keeping.missing.remove(&part) {
            return;
        }
        keeping.note_progress(self.now);
        self.complete_checkpoint();
    }

    /// Gives up a checkpoint of which a part cannot be kept. The one from which the job continues
    /// stays valid if a copy cannot be made again: then warns once.
    fn note_not_kept(&mut self, checkpoint: u64, reason: String) {
        if self.checkpoints.restored == checkpoint && self.checkpoints.restoring.is_none() {
            self.checkpoints.restored = 0;
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
    fn give_up_captured(&mut self, checkpoint: u64, warning: &Warning, reason: String) {
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
        let manifest = Manifest { parts, ..keeping.manifest };
        let encoded = manifest.encode(&keeping.speeds);
        if let Some(reason) = too_large(&manifest, encoded.len()) {
            let (checkpoint, told) = (keeping.number, reason.clone());
            let warning = Warning::CheckpointNotKept { checkpoint, reason: told };
            return self.give_up_captured(checkpoint, &warning, reason);
        }
        if keeping.silence < STEP_MAX {
            self.checkpoints.unstored = 0;
        }
        self.checkpoints.restored = 0;
        let Keeping { number, stopped, encoding, .. } = keeping;
        let stored = self.now.since(keeping.since);
        let work = encoding.saturating_add(self.copying_work(&manifest.parts).min(stored));
        let cost = stopped.saturating_add(work);
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
