//! A node's carrier: brings what is for many nodes, without waiting for PEs.
//!
//! A PE may be inside a handler for long, and what others wait for must not wait with it. So multicasts and
//! announcements (broadcasts, read-only data) are handed to the carrier of the node, and from there on
//! carriers pass them on among themselves, on whichever thread drives the network; PEs get what is for
//! them.
//!
//! - Multicasts cross once to each other site, are passed on to the nodes there, and are given to each PE that has
//!   members among the targets.
//! - Announcements go to all PEs of all nodes, over the trees of a plan, in segments: each is passed on as it arrives,
//!   as the same bytes in memory.
//!
//! A carrier does no I/O: packets and frames in, [`Carriage`]s out.

mod assembly;
mod branches;
mod plans;

use crate::codec::DecodeError;
use crate::parcel::Parcel;
use crate::wire::{
    Announced, Announcement, Content, Control, Multicast, Packet, PlanHead, REPORTED_BYTES_MIN,
    SegmentHead, Spread, SpreadFrame,
};
pub(crate) use assembly::Assembly;
use bytes::Bytes;
use gridspan_bcast::{Plan, PlanId, Tree};
use gridspan_topology::{Layout, NodeId, PeId, Time};
use plans::Plans;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a driver has to do for a carrier.
pub enum Carriage {
    /// Send a frame to the carrier of another node.
    Send {
        /// The other node.
        to: NodeId,
        /// What [`Carrier::receive`] takes there.
        frame: Bytes,
        /// Whether it is part of something large, and should hold up no others.
        is_bulk: bool,
    },
    /// Hand a packet to a PE of this node.
    Deliver {
        /// The PE that it comes from.
        from: PeId,
        /// A PE of this node.
        to: PeId,
        /// The packet.
        packet: Packet,
    },
}

/// The carrier of one node.
pub struct Carrier {
    node: NodeId,
    layout: Arc<Layout>,
    plans: Plans,
    /// The plan that is known from the beginning.
    standing: Arc<Plan>,
    /// Announcements of other nodes of which parts are missing, by root and number.
    flows: BTreeMap<(NodeId, u64), Assembly>,
    /// How many of this node's announcements had begun when each of its plans was last used.
    used: BTreeMap<PlanId, u64>,
    /// Announcements are not larger.
    bytes_max: u64,
}

/// Segments of the plan that needs no planning: some for each hop of a deep tree, and large enough to be bulk, so
/// that each has a stream of its own and holds up no messages.
const SEGMENT_BYTES: u64 = 68 << 10;
/// Announcements of so many bytes hold up no messages, however small their segments are.
const BULK_BYTES: u64 = 64 << 10;

impl Carrier {
    /// A carrier that knows the `tree` of nodes, which announcements take that name no other plan.
    pub(crate) fn new(node: NodeId, layout: Arc<Layout>, tree: &Tree, bytes_max: u64) -> Self {
        // Where nobody passes anything on, there is nothing to be gained by segments.
        let segment_bytes = if tree.depth() > 1 { SEGMENT_BYTES } else { u64::MAX };
        let standing = Arc::new(Plan::standing(tree.clone(), segment_bytes));
        let (plans, flows, used) = (Plans::default(), BTreeMap::new(), BTreeMap::new());
        Self { node, layout, plans, standing, flows, used, bytes_max }
    }

    /// Takes what a PE of this node has for others. Only packets for which [`Packet::is_spread`] holds do
    /// anything.
    pub fn take(&mut self, from: PeId, packet: Packet, out: &mut Vec<Carriage>) {
        let Content::Spread(spread) = packet.0 else { return };
        match *spread {
            Spread::Multicast(multicast) => self.pass_on(multicast, out),
            Spread::Announcement { announcement, plan, flow } => {
                self.announce(from, &announcement, (plan, flow), out);
            }
            Spread::Plan { plan, retired } => self.publish(from, *plan, &retired, out),
        }
    }

    /// Takes a frame for which [`Carrier::is_concerned`] holds from the carrier of another node. One that does not
    /// decode or does not fit what came before is refused. `now` only has to run on evenly.
    pub fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        frame: &Bytes,
        out: &mut Vec<Carriage>,
    ) -> Result<(), DecodeError> {
        match SpreadFrame::decode(frame)? {
            SpreadFrame::Multicast(multicast) => {
                self.check(multicast.origin)?;
                for target in &multicast.targets {
                    self.check(target.pe)?;
                }
                self.pass_on(multicast, out);
                Ok(())
            }
            SpreadFrame::Segment { origin, head, payload } => {
                self.check(origin)?;
                self.take_segment((now, from, origin), head, (frame, payload), out)
            }
            SpreadFrame::Plan(head) => self.take_plan(from, *head, frame, out),
        }
    }

    /// Whether a frame is for carriers, and not for one PE.
    pub fn is_concerned(frame: &[u8]) -> bool {
        SpreadFrame::is_one(frame)
    }

    /// Bytes of announcements that are not complete.
    pub fn bytes(&self) -> usize {
        self.flows.values().map(|flow| flow.bytes() as usize).sum()
    }

    fn check(&self, pe: PeId) -> Result<(), DecodeError> {
        match self.layout.contains(pe) {
            true => Ok(()),
            false => Err(DecodeError::new("a frame", format_args!("{pe} does not exist"))),
        }
    }

    /// Sends a multicast towards its targets, and gives it to those of this node.
    fn pass_on(&self, multicast: Multicast, out: &mut Vec<Carriage>) {
        let branches = branches::branches(&self.layout, self.node, &multicast.targets);
        let Multicast { message, .. } = multicast;
        let message = message.into_bytes();
        let head =
            Multicast { targets: Vec::new(), message: Parcel::Bytes(message.clone()), ..multicast };
        for (to, targets) in branches.nodes {
            let frame = SpreadFrame::multicast(&head, targets, &message);
            out.push(Carriage::Send { to, frame, is_bulk: false });
        }
        for target in branches.here {
            let (from, to) = (head.origin, target.pe);
            let own = Multicast {
                targets: vec![target],
                message: Parcel::Bytes(message.clone()),
                ..head
            };
            let packet = Packet::control(Control::Multicast(own));
            out.push(Carriage::Deliver { from, to, packet });
        }
    }

    /// Sends an announcement of this node to all others.
    fn announce(
        &mut self,
        origin: PeId,
        announcement: &Announcement,
        (plan, flow): (PlanId, u64),
        out: &mut Vec<Carriage>,
    ) {
        let plan = self.plan(plan).unwrap_or(&self.standing).clone();
        self.used.insert(plan.id(), flow + 1);
        let total = announcement.bytes() as u64;
        for segment in plan.segments(total) {
            let (stripe, offset) = (segment.stripe as u32, segment.offset);
            let head = SegmentHead { plan: plan.id(), stripe, flow, offset, total };
            let part = offset as usize..(offset + segment.bytes) as usize;
            let frame = SpreadFrame::segment(origin, &head, announcement.part(part));
            for &to in plan.stripes()[segment.stripe].tree.children(self.node) {
                let (frame, is_bulk) = (frame.clone(), total >= BULK_BYTES);
                out.push(Carriage::Send { to, frame, is_bulk });
            }
        }
    }

    fn plan(&self, plan: PlanId) -> Option<&Arc<Plan>> {
        let is_standing = plan == self.standing.id();
        if is_standing { Some(&self.standing) } else { self.plans.get(plan) }
    }

    /// Passes a part of an announcement on, and hands the whole to the PEs of this node once it is complete.
    fn take_segment(
        &mut self,
        (now, from, origin): (Time, NodeId, PeId),
        head: SegmentHead,
        (frame, payload): (&Bytes, Bytes),
        out: &mut Vec<Carriage>,
    ) -> Result<(), DecodeError> {
        let refuse = |reason: String| Err(DecodeError::new("a part of an announcement", reason));
        let Some(plan) = self.plan(head.plan).cloned() else {
            return refuse(format!("plan {} is not known here", head.plan));
        };
        let tree = plan.stripes().get(head.stripe as usize).map(|stripe| &stripe.tree);
        let Some(tree) = tree.filter(|tree| tree.parent(self.node) == Some(from)) else {
            return refuse(format!("plan {} does not bring it from {from}", head.plan));
        };
        if head.total > self.bytes_max {
            let (total, most) = (head.total, self.bytes_max);
            return refuse(format!("all of it would take {total} bytes, and {most} is the most"));
        }
        let (root, number) = (head.plan.root, head.flow);
        if self.plans.is_complete(root, number) {
            return refuse(format!("announcement {number} is complete already"));
        }
        let flow = self.flows.entry((root, number)).or_insert_with(|| Assembly::new(head.total));
        flow.add(head.offset, head.total, payload)?;
        flow.note(now, head.stripe, from, frame.len() as u64);
        for &to in tree.children(self.node) {
            let (frame, is_bulk) = (frame.clone(), head.total >= BULK_BYTES);
            out.push(Carriage::Send { to, frame, is_bulk });
        }
        if !flow.is_complete() {
            return Ok(());
        }
        let Some(flow) = self.flows.remove(&(root, number)) else { return Ok(()) };
        self.plans.note_complete(root, number);
        if head.total >= REPORTED_BYTES_MIN {
            let report = Control::Carried { flow: number, arrivals: flow.arrivals() };
            out.push(self.report(origin, report));
        }
        let announced = Announced::from_bytes(&flow.into_bytes())?;
        for to in self.layout.place(self.node).pes.clone().map(PeId) {
            let packet = Packet::control(announced.control()?);
            out.push(Carriage::Deliver { from: origin, to, packet });
        }
        Ok(())
    }

    /// Gives a plan of this node to all others.
    fn publish(&mut self, origin: PeId, plan: Plan, retired: &[PlanId], out: &mut Vec<Carriage>) {
        let uses = |plan: &PlanId| (*plan, self.used.remove(plan).unwrap_or(0));
        let retired: Vec<(PlanId, u64)> = retired.iter().map(uses).collect();
        let head = PlanHead { plan, retired };
        // What this node sends is complete here when it has begun.
        let own: Vec<(PlanId, u64)> = head.retired.iter().map(|&(plan, _)| (plan, 0)).collect();
        if self.plans.learn(&self.layout, head.plan.clone(), &own).is_err() {
            tracing::error!(plan = %head.plan.id(), "a plan that is not over all nodes is not used; this is a bug in Gridspan");
            return;
        }
        let frame = head.into_frame(origin);
        for &to in self.tree().children(self.node) {
            out.push(Carriage::Send { to, frame: frame.clone(), is_bulk: false });
        }
    }

    fn take_plan(
        &mut self,
        from: NodeId,
        head: PlanHead,
        frame: &Bytes,
        out: &mut Vec<Carriage>,
    ) -> Result<(), DecodeError> {
        let plan = head.plan.id();
        let is_due = self.tree().parent(self.node) == Some(from) && self.plan(plan).is_none();
        if !is_due || plan.root != self.standing.id().root {
            let reason = format!("{plan} is known already, or does not come from {from}");
            return Err(DecodeError::new("a plan for broadcasts", reason));
        }
        self.plans.learn(&self.layout, head.plan, &head.retired)?;
        for &to in self.tree().children(self.node) {
            out.push(Carriage::Send { to, frame: frame.clone(), is_bulk: false });
        }
        let root = self.layout.leader(plan.root);
        out.push(self.report(root, Control::PlanKnown { plan }));
        Ok(())
    }

    /// The tree over which plans themselves travel.
    fn tree(&self) -> &Tree {
        &self.standing.stripes()[0].tree
    }

    /// Tells a PE of another node something.
    fn report(&self, to: PeId, control: Control) -> Carriage {
        let frame = Packet::control(control).into_frame(self.layout.leader(self.node), to);
        Carriage::Send { to: self.layout.node_of(to), frame: frame.into(), is_bulk: false }
    }
}

#[cfg(test)]
mod tests;
