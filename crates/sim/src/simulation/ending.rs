//! The end of a simulation, and its report.

use super::{Counts, Event, Simulation};
use crate::faults::QuicCounts;
use crate::former_run::{FormerRun, LeftBehind, Stopped};
use crate::idleness::Sample;
use crate::report::{Ending, SimReport};
use gridspan_record::TimeUse;
use gridspan_runtime::coordinator::Coordinator;
use gridspan_runtime::message::MainStatus;
use gridspan_runtime::pe::{PeStatistics, PendingWork};
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_runtime::{Diagnosis, JobError};
use gridspan_topology::Time;

impl Simulation {
    /// Whether the job has stalled although the runtime continues its upkeep: in a periodically
    /// balanced job, the coordinator checks again and again whether there is anything to balance.
    /// `event` is the next event, with its number. Over simulated QUIC the transports have events
    /// too, and [`only_transports_are_active`](Self::only_transports_are_active) decides.
    pub(super) fn only_upkeep_is_left(
        &mut self,
        now: Time,
        (number, event): (u64, &Event),
    ) -> bool {
        let host = &self.hosts[self.coordinator_at];
        let activity = || {
            let all = self.stations.iter().map(|pe| pe.machine.activity());
            let coordinator = host.coordinator().map_or(0, Coordinator::activity);
            all.fold(coordinator, u64::wrapping_add)
        };
        let is_turn = |event: &Event| matches!(event, Event::Turn(_) | Event::Coordinator(_));
        let queue = &self.queue;
        let others = || queue.iter().filter(|(_, event)| !is_turn(event)).map(|(number, _)| number);
        let sample = || Sample {
            activity: activity(),
            oldest: others().chain((!is_turn(event)).then_some(number)).min(),
            next_event: queue.next_number(),
        };
        self.idleness.was_long(now, sample)
            && self.main.waits_inside()
            && is_turn(event)
            && others().next().is_none()
            && self.coordinator().is_some_and(Coordinator::has_only_upkeep)
            && self.stations.iter().all(|pe| {
                self.dead.contains(&self.layout.node_of(pe.machine.id())) || pe.has_only_upkeep(now)
            })
            && self.idleness.is_unchanged(activity())
    }

    /// The outcome of the job, once the first node that is not dead has ended.
    pub(super) fn outcome(&self) -> Option<Result<(), JobError>> {
        let node = self.layout.nodes().find(|node| !self.dead.contains(node))?;
        self.stations[self.layout.leader(node)].machine.outcome().cloned()
    }

    pub(super) fn pending_now(&self) -> PendingWork {
        let mut sum = self.coordinator().map(Coordinator::pending_work).unwrap_or_default();
        for station in self.stations.iter() {
            let (pe, mut pending) = (station.machine.id(), station.machine.pending_work());
            if self.is_over(pe) {
                continue;
            }
            // Only founders count for quiescence: messages that guests have handled may be lost
            // with them, and the end of a pool may reach a guest before the pool's description.
            if self.layout.is_guest(self.layout.node_of(pe)) {
                (pending.created, pending.processed) = (0, 0);
                (pending.members, pending.early) = (0, 0);
            }
            sum += pending;
        }
        sum
    }

    /// What the job waits for; `None` while the coordinator moves.
    pub(super) fn diagnosis(&self) -> Option<Diagnosis> {
        // As in real time, a diagnosis asks founders only.
        let machines = self.stations.iter().map(|station| &station.machine);
        let founders = machines.filter(|machine| self.layout.contains(machine.id()));
        let main = match self.main.waits_inside() {
            true => MainStatus::WaitsInside,
            false => MainStatus::WaitsOutside,
        };
        Some(self.coordinator()?.diagnosis(founders, main))
    }

    /// Ends a job that does not end by itself, with an error that names the work for which it
    /// waits.
    pub(super) fn give_up(mut self, ending: Ending) -> SimReport {
        let pending = self.pending_now();
        let returned = if self.main.is_done() { "main has returned; " } else { "" };
        let error = match ending {
            Ending::Stalled => {
                let waits = format!("{}; {returned}at {}", pending.stalled(), self.now);
                JobError::Stalled { waits }
            }
            _ => {
                let diagnosis = self.diagnosis().map(|diagnosis| diagnosis.to_string());
                let waits = diagnosis.unwrap_or_else(|| pending.to_string());
                let limit = self.options.time_limit;
                JobError::TimeLimit { limit, waits: format!("{returned}{waits}") }
            }
        };
        self.pending = Some(pending);
        self.report(ending, Err(error))
    }

    pub(super) fn report(mut self, ending: Ending, outcome: Result<(), JobError>) -> SimReport {
        for station in self.stations.iter_mut() {
            // The PE has been idle since its last turn.
            station.machine.record_use(self.now, TimeUse::Idle);
        }
        let mut statistics = PeStatistics::default();
        statistics.handovers = self.coordinator().map_or(0, Coordinator::handovers);
        for station in self.stations.iter() {
            statistics += station.machine.statistics();
        }
        let mut faults = self.delays.as_ref().map(|delays| delays.counts).unwrap_or_default();
        if let Some(connections) = &self.connections {
            faults += connections.counts;
        }
        faults.refused += self.former.as_ref().map_or(0, |former| former.refused);
        let mut quic = QuicCounts::default();
        if let Some(network) = &self.quic {
            let (seen, counts) = network.counts();
            faults += seen;
            quic = counts;
        }
        let pending = match &self.pending {
            Some(pending) => pending.clone(),
            None => self.pending_now(),
        };
        let (log_hash, log) = self.log.finish();
        let Counts { events, packets, frames, wide_area_frames, wide_area_bytes } = self.counts;
        SimReport {
            outcome,
            ending,
            virtual_time: self.now,
            events,
            messages: statistics.handled,
            packets,
            frames,
            wide_area_frames,
            wide_area_bytes,
            statistics,
            pending,
            faults,
            quic,
            log_hash,
            log,
        }
    }

    /// Stops the run. Also returns the state with which the job can continue.
    pub(super) fn halt(mut self) -> (SimReport, Option<Stopped>) {
        let (stores, is_paused) = (std::mem::take(&mut self.kept), self.is_paused);
        let network = &self.network;
        let round_trip = |one, other| network.latency(one, other) + network.latency(other, one);
        let unconfirmed = std::mem::take(&mut self.sent).unconfirmed(self.now, round_trip);
        let left = LeftBehind {
            layout: self.layout.clone(),
            keys: self.former.as_ref().map(FormerRun::keys),
            unconfirmed,
            planted: PlantedSessionFault::None,
        };
        let coordinator = self.coordinator_at;
        let report = self.report(Ending::Halted, Err(JobError::Cancelled));
        (report, Some(Stopped { stores, is_paused, coordinator, left }))
    }
}
