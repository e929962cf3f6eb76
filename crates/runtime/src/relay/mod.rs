//! A node's relay: delivers packets that are for many nodes, without waiting for PEs.
//!
//! A PE may be inside a handler for long, and packets for other PEs must not wait for it. So PEs
//! pass multicasts and tree broadcasts (broadcasts, read-only data) to the relay of their node.
//! Relays pass them on among themselves, on the thread that drives the network, and deliver the
//! packets to PEs.
//!
//! - A multicast crosses once to each other site, is passed on to the nodes there, and is delivered
//!   to each PE that has members among the targets. Large multicasts travel in segments
//!   (`multicasts`).
//! - Steal agents share tasks between nodes (`agents`), and answer at once while PEs compute.
//! - A tree broadcast goes to all PEs of all nodes, over the trees of a plan, in segments: each is
//!   passed on as it arrives, without a copy.
//! - While a tool watches the job, relays merge the counters of the nodes over a tree
//!   (`telemetry`).
//!
//! A relay does no I/O: it receives packets and frames, and returns [`RelayCommand`]s.

mod agents;
mod branches;
mod command;
mod lines;
mod multicasts;
mod plans;
mod telemetry;
mod watch;

use crate::address::id::COORDINATOR;
use crate::message::codec::DecodeError;
use crate::message::frame::Frame;
use crate::message::payload::Payload;
use crate::message::steal_agent::Nudge;
use crate::message::telemetry::{NodeReadings, TelemetryLease, TelemetrySample};
use crate::message::{
    Arrival, Assembly, CarriedHead, Content, Control, CoordinatorPlace, FlowId, IncomingControl,
    Multicast, OutgoingControl, Packet, PlanHead, REPORTED_BYTES_MIN, SegmentHead, Spread,
    SpreadFrame, Stage, default_plan,
};
use agents::{Post, StealAgents};
use bytes::Bytes;
pub use command::RelayCommand;
use gridspan_bcast::{BroadcastPlan, Mode, PlanId, Tree};
use gridspan_topology::{Layout, NodeId, PeId, Time};
use plans::Plans;
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::Telemetry;
use watch::Watch;

/// The relay of one node.
pub struct Relay {
    node: NodeId,
    layout: Arc<Layout>,
    plans: Plans,
    /// Mode of broadcasts that name no plan.
    broadcasts: Mode,
    /// Default plans of the roots so far.
    default_plans: BTreeMap<NodeId, Arc<BroadcastPlan>>,
    /// Latest known place of the coordinator, which may have moved on since.
    coordinator: CoordinatorPlace,
    /// Incomplete tree broadcasts of other nodes, by root and number.
    flows: BTreeMap<(NodeId, u64), Assembly>,
    /// Incomplete multicasts of other nodes, by root and number.
    multicasts: BTreeMap<(NodeId, u64), Assembly>,
    /// Whether a founder is lost or suspended. What it was passing on may stay incomplete.
    lacks_founder: bool,
    /// Number of this node's multicasts that were sent in segments.
    multicasts_begun: u64,
    /// For each plan of this node, the number of tree broadcasts that had begun when it was last
    /// used.
    used: BTreeMap<PlanId, u64>,
    /// Maximum size, in bytes, of a tree broadcast or multicast, and of the waiting messages of a
    /// founder's agents.
    bytes_max: u64,
    agents: StealAgents,
    watch: Watch,
    telemetry: Telemetry,
}

/// Size, in bytes, from which a tree broadcast or segmented multicast is sent as bulk, so that it
/// delays no messages, however small its segments are.
const BULK_BYTES: u64 = 64 << 10;

impl Relay {
    /// Creates the relay of a job whose coordinator is on the root of `tree`. A tree broadcast that
    /// names no plan travels over `tree` if it starts at that root, and otherwise over the tree
    /// that the mode gives for its root.
    pub(crate) fn new(
        node: NodeId,
        layout: Arc<Layout>,
        (broadcasts, tree): (Mode, &Tree),
        bytes_max: u64,
    ) -> Self {
        let default_plans = [(tree.root(), Arc::new(default_plan(tree)))].into();
        let (flows, multicasts, used) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let plans = Plans::default();
        let agents = StealAgents::default();
        Self {
            node,
            layout,
            plans,
            broadcasts,
            default_plans,
            coordinator: CoordinatorPlace { term: 0, node: tree.root() },
            flows,
            multicasts,
            lacks_founder: false,
            multicasts_begun: 0,
            used,
            bytes_max,
            agents,
            watch: Watch::default(),
            telemetry: Telemetry::default(),
        }
    }

    /// Sets the names of the actor types, by number.
    pub(crate) fn with_type_names(mut self, names: Vec<&'static str>) -> Self {
        self.telemetry.set_type_names(names);
        self
    }

    /// Sets the function by which tasks request a call of [`Relay::wake`] at once, if time is real.
    pub(crate) fn connect(&mut self, nudge: Nudge) {
        self.agents.nudge = Some(nudge);
    }

    /// Sets where the counters of this node are read. Without them it has no part in
    /// [`sample`](Self::sample).
    pub fn set_readings(&mut self, readings: Arc<dyn NodeReadings>) {
        self.telemetry.set_readings(readings);
    }

    /// Makes all nodes send samples of their counters to this one for some time, and returns the
    /// latest sample of the job, if there is one. Call it on the node of main, and again while the
    /// job is watched.
    pub fn sample(
        &mut self,
        now: Time,
        lease: TelemetryLease,
        out: &mut Vec<RelayCommand>,
    ) -> Option<TelemetrySample> {
        let (telemetry, mut post) = self.telemetry(now, out);
        // A node without a network has no other thread that does this.
        telemetry.wake(&mut post);
        telemetry.sample(lease, &mut post)
    }

    /// Sets the place of the coordinator, unless a later one is known.
    pub fn set_coordinator(&mut self, place: CoordinatorPlace) {
        if place.term >= self.coordinator.term {
            self.coordinator = place;
        }
    }

    /// Handles a packet of a PE of this node for other nodes or agents. Ignores packets for which
    /// [`Packet::is_spread`] does not hold, and on a guest all packets that are not for its agents.
    /// `now` must be monotonic and run at the same rate on all nodes.
    pub fn take(&mut self, now: Time, from: PeId, packet: Packet, out: &mut Vec<RelayCommand>) {
        let Content::Spread(spread) = packet.0 else { return };
        match *spread {
            Spread::StealEvent { pool, event } => {
                let (agents, mut post) = self.agents(now, out);
                agents.handle_event(pool, event, &mut post);
            }
            Spread::MembershipEvent(news) => {
                if news.stage.is_gone() || news.stage == Stage::Suspended {
                    self.lacks_founder |= !self.layout.is_guest(news.node);
                    let (telemetry, post) = self.telemetry(now, out);
                    telemetry.lose(news.node, &post);
                }
                let (agents, mut post) = self.agents(now, out);
                agents.handle_membership(news, &mut post);
            }
            _ if self.layout.is_guest(self.node) => {}
            Spread::Multicast(multicast) => self.pass_on(multicast, out),
            Spread::SegmentedMulticast { multicast, sub_plan, report } => {
                self.send_multicast((now, from), &multicast, (&sub_plan, report), out);
            }
            Spread::TreeBroadcast { control, plan, flow } => {
                self.send_over_tree((now, from), &control, (plan, flow), out);
            }
            Spread::Plan { plan, retired } => {
                self.publish(from, plan.map(|plan| *plan), &retired, out)
            }
        }
    }

    /// Handles a frame from the relay of another node, for which
    /// [`is_for_relay`](crate::message::is_for_relay) holds. Guests exchange messages of agents
    /// only.
    ///
    /// # Errors
    ///
    /// Fails if the frame does not decode or contradicts earlier ones.
    pub fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        frame: &Bytes,
        out: &mut Vec<RelayCommand>,
    ) -> Result<(), DecodeError> {
        match SpreadFrame::decode(frame)? {
            SpreadFrame::AgentMessage { head, message } => {
                let (agents, mut post) = self.agents(now, out);
                agents.receive(from, head, message, &mut post)
            }
            _ if self.layout.is_guest(from) || self.layout.is_guest(self.node) => {
                let reason = "guests neither forward frames nor receive forwarded ones";
                Err(DecodeError::new("a frame for a relay", reason))
            }
            SpreadFrame::Multicast(multicast) => {
                self.check_origin(multicast.origin)?;
                for target in &multicast.targets {
                    self.check(target.pe)?;
                }
                self.pass_on(multicast, out);
                Ok(())
            }
            SpreadFrame::Segment { origin, head, payload } => {
                self.check_origin(origin)?;
                self.take_segment((now, from, origin), head, (frame, payload), out)
            }
            SpreadFrame::MulticastSegment { origin, head, payload } => {
                self.check_origin(origin)?;
                self.take_multicast((now, from, origin), *head, (frame, payload), out)
            }
            SpreadFrame::Carried(head) => {
                self.note_carried(now, from, head, out);
                Ok(())
            }
            SpreadFrame::Plan(head) => self.take_plan(from, *head, frame, out),
            SpreadFrame::Telemetry { message } => {
                let (telemetry, mut post) = self.telemetry(now, out);
                telemetry.receive(from, &message, &mut post)
            }
        }
    }

    /// Returns the time at which to call [`Relay::wake`] even if nothing arrives.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.agents.due().into_iter().chain(self.telemetry.due()).min()
    }

    /// Runs the work that is due.
    pub fn wake(&mut self, now: Time, out: &mut Vec<RelayCommand>) {
        let (agents, mut post) = self.agents(now, out);
        agents.wake(&mut post);
        let (telemetry, mut post) = self.telemetry(now, out);
        telemetry.wake(&mut post);
    }

    /// Returns the bytes of incomplete tree broadcasts and multicasts, and of waiting messages of
    /// agents. Once a founder is lost, incomplete ones no longer count: the job goes on only if it
    /// does not need them, and would never be found to stall if they counted for ever.
    pub fn bytes(&self) -> usize {
        let flows = self.flows.values().chain(self.multicasts.values());
        let flows = flows.filter(|_| !self.lacks_founder);
        flows.map(|flow| flow.bytes() as usize).sum::<usize>() + self.agents.bytes()
    }

    /// Returns the agents, and the context of their calls.
    fn agents<'a>(
        &'a mut self,
        now: Time,
        out: &'a mut Vec<RelayCommand>,
    ) -> (&'a mut StealAgents, Post<'a>) {
        let Self { node, layout, agents, bytes_max, .. } = self;
        (agents, Post { node: *node, layout, now, bytes_max: *bytes_max, out })
    }

    /// Returns the telemetry of this node, and the context of its calls.
    fn telemetry<'a>(
        &'a mut self,
        now: Time,
        out: &'a mut Vec<RelayCommand>,
    ) -> (&'a mut Telemetry, Post<'a>) {
        let Self { node, layout, telemetry, bytes_max, .. } = self;
        (telemetry, Post { node: *node, layout, now, bytes_max: *bytes_max, out })
    }

    /// Fails if a frame cannot come from `pe`.
    fn check_origin(&self, pe: PeId) -> Result<(), DecodeError> {
        if pe == COORDINATOR { Ok(()) } else { self.check(pe) }
    }

    fn check(&self, pe: PeId) -> Result<(), DecodeError> {
        match self.layout.contains(pe) {
            true => Ok(()),
            false => Err(DecodeError::new("a frame", format_args!("{pe} does not exist"))),
        }
    }

    /// Sends a multicast towards its targets, and delivers it to those on this node.
    fn pass_on(&self, multicast: Multicast, out: &mut Vec<RelayCommand>) {
        let branches = branches::branches(&self.layout, self.node, &multicast.targets);
        let Multicast { message, .. } = multicast;
        let message = message.to_bytes();
        let head = Multicast {
            targets: Vec::new(),
            message: Payload::Bytes(message.clone()),
            ..multicast
        };
        for (to, targets) in branches.nodes {
            let frame = SpreadFrame::multicast(&head, targets, message.clone());
            out.push(RelayCommand::Send { to, frame, is_bulk: false });
        }
        for target in branches.here {
            let (from, to) = (head.origin, target.pe);
            let own = Multicast {
                targets: vec![target],
                message: Payload::Bytes(message.clone()),
                ..head
            };
            let packet = Packet::control(Control::Multicast(own));
            out.push(RelayCommand::Deliver { from, to, packet });
        }
    }

    /// Sends a tree broadcast of this node to all other nodes.
    fn send_over_tree(
        &mut self,
        (now, origin): (Time, PeId),
        control: &OutgoingControl,
        (plan, flow): (PlanId, u64),
        out: &mut Vec<RelayCommand>,
    ) {
        let plan = self.plan(plan).unwrap_or_else(|| self.default_plan(self.node));
        self.used.insert(plan.id(), flow + 1);
        let total = control.bytes() as u64;
        if total >= REPORTED_BYTES_MIN {
            self.watch.begin(now, FlowId::TreeBroadcast(flow));
        }
        for segment in plan.segments(total) {
            let (stripe, offset) = (segment.stripe as u32, segment.offset);
            let head = SegmentHead { plan: plan.id(), stripe, flow, offset, total };
            let part = offset as usize..(offset + segment.bytes) as usize;
            let frame = SpreadFrame::segment(origin, &head, control.part(part));
            for &to in plan.stripes()[segment.stripe].tree.children(self.node) {
                let (frame, is_bulk) = (frame.clone(), total >= BULK_BYTES);
                out.push(RelayCommand::Send { to, frame, is_bulk });
            }
        }
    }

    fn plan(&mut self, plan: PlanId) -> Option<Arc<BroadcastPlan>> {
        let is_default = plan.version == 0 && plan.root.0 < self.layout.node_count();
        if is_default { Some(self.default_plan(plan.root)) } else { self.plans.get(plan).cloned() }
    }

    /// Returns the default plan for tree broadcasts from `root`, which all nodes can compute.
    fn default_plan(&mut self, root: NodeId) -> Arc<BroadcastPlan> {
        let Self { layout, broadcasts, default_plans, .. } = self;
        let make = || Arc::new(default_plan(&broadcasts.tree(layout, root)));
        default_plans.entry(root).or_insert_with(make).clone()
    }

    /// Passes a segment of a tree broadcast on, and delivers the broadcast to the PEs of this node
    /// once it is complete.
    fn take_segment(
        &mut self,
        (now, from, origin): (Time, NodeId, PeId),
        head: SegmentHead,
        (frame, payload): (&Bytes, Bytes),
        out: &mut Vec<RelayCommand>,
    ) -> Result<(), DecodeError> {
        let refuse = |reason: String| Err(DecodeError::new("a part of a tree broadcast", reason));
        let Some(plan) = self.plan(head.plan) else {
            return refuse(format!("plan {} is not known here", head.plan));
        };
        let tree = plan.stripes().get(head.stripe as usize).map(|stripe| &stripe.tree);
        let Some(tree) = tree.filter(|tree| tree.parent(self.node) == Some(from)) else {
            return refuse(format!("plan {} does not lead from {from} to this node", head.plan));
        };
        if head.total > self.bytes_max {
            let (total, most) = (head.total, self.bytes_max);
            return refuse(format!("its {total} bytes exceed the limit of {most}"));
        }
        let (root, number) = (head.plan.root, head.flow);
        if self.plans.is_complete(root, number) {
            return refuse(format!("tree broadcast {number} is complete already"));
        }
        let is_whole = payload.len() as u64 == head.total && head.offset == 0;
        let complete = if is_whole && !self.flows.contains_key(&(root, number)) {
            Some((payload, Vec::new()))
        } else {
            let flow = self.flows.entry((root, number));
            let flow = flow.or_insert_with(|| Assembly::new(head.total));
            flow.add(head.offset, head.total, payload)?;
            flow.note(now, head.stripe, from, frame.len() as u64);
            let whole = if flow.is_complete() { self.flows.remove(&(root, number)) } else { None };
            whole.map(|flow| {
                let arrivals = flow.arrivals();
                (flow.into_bytes(), arrivals)
            })
        };
        for &to in tree.children(self.node) {
            let (frame, is_bulk) = (frame.clone().into(), head.total >= BULK_BYTES);
            out.push(RelayCommand::Send { to, frame, is_bulk });
        }
        let Some((payload, arrivals)) = complete else { return Ok(()) };
        self.plans.note_complete(root, number);
        if head.total >= REPORTED_BYTES_MIN {
            out.push(self.carried(root, FlowId::TreeBroadcast(number), arrivals));
        }
        let here = self.layout.place(self.node).pes.clone().map(PeId);
        for (to, control) in IncomingControl::from_bytes(&payload)?.controls(here)? {
            out.push(RelayCommand::Deliver { from: origin, to, packet: Packet::control(control) });
        }
        Ok(())
    }

    /// Sends a new plan of this node, if given, to all other nodes, and makes all nodes retire the
    /// plans in `retired`.
    fn publish(
        &mut self,
        origin: PeId,
        plan: Option<BroadcastPlan>,
        retired: &[PlanId],
        out: &mut Vec<RelayCommand>,
    ) {
        let uses = |plan: &PlanId| (*plan, self.used.remove(plan).unwrap_or(0));
        let retired: Vec<(PlanId, u64)> = retired.iter().map(uses).collect();
        // A tree broadcast of this node counts as complete here once it has begun.
        let own: Vec<(PlanId, u64)> = retired.iter().map(|&(plan, _)| (plan, 0)).collect();
        if let Err(error) = self.plans.learn(&self.layout, plan.clone(), &own) {
            tracing::error!(%error, "a plan of this node is not used; this is a bug in Gridspan");
            return;
        }
        let frame = PlanHead { plan, retired }.into_frame(origin);
        self.pass_plan(self.node, &frame, out);
    }

    fn take_plan(
        &mut self,
        from: NodeId,
        head: PlanHead,
        frame: &Bytes,
        out: &mut Vec<RelayCommand>,
    ) -> Result<(), DecodeError> {
        let refuse = |reason: String| Err(DecodeError::new("a plan for broadcasts", reason));
        let Some(root) = head.root().filter(|root| root.0 < self.layout.node_count()) else {
            return refuse("its plans do not start at one node of the job".to_owned());
        };
        let PlanHead { plan, retired } = head;
        let new = plan.as_ref().map(BroadcastPlan::id);
        let is_due = self.default_plan(root).stripes()[0].tree.parent(self.node) == Some(from);
        let is_known = new.is_some_and(|plan| self.plan(plan).is_some());
        if !is_due || is_known {
            return refuse(format!(
                "it is known already, or {from} is not the parent of this node in the default tree"
            ));
        }
        self.plans.learn(&self.layout, plan, &retired)?;
        self.pass_plan(root, &frame.clone().into(), out);
        if let Some(plan) = new {
            out.push(self.report(root, Control::PlanKnown { plan }));
        }
        Ok(())
    }

    /// Passes a plan on over the default tree of its root, which all nodes know.
    fn pass_plan(&mut self, root: NodeId, frame: &Frame, out: &mut Vec<RelayCommand>) {
        let default_plan = self.default_plan(root);
        for &to in default_plan.stripes()[0].tree.children(self.node) {
            out.push(RelayCommand::Send { to, frame: frame.clone(), is_bulk: false });
        }
    }

    /// Returns the command that sends `control` to the coordinator through node `to`.
    fn report(&self, to: NodeId, control: Control) -> RelayCommand {
        let frame = Packet::control(control).into_frame(self.layout.leader(self.node), COORDINATOR);
        RelayCommand::Send { to, frame: frame.into(), is_bulk: false }
    }

    /// Returns the command that reports to the relay of `origin` that this node has all of `flow`.
    fn carried(&self, origin: NodeId, flow: FlowId, arrivals: Vec<Arrival>) -> RelayCommand {
        let head = CarriedHead { flow, arrivals };
        let frame = SpreadFrame::carried(self.layout.leader(self.node), &head);
        RelayCommand::Send { to: origin, frame, is_bulk: false }
    }

    /// Handles the report that `node` has all of a flow that began here, and passes it on to the
    /// coordinator.
    fn note_carried(
        &self,
        now: Time,
        node: NodeId,
        head: CarriedHead,
        out: &mut Vec<RelayCommand>,
    ) {
        let CarriedHead { flow, arrivals } = head;
        let Some(begun) = self.watch.begun(flow) else { return };
        let control = Control::Carried { flow, node, arrivals, after: now.since(begun) };
        let from = self.layout.leader(self.node);
        out.push(if self.coordinator.node == self.node {
            RelayCommand::Deliver { from, to: COORDINATOR, packet: Packet::control(control) }
        } else {
            self.report(self.coordinator.node, control)
        });
    }
}

#[cfg(test)]
mod tests;
