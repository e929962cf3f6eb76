//! Gives up a checkpoint that takes too long, and names the PEs that are late.

use crate::coordinator::machine::Coordinator;
use crate::coordinator::stall::HANDLER_LONG;
use crate::coordinator::state::checkpoint::{Keeping, Stage};
use crate::coordinator::state::timers::Timer;
use crate::error::Warning;
use crate::message::pending_work::NAMED_MAX;
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for each step of a checkpoint in which a PE does its part: much longer than most handlers,
/// or the encoding of a PE, take.
pub(super) const STEP_MAX: Duration = Duration::from_secs(300);
/// Maximum number of times that [`STEP_MAX`] is doubled: once for each checkpoint given up since
/// the last one that was made, or stored, in time. So a job whose handlers take up to 80 minutes
/// makes checkpoints, too, and so does one with a store that takes as long for a part.
const DOUBLINGS_MAX: u32 = 4;

impl Coordinator {
    pub(super) fn step_max(&self) -> Duration {
        STEP_MAX * 2_u32.pow(self.checkpoints.given_up)
    }

    pub(super) fn look_at_checkpoint_after(&mut self, delay: Duration) {
        self.checkpoints.is_watched = true;
        self.run_after(delay, Timer::LookAtCheckpoint);
    }

    /// Gives up the checkpoint that is being made if its present step takes too long.
    pub(in crate::coordinator) fn look_at_checkpoint(&mut self) {
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
    pub(super) fn pes_without_part<'a>(
        &'a self,
        keeping: &'a Keeping,
    ) -> impl Iterator<Item = PeId> + 'a {
        let kept = keeping.missing.iter().map(|&(pe, _)| pe);
        let is_unencoded = |pe: &PeId| !keeping.parts.contains_key(pe);
        kept.chain(self.common.layout.pes().filter(is_unencoded))
    }

    /// The PEs that would send or confirm missing parts between two handlers, and have been inside
    /// one handler for at least half of the time `waited`.
    fn inside_handlers(&self, keeping: &Keeping, waited: Duration) -> BTreeSet<PeId> {
        let layout = &self.common.layout;
        let receiver = |&(pe, node): &(PeId, NodeId)| {
            (layout.node_of(pe) != node).then(|| layout.leader(node))
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
        let (round, counted) = match &making.stage {
            Stage::Draining(it) if it.previous.is_none() => (it.round, Some(it.sum.replicas)),
            Stage::Draining(it) => (it.round, None),
            Stage::Waiting | Stage::Paused => (0, None),
        };
        making.replicas = counted.unwrap_or(making.replicas);
        self.checkpoints.is_late_with_replicas = counted.is_some();
        (self.checkpoints.late, self.checkpoints.late_round) = (late, (making.number, round));
        self.checkpoints.given_up = (self.checkpoints.given_up + 1).min(DOUBLINGS_MAX);
        self.end_making(reason);
    }

    /// Warns once if the other PEs have stood still for long because some do not stop.
    pub(in crate::coordinator) fn tell_slow_checkpoint(&mut self) {
        let Some((number, since, late)) = self.present_step() else { return };
        let is_slow = !late.is_empty() && self.now.since(since) >= HANDLER_LONG;
        let making = self.checkpoints.making.as_mut().filter(|it| is_slow && !it.is_warned);
        let Some(making) = making else { return };
        making.is_warned = true;
        let late = self.silence_of_all(late.iter().copied());
        self.warn(&Warning::CheckpointSlow { checkpoint: number, late });
    }
}
