//! Main's progress points: where main requests checkpoints, and what it is warned of.

use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::COORDINATOR;
use crate::error::Warning;
use crate::message::{Control, MainRequest, MembershipMessage, NOT_STORED};
use crate::pe::Action;
use crate::pe::core::Core;
use bytes::Bytes;
use gridspan_topology::{NodeId, Time};
use std::time::Duration;

impl Core {
    /// Runs an action of main now, or once this PE handles messages again.
    pub(crate) fn act_for_main(&mut self, action: Action) {
        match self.checkpointing.is_stopped || self.checkpointing.main.is_requested {
            true => self.checkpointing.waiting.push(action),
            false => {
                self.main_goes_on();
                action(self);
            }
        }
    }

    /// Runs the deferred actions of main, if this PE handles messages.
    pub(super) fn release_main(&mut self) {
        for action in std::mem::take(&mut self.checkpointing.waiting) {
            self.act_for_main(action);
        }
    }

    /// Requests a checkpoint on behalf of main if one is due, and answers with its number, with
    /// `None` if none is due, or with the reason why it is postponed. `streamed` is the number of
    /// tasks of streams whose outputs main has not taken.
    pub(crate) fn progress(
        &mut self,
        progress: Bytes,
        phases: u32,
        streamed: u64,
        done: impl FnOnce(Result<Option<u64>, String>) + Send + 'static,
    ) {
        let settings = &self.common.run.checkpoints;
        let began = self.checkpointing.began;
        let state = &mut self.checkpointing.main;
        let points = state.points + 1;
        let nodes = self.common.layout.node_count();
        state.note_point([began, self.now], settings.patience(state.cost, nodes));
        let since = state.last.map(|last| self.now.since(last));
        let is_due = settings.is_due(since, points, state.cost, nodes);
        let is_early = state.is_wanted_early && settings.every.is_some();
        let is_wanted = is_due || is_early || state.pause.is_some();
        if !is_wanted || self.now < state.retry_at {
            state.points = points;
            return done(Ok(None));
        }
        if state.is_storing() {
            state.points = points;
            self.report_no_pause(NOT_STORED);
            self.warn_of_postponement(NOT_STORED);
            return done(Err(NOT_STORED.to_owned()));
        }
        if streamed > 0 {
            state.note_postponed(self.now);
            let reason = format!("main has not taken the outputs of {streamed} tasks of streams");
            self.report_no_pause(&reason);
            self.warn_of_postponement(&reason);
            return done(Err(reason));
        }
        // Actions of main wait until the checkpoint is made.
        state.is_requested = true;
        let begun = self.now;
        let pause = state.pause.clone();
        let request = MainRequest::Checkpoint { progress, phases, pause };
        self.ask_coordinator(request, move |core, made: Result<(u64, Duration), String>| {
            let now = core.now;
            core.checkpointing.main.is_requested = false;
            match &made {
                Err(reason) => {
                    core.checkpointing.main.note_postponed(now);
                    core.report_no_pause(reason);
                    core.warn_of_postponement(reason);
                }
                Ok((number, computed)) => {
                    let cost = now.since(begun).saturating_sub(*computed);
                    core.checkpointing.main.note_captured(*number, now, cost);
                }
            }
            done(made.map(|(number, _)| Some(number)));
            core.release_main();
        });
    }

    /// Stops the job after a checkpoint at main's next progress point, so that its launcher can
    /// begin another run without the nodes `leaving`, or end it if `is_end`. If the job can go on
    /// without these nodes, they give back their tasks until then.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot continue on other nodes: it has a group that must keep its
    /// size.
    pub fn pause(&mut self, leaving: Vec<NodeId>, is_end: bool) -> Result<(), String> {
        if let Some(actor) = self.fixed_group().filter(|_| !is_end) {
            return Err(format!(
                "it has a group of `{actor}`, which must keep its size; add the type with \
                 `Job::resizable_group`"
            ));
        }
        if self.common.recovers_tasks && !leaving.is_empty() {
            let rest = MembershipMessage::Rest { nodes: leaving.clone() };
            self.post(COORDINATOR, Control::Membership(rest));
        }
        self.checkpointing.main.pause = Some(leaving);
        self.checkpointing.main.retry_at = Time::ZERO;
        self.checkpointing.main.is_late_told = false;
        Ok(())
    }

    /// The type of a group that must keep its size, if there is one.
    fn fixed_group(&self) -> Option<&str> {
        let is_fixed = |info: &&CollectionInfo| {
            let is_group = matches!(info.map, Map::PerPe | Map::PerNode);
            is_group && !self.common.resizing.contains_key(&info.kind)
        };
        let info = self.collections.values().map(|local| &local.info).find(is_fixed)?;
        Some(self.common.kind(info.kind).map_or("an actor", |kind| kind.name()))
    }

    /// Warns once if the job is to stop, and the checkpoint for that is postponed.
    fn report_no_pause(&mut self, reason: &str) {
        let state = &mut self.checkpointing.main;
        if state.pause.is_some() && !std::mem::replace(&mut state.is_late_told, true) {
            let warning = Warning::ChangeWaits { reason: reason.to_owned() };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Warns once after each progress point if the job makes checkpoints and main has not reached
    /// another one for a long time. If the time before that point was long, too, the warning comes
    /// only after twice as long, so that a main with regular long steps causes one warning.
    pub(crate) fn warn_without_progress(&mut self) {
        let began = self.checkpointing.began;
        let state = &mut self.checkpointing.main;
        let settings = &self.common.run.checkpoints;
        let patience = settings.patience(state.cost, self.common.layout.node_count());
        let since = self.now.since(state.last_point.max(began));
        let patience = patience.map(|patience| patience.max(state.last_gap.saturating_mul(2)));
        let is_late = patience.is_some_and(|patience| since >= patience) && !state.is_requested;
        if is_late && !std::mem::replace(&mut state.is_quiet_told, true) {
            let warning = Warning::NoProgressPoint { job: self.common.run.job.clone(), since };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Warns once if the job makes checkpoints and has postponed them for a long time.
    fn warn_of_postponement(&mut self, reason: &str) {
        let state = &mut self.checkpointing.main;
        let settings = &self.common.run.checkpoints;
        let patience = settings.patience(state.cost, self.common.layout.node_count());
        let since = self.now.since(*state.postponed_since.get_or_insert(self.now));
        let is_late = patience.is_some_and(|patience| since >= patience);
        if is_late && !std::mem::replace(&mut state.is_postponed_told, true) {
            let (job, reason) = (self.common.run.job.clone(), reason.to_owned());
            let warning = Warning::CheckpointsPostponed { job, since, reason };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }
}

#[cfg(test)]
mod tests;
