//! A node's host of the coordinator: it runs the coordinator, or forwards packets to the node that
//! does.
//!
//! **Start.** The coordinator runs on the node that the job names, which all nodes know.
//!
//! **Steady state.** The host of that node hands incoming packets to the coordinator; other hosts
//! forward packets for the coordinator.
//!
//! **Transfer.** The host that the coordinator leaves sends the coordinator's state to the next
//! host, and holds incoming packets until that host reports that the coordinator runs there. Then
//! it forwards all held packets. Each place has a term, and a host never replaces the place to
//! which it forwards by one of an earlier term, so that no packet is forwarded in a circle. The new
//! coordinator announces its place to all nodes; until a node has received the announcement, it
//! sends its packets to the old place.
//!
//! **Failure.** A host ends the job in place of the coordinator if the node where the coordinator
//! runs, or to which it moves, is lost, or if anything fails during a transfer: the coordinator
//! itself may be lost.

use super::event::{CoordinatorCommand, CoordinatorEvent};
use super::machine::Coordinator;
use super::transfer::CoordinatorState;
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::{
    Content, Control, CoordinatorPlace, Manifest, MembershipMessage, Packet, Spread,
    TransferMessage, codec,
};
use crate::pe::{Accounted, Budget, Common, Pieces, PlantedFault};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A clock in nanoseconds since any origin.
type SharedStopwatch = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A frame held until the coordinator has arrived.
type Held = Accounted<Vec<u8>>;

/// Size, in bytes, above which frames go to another node in pieces.
const FRAME_BYTES_MAX: usize = 256 << 10;

/// A node's host of the coordinator: the coordinator itself, or its place.
pub struct CoordinatorHost {
    node: NodeId,
    common: Common,
    stopwatch: Option<SharedStopwatch>,
    state: State,
    /// Splits and joins large frames to and from other hosts.
    pieces: Pieces,
    /// Counts the bytes of held frames.
    budget: Budget,
    lost: BTreeMap<NodeId, JobError>,
    /// Whether this node has ended the job in place of the coordinator.
    has_ended: bool,
}

enum State {
    /// The coordinator runs here.
    Here(Box<Coordinator>),
    /// The coordinator is moving to this place and has not arrived.
    Leaving(CoordinatorPlace, Vec<Held>),
    /// The coordinator is at this place, or can be found from there.
    Elsewhere(CoordinatorPlace),
}

impl CoordinatorHost {
    pub(crate) fn new(node: NodeId, common: Common) -> Self {
        let state = match common.coordinator {
            here if here == node => State::Here(Box::new(Coordinator::new(node, common.clone()))),
            there => State::Elsewhere(CoordinatorPlace { term: 0, node: there }),
        };
        // Each host uses its own range of numbers.
        let pieces = Pieces::numbered_from(u64::from(node.0) << 32);
        let (stopwatch, budget, lost) = (None, Budget::default(), BTreeMap::new());
        Self { node, common, stopwatch, state, pieces, budget, lost, has_ended: false }
    }

    /// Restores the coordinator's part of an image, if the coordinator is here.
    pub(crate) fn restore(
        &mut self,
        manifest: &Manifest,
        copied: impl FnOnce() -> BTreeSet<(PeId, NodeId)>,
    ) {
        if let State::Here(coordinator) = &mut self.state {
            coordinator.restore(manifest, copied());
        }
    }

    /// Gives later checkpoints numbers above this one, if the coordinator is here.
    pub(crate) fn number_checkpoints_after(&mut self, number: u64) {
        if let State::Here(coordinator) = &mut self.state {
            coordinator.number_checkpoints_after(number);
        }
    }

    /// Sets the stopwatch that times planning, and starts the stall watch, on hosts that run in
    /// real time.
    pub(crate) fn set_stopwatch(&mut self, stopwatch: SharedStopwatch) {
        self.stopwatch = Some(stopwatch);
        self.prepare();
    }

    /// Gives the coordinator the stopwatch and starts its stall watch, if the coordinator is here
    /// and time is real.
    fn prepare(&mut self) {
        if let (State::Here(coordinator), Some(stopwatch)) = (&mut self.state, &self.stopwatch) {
            let stopwatch = stopwatch.clone();
            coordinator.set_stopwatch(Box::new(move || stopwatch()));
            coordinator.watch();
        }
    }

    /// Returns the coordinator, if it is here.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        match &self.state {
            State::Here(coordinator) => Some(coordinator),
            State::Leaving(..) | State::Elsewhere(_) => None,
        }
    }

    /// Whether this host forwards packets for the coordinator to another node at once.
    pub fn passes_on(&self) -> bool {
        matches!(self.state, State::Elsewhere(_))
    }

    /// Returns the time by which [`wake`](Self::wake) must be called even if no event arrives.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.coordinator()?.next_wakeup()
    }

    /// Runs the timers that are due.
    pub fn wake(&mut self, now: Time) -> Vec<CoordinatorCommand> {
        let State::Here(coordinator) = &mut self.state else { return Vec::new() };
        let mut out = coordinator.wake(now);
        self.let_go(&mut out);
        out
    }

    /// Handles an event. The commands must be carried out in their order.
    pub fn handle(&mut self, now: Time, event: CoordinatorEvent) -> Vec<CoordinatorCommand> {
        let mut out = Vec::new();
        match event {
            CoordinatorEvent::Place(place) => self.learn(place, &mut out),
            CoordinatorEvent::NodeLost(node, error) => self.lose(now, (node, error), &mut out),
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
        let error = match event {
            CoordinatorEvent::Failed(error) => error,
            CoordinatorEvent::Overflow(bytes) => self.over_budget(bytes),
            // No event of the planner is lost here, because the coordinator waits for its planner
            // before it leaves.
            _ => return,
        };
        // The failure of a guest does not fail the job.
        if !self.common.layout.is_guest(self.node) {
            self.fail(self.common.layout.leader(self.node), error, out);
        }
    }

    /// Returns the error of a job in which `bytes` wait here to be forwarded, so that further
    /// packets were dropped.
    fn over_budget(&self, bytes: usize) -> JobError {
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(self.node));
        JobError::OverBudget {
            pe: layout.leader(self.node),
            place: format!("{} at site {site}", self.node),
            queued_bytes: bytes as u64,
            held_bytes: 0,
            limit_bytes: self.common.limits.hard_bytes as u64,
            fullest: "packets for the coordinator, which is on another node".to_owned(),
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
            Content::Control(control) => self.take_control(from, *control, out),
            _ => self.pass(from, packet, out),
        }
    }

    /// Handles a control for the coordinator, which is not here.
    fn take_control(&mut self, from: PeId, control: Control, out: &mut Vec<CoordinatorCommand>) {
        let layout = &self.common.layout;
        match control {
            // Sent by a PE of this node that expected the coordinator here.
            Control::LargeMulticast(multicast) if layout.node_of(from) == self.node => {
                if let Err(error) = multicast.check(layout) {
                    return self.fail(from, error, out);
                }
                let spread = Spread::by_sites(layout, self.node, *multicast);
                out.push(CoordinatorCommand::Relay { from, packet: Packet::spread(spread) });
            }
            Control::Failed { error } if layout.contains(from) => self.fail(from, error, out),
            // Guests may only join, leave and fail.
            Control::Membership(_) | Control::Failed { .. } => {
                self.pass(from, Packet::control(control), out);
            }
            _ if layout.is_guest(layout.node_of(from)) => {}
            _ => self.pass(from, Packet::control(control), out),
        }
    }

    /// Fails the job with an error reported by a founder.
    fn fail(&mut self, from: PeId, error: JobError, out: &mut Vec<CoordinatorCommand>) {
        match &self.state {
            // If the coordinator does not arrive, a held report is lost, and the PE sends no other.
            State::Leaving(..) => self.end(&error, out),
            _ => self.pass(from, Packet::control(Control::Failed { error }), out),
        }
    }

    /// Notes the loss of a node. If the job may go on without that node, reports the loss to the
    /// coordinator, which decides. No PE takes part, since all may be inside handlers.
    fn lose(
        &mut self,
        now: Time,
        (node, error): (NodeId, JobError),
        out: &mut Vec<CoordinatorCommand>,
    ) {
        self.lost.insert(node, error.clone());
        self.end_if_lost(out);
        if !self.common.recovers_tasks || self.has_ended {
            return;
        }
        match &self.state {
            State::Here(_) => self.take_event(now, CoordinatorEvent::NodeLost(node, error), out),
            // The coordinator may not arrive.
            State::Leaving(..) => self.end(&error, out),
            State::Elsewhere(_) => {
                let lost = MembershipMessage::Unreachable { node, error };
                let leader = self.common.layout.leader(self.node);
                self.pass(leader, Packet::control(Control::Membership(lost)), out);
            }
        }
    }

    /// Ends the job if the coordinator is on a lost node, or moving to one.
    fn end_if_lost(&mut self, out: &mut Vec<CoordinatorCommand>) {
        if let State::Leaving(place, _) | State::Elsewhere(place) = &self.state
            && let Some(error) = self.lost.get(&place.node).cloned()
        {
            self.end(&error, out);
        }
    }

    /// Handles a message of another node's host.
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
            Control::Transfer(TransferMessage::PassedOn(frame)) => {
                self.take_frame(now, &frame, out);
            }
            other => {
                let reason = format!("a host of the coordinator was sent {other:?}");
                self.end(&JobError::Protocol(reason), out);
            }
        }
    }

    /// Handles a frame that another host forwarded in pieces, now complete, or that this host held.
    fn take_frame(&mut self, now: Time, frame: &Bytes, out: &mut Vec<CoordinatorCommand>) {
        match Packet::from_frame(frame) {
            Ok((from, COORDINATOR, packet)) if self.common.layout.may_contain(from) => {
                self.take(now, from, packet, out);
            }
            Ok((from, to, _)) => {
                let reason =
                    format!("a frame from {from} to {to} was passed on to the coordinator");
                self.end(&JobError::Protocol(reason), out);
            }
            Err(error) => self.end(&JobError::Protocol(error.to_string()), out),
        }
    }

    /// Takes over the coordinator from another node.
    fn take_in(&mut self, now: Time, state: CoordinatorState, out: &mut Vec<CoordinatorCommand>) {
        let (place, before) = (state.place, state.before);
        if place.node != self.node || place.term <= self.term() {
            let reason = format!("the coordinator arrived at {}, not at {}", self.node, place.node);
            return self.end(&JobError::Protocol(reason), out);
        }
        let (coordinator, asker) = Coordinator::from_state(self.common.clone(), now, state);
        let state = std::mem::replace(&mut self.state, State::Here(Box::new(coordinator)));
        self.prepare();
        let done = Packet::control(Control::Transfer(TransferMessage::Done(place)));
        self.forward(before, done.into_frame(COORDINATOR, COORDINATOR), out);
        if let State::Here(coordinator) = &mut self.state {
            out.extend(coordinator.arrive(asker));
            self.let_go(out);
        }
        // This host still held packets, because the coordinator came back before the other node
        // reported that it had arrived there.
        if let State::Leaving(_, held) = state {
            for frame in held {
                self.take_frame(now, &frame.into_inner().into(), out);
            }
        }
    }

    /// Sends the coordinator to its next node, if it is ready to leave.
    fn let_go(&mut self, out: &mut Vec<CoordinatorCommand>) {
        let State::Here(coordinator) = &self.state else { return };
        let Some(place) = coordinator.departs_to() else { return };
        let before = std::mem::replace(&mut self.state, State::Leaving(place, Vec::new()));
        let State::Here(coordinator) = before else { return };
        let Some(state) = coordinator.into_state() else { return };
        self.send_in_pieces(place.node, TransferMessage::State(codec::encode(&state).into()), out);
        self.end_if_lost(out);
    }

    fn send_in_pieces(
        &mut self,
        node: NodeId,
        message: TransferMessage,
        out: &mut Vec<CoordinatorCommand>,
    ) {
        for piece in self.pieces.split(&Control::Transfer(message)) {
            let piece = Packet::control(Control::Piece(piece));
            let frame = piece.into_frame(COORDINATOR, COORDINATOR);
            out.push(CoordinatorCommand::Forward { node, frame });
        }
    }

    /// Notes the coordinator's place, unless a later one is known, and forwards the held packets
    /// there.
    fn learn(&mut self, place: CoordinatorPlace, out: &mut Vec<CoordinatorCommand>) {
        if self.common.layout.is_guest(place.node) {
            let reason = format!("the coordinator cannot run at {}", place.node);
            return self.end(&JobError::Protocol(reason), out);
        }
        if self.coordinator().is_some() || place.term < self.term() || place.node == self.node {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Elsewhere(place));
        if let State::Leaving(_, held) = state
            && self.common.fault != PlantedFault::TransferDropsHeld
        {
            for frame in held {
                self.forward(place.node, frame.into_inner(), out);
            }
        }
        self.end_if_lost(out);
    }

    /// Returns the term of the known place.
    fn term(&self) -> u64 {
        match &self.state {
            State::Here(coordinator) => coordinator.place().term,
            State::Leaving(place, _) | State::Elsewhere(place) => place.term,
        }
    }

    /// Forwards a packet for the coordinator, now or once the coordinator has arrived.
    fn pass(&mut self, from: PeId, packet: Packet, out: &mut Vec<CoordinatorCommand>) {
        let frame = packet.into_frame(from, COORDINATOR);
        match &mut self.state {
            State::Leaving(_, held) => {
                let bytes = frame.len();
                held.push(self.budget.keep(frame, bytes));
                self.check_budget(out);
            }
            &mut State::Elsewhere(place) => self.forward(place.node, frame, out),
            State::Here(_) => {}
        }
    }

    /// Sends a frame for the coordinator to another node, in pieces if it is large.
    fn forward(&mut self, node: NodeId, frame: Vec<u8>, out: &mut Vec<CoordinatorCommand>) {
        match frame.len() <= FRAME_BYTES_MAX {
            true => out.push(CoordinatorCommand::Forward { node, frame }),
            false => self.send_in_pieces(node, TransferMessage::PassedOn(frame.into()), out),
        }
    }

    fn check_budget(&mut self, out: &mut Vec<CoordinatorCommand>) {
        let (limit, held) = (self.common.limits.hard_bytes, self.budget.bytes());
        if held > limit {
            let error = JobError::CoordinatorOverBudget {
                node: self.node,
                held_bytes: held as u64,
                limit_bytes: limit as u64,
            };
            self.end(&error, out);
        }
    }

    /// Ends the job in place of the coordinator. Notifies this node last, because it may end on
    /// receipt.
    fn end(&mut self, error: &JobError, out: &mut Vec<CoordinatorCommand>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let layout = &self.common.layout;
        let own = layout.leader(self.node);
        let others = layout.nodes().map(|node| layout.leader(node)).filter(|&leader| leader != own);
        for to in others.chain([own]) {
            let packet = Packet::control(Control::Stop { outcome: Err(error.clone()) });
            out.push(CoordinatorCommand::Send { to, packet });
        }
    }
}
