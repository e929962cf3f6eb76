//! The coordinator as a node has it: it runs there, or packets for it go on to where it runs.
//!
//! **Start.** The coordinator is on the node that the job names, which all know.
//!
//! **Steady state.** The host of that node hands it what comes; others pass on what is for it.
//!
//! **Transfer.** The host that the coordinator leaves sends its state to the next and holds what
//! comes, until that one says that the coordinator runs there. Then all that was held goes there. A
//! host knows the term of the place that it believes in, and passes on to places of later terms
//! only, so that a packet goes round in no circle. The new coordinator tells all nodes where it is;
//! until a node has heard, its packets go by way of the old one.
//!
//! **Failure.** The host that the coordinator has left ends the job if the next node is lost: the
//! coordinator is lost with it, and cannot.

use super::event::{CoordinatorCommand, CoordinatorEvent};
use super::machine::Coordinator;
use super::transfer::CoordinatorState;
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::{Content, Control, CoordinatorPlace, Packet, Spread, TransferMessage, codec};
use crate::pe::{Accounted, Budget, Common, Pieces, PlantedFault};
use gridspan_topology::{NodeId, PeId, Time};
use std::sync::Arc;

/// Tells the time in nanoseconds of any origin.
type SharedStopwatch = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A packet that is held, and who has sent it.
type Held = Accounted<(PeId, Packet)>;

/// See the [module](self).
pub struct CoordinatorHost {
    node: NodeId,
    common: Common,
    stopwatch: Option<SharedStopwatch>,
    state: State,
    /// States that come in pieces, and those that go.
    pieces: Pieces,
    /// Counts what is held.
    budget: Budget,
    /// Whether this node has ended the job because the coordinator is lost.
    has_ended: bool,
}

enum State {
    /// It runs here.
    Here(Box<Coordinator>),
    /// It is on its way to this place, which does not have it yet.
    Leaving(CoordinatorPlace, Vec<Held>),
    /// It is there, or was and can be found from there.
    Elsewhere(CoordinatorPlace),
}

impl CoordinatorHost {
    pub(crate) fn new(node: NodeId, common: Common) -> Self {
        let state = match common.coordinator {
            here if here == node => State::Here(Box::new(Coordinator::new(node, common.clone()))),
            there => State::Elsewhere(CoordinatorPlace { term: 0, node: there }),
        };
        let (pieces, budget) = (Pieces::default(), Budget::default());
        Self { node, common, stopwatch: None, state, pieces, budget, has_ended: false }
    }

    /// Has planning timed, and stalls looked for: time is real here.
    pub(crate) fn set_stopwatch(&mut self, stopwatch: SharedStopwatch) {
        self.stopwatch = Some(stopwatch);
        self.prepare();
    }

    /// Gives the coordinator what it has of time, if it is here.
    fn prepare(&mut self) {
        if let (State::Here(coordinator), Some(stopwatch)) = (&mut self.state, &self.stopwatch) {
            let stopwatch = stopwatch.clone();
            coordinator.set_stopwatch(Box::new(move || stopwatch()));
            coordinator.watch();
        }
    }

    /// The coordinator, if it is here.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        match &self.state {
            State::Here(coordinator) => Some(coordinator),
            State::Leaving(..) | State::Elsewhere(_) => None,
        }
    }

    /// Whether packets for it go on to another node at once.
    pub fn passes_on(&self) -> bool {
        matches!(self.state, State::Elsewhere(_))
    }

    /// When [`wake`](Self::wake) has something to do although nothing comes.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.coordinator()?.next_wakeup()
    }

    /// Does what is due by now.
    pub fn wake(&mut self, now: Time) -> Vec<CoordinatorCommand> {
        let State::Here(coordinator) = &mut self.state else { return Vec::new() };
        let mut out = coordinator.wake(now);
        self.let_go(&mut out);
        out
    }

    /// Takes an event. The commands are to be carried out in their order.
    pub fn handle(&mut self, now: Time, event: CoordinatorEvent) -> Vec<CoordinatorCommand> {
        let mut out = Vec::new();
        match event {
            CoordinatorEvent::Place(place) => self.learn(place, &mut out),
            CoordinatorEvent::Packet { from, packet } => self.take(now, from, packet, &mut out),
            event => self.take_event(now, event, &mut out),
        }
        out
    }

    fn take_event(
        &mut self,
        now: Time,
        event: CoordinatorEvent,
        out: &mut Vec<CoordinatorCommand>,
    ) {
        if let State::Here(coordinator) = &mut self.state {
            out.extend(coordinator.handle(now, event));
            return self.let_go(out);
        }
        // Planners are done before the coordinator leaves. A guest does not fail the job.
        if let CoordinatorEvent::Failed(error) = event
            && !self.common.layout.is_guest(self.node)
        {
            let from = self.common.layout.leader(self.node);
            self.pass(from, Packet::control(Control::Failed { error }), out);
        }
    }

    fn take(&mut self, now: Time, from: PeId, packet: Packet, out: &mut Vec<CoordinatorCommand>) {
        match packet.0 {
            Content::Control(control) if from == COORDINATOR => {
                self.take_transfer(now, *control, out);
            }
            _ if self.coordinator().is_some() => {
                self.take_event(now, CoordinatorEvent::Packet { from, packet }, out);
            }
            Content::Control(control) => match *control {
                // Of a PE of this node that took the coordinator to be here.
                Control::LargeMulticast(multicast) if self.is_near(from) => {
                    let spread = Spread::by_sites(&self.common.layout, self.node, *multicast);
                    out.push(CoordinatorCommand::Relay { from, packet: Packet::spread(spread) });
                }
                Control::Failed { error } if self.is_lost_with(from, &error) => {
                    self.end(&error, out);
                }
                control => self.pass(from, Packet::control(control), out),
            },
            _ => self.pass(from, packet, out),
        }
    }

    /// Takes what the host of another node has sent.
    fn take_transfer(&mut self, now: Time, control: Control, out: &mut Vec<CoordinatorCommand>) {
        match control {
            Control::Piece(piece) => {
                let limit = self.common.limits.hard_bytes;
                match self.pieces.take(COORDINATOR, piece, limit) {
                    Ok(Some(control)) => self.take_transfer(now, control, out),
                    Ok(None) => {}
                    Err(error) => self.end(&JobError::Protocol(error.to_string()), out),
                }
            }
            Control::Transfer(TransferMessage::State(state)) => {
                match codec::decode("the state of the coordinator", &state) {
                    Ok(state) => self.take_in(now, state, out),
                    Err(error) => self.end(&JobError::Protocol(error.to_string()), out),
                }
            }
            Control::Transfer(TransferMessage::Done(place)) => self.learn(place, out),
            other => {
                let reason = format!("a host of the coordinator was sent {other:?}");
                self.end(&JobError::Protocol(reason), out);
            }
        }
    }

    /// The coordinator has come.
    fn take_in(&mut self, now: Time, state: CoordinatorState, out: &mut Vec<CoordinatorCommand>) {
        let (place, before) = (state.place, state.before);
        if place.node != self.node || place.term <= self.term() {
            let reason = format!("the coordinator came to {} and not to {}", self.node, place.node);
            return self.end(&JobError::Protocol(reason), out);
        }
        let (coordinator, asker) = Coordinator::from_state(self.common.clone(), now, state);
        let state = std::mem::replace(&mut self.state, State::Here(Box::new(coordinator)));
        self.prepare();
        let done = Packet::control(Control::Transfer(TransferMessage::Done(place)));
        out.push(CoordinatorCommand::Forward { node: before, from: COORDINATOR, packet: done });
        if let State::Here(coordinator) = &mut self.state {
            out.extend(coordinator.arrive(asker));
            self.let_go(out);
        }
        // It has come back before the node that it was on in between has said that it had come.
        if let State::Leaving(_, held) = state {
            for packet in held {
                let (from, packet) = packet.into_inner();
                self.take(now, from, packet, out);
            }
        }
    }

    /// Sends the coordinator on its way, if it is to leave.
    fn let_go(&mut self, out: &mut Vec<CoordinatorCommand>) {
        let State::Here(coordinator) = &self.state else { return };
        let Some(place) = coordinator.departs_to() else { return };
        let before = std::mem::replace(&mut self.state, State::Leaving(place, Vec::new()));
        let State::Here(coordinator) = before else { return };
        let Some(state) = coordinator.into_state() else { return };
        let (node, state) = (place.node, codec::encode(&state).into());
        for piece in self.pieces.split(&Control::Transfer(TransferMessage::State(state))) {
            let packet = Packet::control(Control::Piece(piece));
            out.push(CoordinatorCommand::Forward { node, from: COORDINATOR, packet });
        }
    }

    /// The coordinator is at this place, if that is later than what is known.
    fn learn(&mut self, place: CoordinatorPlace, out: &mut Vec<CoordinatorCommand>) {
        if self.coordinator().is_some() || place.term < self.term() || place.node == self.node {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Elsewhere(place));
        if let State::Leaving(_, held) = state
            && self.common.fault != PlantedFault::TransferDropsHeld
        {
            for packet in held {
                let (from, packet) = packet.into_inner();
                out.push(CoordinatorCommand::Forward { node: place.node, from, packet });
            }
        }
    }

    /// The term of the place that is known.
    fn term(&self) -> u64 {
        match &self.state {
            State::Here(coordinator) => coordinator.place().term,
            State::Leaving(place, _) | State::Elsewhere(place) => place.term,
        }
    }

    /// Passes on what is for the coordinator, now or once it has arrived.
    fn pass(&mut self, from: PeId, packet: Packet, out: &mut Vec<CoordinatorCommand>) {
        match &mut self.state {
            State::Leaving(_, held) => {
                let bytes = packet.bytes();
                held.push(self.budget.keep((from, packet), bytes));
                self.check_budget(out);
            }
            State::Elsewhere(place) => {
                out.push(CoordinatorCommand::Forward { node: place.node, from, packet });
            }
            State::Here(_) => {}
        }
    }

    fn check_budget(&mut self, out: &mut Vec<CoordinatorCommand>) {
        let (limit, held) = (self.common.limits.hard_bytes, self.budget.bytes());
        if held > limit {
            let error = JobError::Failed(format!(
                "{held} bytes wait on {} for the coordinator, which is on its way to another node, and {limit} may; raise the limit, or move it when the job is quieter",
                self.node
            ));
            self.end(&error, out);
        }
    }

    /// Whether a PE is of this node.
    fn is_near(&self, pe: PeId) -> bool {
        self.common.layout.node_of(pe) == self.node
    }

    /// Whether a founder has found the node lost that the coordinator is on or goes to.
    fn is_lost_with(&self, from: PeId, error: &JobError) -> bool {
        let place = match &self.state {
            State::Leaving(place, _) | State::Elsewhere(place) => place.node,
            State::Here(_) => return false,
        };
        let is_founder = self.common.layout.contains(from);
        is_founder && matches!(error, JobError::NodeLost { node, .. } if *node == place)
    }

    /// Ends the job in place of the coordinator.
    fn end(&mut self, error: &JobError, out: &mut Vec<CoordinatorCommand>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let layout = &self.common.layout;
        for to in layout.nodes().map(|node| layout.leader(node)) {
            let packet = Packet::control(Control::Stop { outcome: Err(error.clone()) });
            out.push(CoordinatorCommand::Send { to, packet });
        }
    }
}
