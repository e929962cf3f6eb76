//! Dispatch of the coordinator's events: packets, timers, and follow-ups that its parts leave for
//! each other. The parts do not call this file, and their calls form no circle.

use super::event::{Asker, CoordinatorCommand, CoordinatorEvent, FollowUp};
use super::machine::Coordinator;
use super::state::broadcasts::BroadcastRequest;
use super::state::timers::Timer;
use crate::error::JobError;
use crate::message::{Content, Control, MainRequest, Packet, SequencerNews};
use gridspan_balance::Cause;
use gridspan_topology::{NodeId, PeId, Time};

impl Coordinator {
    /// Handles an event. The commands must be carried out in their order.
    pub fn handle(&mut self, now: Time, event: CoordinatorEvent) -> Vec<CoordinatorCommand> {
        self.set_now(now);
        match event {
            CoordinatorEvent::Packet { .. }
            | CoordinatorEvent::Planned(_)
            | CoordinatorEvent::Diagnose(_)
                if self.outcome.is_some() => {}
            CoordinatorEvent::Packet { from, packet: Packet(Content::Control(control)) } => {
                self.handle_control(from, *control);
            }
            CoordinatorEvent::Packet { from, .. } => {
                let reason = format!("{from} sent the coordinator a message of an actor");
                self.fail(JobError::Protocol(reason));
            }
            CoordinatorEvent::Planned(job) => self.planned(job),
            CoordinatorEvent::PlannerLost => self.planner_lost(),
            CoordinatorEvent::Diagnose(request) => self.begin_diagnosis(Some(request)),
            CoordinatorEvent::Failed(error) => self.stop(Err(error)),
            CoordinatorEvent::Overflow(bytes) => self.fail_overflow(bytes),
            CoordinatorEvent::NodeLost(node, error) => self.lose_founder(node, &error),
            // The coordinator knows that it is on this node.
            CoordinatorEvent::Place(_) => {}
        }
        self.finish_event();
        std::mem::take(&mut self.out)
    }

    /// Runs the timers that are due.
    pub fn wake(&mut self, now: Time) -> Vec<CoordinatorCommand> {
        self.set_now(now);
        while self.outcome.is_none()
            && self.departing.is_none()
            && let Some(timer) = self.timers.take_due(self.now)
        {
            self.fire(timer);
            self.finish_event();
        }
        std::mem::take(&mut self.out)
    }

    /// Continues after the coordinator has moved to this node; `asker` waits for that.
    pub(super) fn arrive(&mut self, asker: Asker) -> Vec<CoordinatorCommand> {
        self.tell_place(asker);
        self.resume_advice();
        if std::mem::take(&mut self.balances.is_put_off) {
            self.follow_ups.push_back(FollowUp::BeginRebalance);
        }
        self.finish_event();
        std::mem::take(&mut self.out)
    }

    /// Finishes the event just handled: runs its follow-ups, checks the memory budget, and reports
    /// the job's end or begins a transfer if one is due.
    fn finish_event(&mut self) {
        self.follow_up();
        self.check_budget();
        if !self.is_end_told
            && let Some(outcome) = self.outcome.clone()
        {
            self.tell_end(&outcome);
        }
        if self.checkpoints.is_draining() {
            self.begin_checkpoint();
        }
        // Only a transfer or a checkpoint puts a rebalance off.
        if !self.transfers.is_empty() || self.balances.is_put_off {
            self.begin_transfer();
            self.follow_up();
        }
    }

    fn follow_up(&mut self) {
        while self.outcome.is_none()
            && let Some(follow_up) = self.follow_ups.pop_front()
        {
            match follow_up {
                FollowUp::PlacesKnown => self.begin_with_places(),
                FollowUp::BroadcastBegun(travel) => self.note_travel(travel),
                // The rebalance begins at the coordinator's next place. Otherwise a transfer, which
                // waits for rebalances to end, could wait for ever.
                FollowUp::BeginRebalance if self.is_to_pause() => self.balances.is_put_off = true,
                FollowUp::BeginRebalance => self.measure(),
            }
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            // These need all founders, and nothing waits for them.
            Timer::Period(_)
            | Timer::LookAtEvent(_)
            | Timer::ProbeProgress(_)
            | Timer::LookAtLinks
            | Timer::BeginPlanning
                if self.losses.is_any() => {}
            Timer::BeginQuiescenceRound => self.begin_quiescence_round(),
            Timer::Period(every) => self.tick(every),
            Timer::LookAtEvent(number) => self.look_at_event(number),
            Timer::ProbeProgress(last) => self.probe_progress(last),
            Timer::Decide => self.decide_and_carry_out(),
            Timer::LookAtLinks => self.look_at_links(),
            Timer::BeginPlanning => self.begin_planning(),
            Timer::CheckStall => self.check_stall(),
            Timer::TimeIsUp => self.time_is_up(),
            Timer::EndDiagnosis(number) => self.end_diagnosis(number),
            Timer::DiagnoseAgain(number) => self.diagnose_again(number),
            Timer::BeginPhaseRound(phase) => self.begin_phase_round(phase),
            Timer::EndDrainPause => self.end_drain_pause(),
            Timer::LookAtCheckpoint => self.look_at_checkpoint(),
            Timer::EndSuspension(node) => self.end_suspension(node),
        }
    }

    fn handle_control(&mut self, from: PeId, control: Control) {
        let node = self.common.node_of(from);
        let is_of_guest = self.common.layout.is_guest(node);
        // Guests may only join, leave and fail.
        if is_of_guest && !matches!(control, Control::Membership(_) | Control::Failed { .. }) {
            return;
        }
        if self.losses.is_any() && self.is_barred(node, &control) {
            return;
        }
        if control.is_counted() {
            self.processed += 1;
        }
        match control {
            Control::MainRequest { slot, request } => {
                self.handle_main_request(Asker { pe: from, slot }, request);
            }
            Control::Created { collection } => self.handle_created(collection, 1, None),
            Control::Placed { collection, members, missing } => {
                self.handle_created(collection, members, missing);
            }
            Control::InsertRequest { id, init, at } => self.handle_insert_request(id, init, at),
            Control::Inserted { id } => self.end_insertion(id.collection),
            Control::Destroyed { id, reductions, syncs } => {
                self.handle_destroyed(id, reductions, syncs);
            }
            Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone } => {
                let request = BroadcastRequest { kind, asked, wanted, priority };
                self.handle_broadcast_request((from, is_alone), collection, request);
            }
            Control::Sequencer { collection, news: SequencerNews::Return(right) } => {
                self.handle_right_returned(collection, &right);
            }
            Control::CastBegun(travel) => self.note_travel(travel),
            Control::LargeMulticast(multicast) => match multicast.check(&self.common.layout) {
                Ok(()) => self.send_multicast(from, *multicast),
                Err(error) => self.fail(error),
            },
            Control::Contribution(contribution) => self.merge(contribution),
            Control::QuiescenceReply { round, created, processed, stranded } => {
                self.handle_quiescence_reply(round, [created, processed, stranded]);
            }
            Control::PhaseCounts { phase, round, counts } => {
                self.handle_phase_counts(phase, round, counts);
            }
            Control::Published { id } => self.handle_published(id),
            Control::Greet { definition } => self.handle_greet(from, &definition),
            Control::Probed(report) => self.handle_probed(from, report),
            Control::Links { samples } => self.handle_links(from, &samples),
            Control::ShareChanged { is_late: false } => self.balance_after(Cause::ForeignLoad),
            Control::ShareChanged { is_late: true } => self.balance_late(),
            Control::OwnTime { at, measuring_ns } => self.note_own_time(at, measuring_ns),
            Control::Progress { number, handled, own } => {
                self.handle_progress(from, number, (handled, own));
            }
            Control::PlanKnown { plan } => self.handle_plan_known(node, plan),
            Control::Carried { flow, node, arrivals, after } => {
                self.handle_carried(flow, (from, node, after), arrivals);
            }
            Control::Loads(loads) => self.handle_loads(from, *loads),
            Control::Lead { number, note, planning_ns } => {
                self.handle_note_at_top(from, number, *note, planning_ns);
            }
            Control::PlanDone { rebalance, moves } => self.handle_plan_done(rebalance, moves),
            Control::CollectionAwaited { collection } => {
                if !self.collections.contains_key(&collection) {
                    self.fail_no_collection(collection);
                }
            }
            Control::Checkpoint(message) => self.handle_checkpoint(from, *message),
            Control::UsesSteps => self.uses_steps = true,
            Control::PoolOpened { collection } => self.open_pool(collection),
            Control::PoolClosed { collection, farewell } => self.close_pool(collection, &farewell),
            Control::Membership(message) => self.handle_membership(from, &message),
            Control::Looked(looked) => self.handle_looked(from, *looked),
            Control::Inside { handler } => self.note_inside(from, handler),
            Control::Diagnosed { round, findings } => {
                self.handle_diagnosed(from, round, *findings);
            }
            Control::Piece(piece) => {
                match self.pieces.take(from, piece, self.common.limits.hard_bytes) {
                    Ok(Some(control)) => self.handle_control(from, control),
                    Ok(None) => {}
                    Err(error) => self.fail(JobError::Protocol(format!("{from}: {error}"))),
                }
            }
            Control::Failed { error } => self.handle_failed(node, error),
            Control::End { outcome } => self.stop(outcome),
            other => {
                let reason = format!("{from} sent the coordinator a packet for a PE: {other:?}");
                self.fail(JobError::Protocol(reason));
            }
        }
    }

    /// Whether to drop a control while founders are lost: it comes from one of them, serves no
    /// purpose without them, or needs all founders. In the last case this ends the job.
    fn is_barred(&mut self, from: NodeId, control: &Control) -> bool {
        match control {
            _ if self.losses.contains(from) => true,
            Control::InsertRequest { .. }
            | Control::BroadcastRequest { .. }
            | Control::LargeMulticast(_)
            | Control::Contribution(_) => self.needs_all_founders(),
            Control::MainRequest { request, .. } => {
                !self.can_serve_without_lost(request) && self.needs_all_founders()
            }
            // A rebalance that they begin would wait for the lost founders for ever.
            Control::ShareChanged { .. }
            | Control::Progress { .. }
            | Control::Links { .. }
            | Control::Probed(_) => true,
            _ => false,
        }
    }

    fn handle_main_request(&mut self, asker: Asker, request: MainRequest) {
        match request {
            MainRequest::Create { kind, map, shape, members, created } => {
                self.create_collection(asker, (kind, map, shape, members), created);
            }
            MainRequest::Publish { value } => self.publish(asker, &value),
            MainRequest::Rebalance => self.rebalance(asker),
            MainRequest::RebalanceIfDue => self.rebalance_if_due(asker),
            MainRequest::Quiescence => self.await_quiescence(asker),
            MainRequest::Completion { phase } => self.await_phase(asker, phase),
            MainRequest::Reduction { group } => self.await_reduction(asker, group),
            MainRequest::Places => self.await_places(asker),
            MainRequest::Links => self.await_links(asker),
            MainRequest::KnownLinks => self.tell_known_links(asker),
            MainRequest::LinkChange => self.await_link_change(asker),
            MainRequest::Checkpoint { progress, phases, pause } => {
                self.checkpoint(asker, (progress, phases), pause);
            }
            MainRequest::MoveCoordinator { to } => self.transfer(asker, to),
        }
    }
}
