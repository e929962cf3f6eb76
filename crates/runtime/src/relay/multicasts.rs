//! Large multicasts, and direct broadcasts (`pe/collective/direct.rs`): they travel in segments
//! over the trees of a sub-plan, and every segment contains its tree.
//!
//! A multicast may start at any node and go to any others, so no plan that all relays know
//! describes its path. Each segment contains enough to pass it on; nodes that only pass it on keep
//! nothing of it.

use super::{BULK_BYTES, Relay, RelayCommand};
use crate::address::id::COORDINATOR;
use crate::message::Assembly;
use crate::message::codec::DecodeError;
use crate::message::frame::Frame;
use crate::message::{
    FlowId, IncomingControl, MulticastSegment, OutgoingControl, Packet, REPORTED_BYTES_MIN,
    SpreadFrame,
};
use bytes::Bytes;
use gridspan_bcast::SubPlan;
use gridspan_topology::{NodeId, PeId, Time};

impl Relay {
    /// Sends a multicast of this node over its sub-plan.
    pub(super) fn send_multicast(
        &mut self,
        (now, origin): (Time, PeId),
        multicast: &OutgoingControl,
        (sub_plan, report): (&SubPlan, Option<FlowId>),
        out: &mut Vec<RelayCommand>,
    ) {
        let flow = self.multicasts_begun;
        self.multicasts_begun += 1;
        let total = multicast.bytes() as u64;
        if let Some(name) = report.filter(|_| total >= REPORTED_BYTES_MIN) {
            self.watch.begin(now, name);
        }
        for segment in sub_plan.segments(total) {
            let (stripe, offset) = (segment.stripe as u32, segment.offset);
            let tree = sub_plan.trees()[segment.stripe].clone();
            let relays = sub_plan.relays().to_vec();
            let part = offset as usize..(offset + segment.bytes) as usize;
            let to = tree.children(self.node).to_vec();
            let head = MulticastSegment { flow, stripe, offset, total, tree, relays, report };
            let frame = SpreadFrame::multicast_segment(origin, &head, multicast.part(part));
            send_to(&to, &frame, total, out);
        }
    }

    /// Passes a segment of a multicast on, and delivers the multicast to its PEs on this node once
    /// it is complete.
    pub(super) fn take_multicast(
        &mut self,
        (now, from, origin): (Time, NodeId, PeId),
        head: MulticastSegment,
        (frame, payload): (&Bytes, Bytes),
        out: &mut Vec<RelayCommand>,
    ) -> Result<(), DecodeError> {
        let refuse = |reason: String| Err(DecodeError::new("a part of a multicast", reason));
        let MulticastSegment { flow, stripe, offset, total, tree, relays, report } = head;
        let root = tree.root();
        let is_known =
            tree.nodes().next_back().is_some_and(|last| last.0 < self.layout.node_count());
        let is_theirs = origin == COORDINATOR || self.layout.node_of(origin) == root;
        if !is_known || !is_theirs || tree.parent(self.node) != Some(from) {
            return refuse(format!("its tree does not lead from {from} to this node"));
        }
        if total > self.bytes_max {
            let most = self.bytes_max;
            return refuse(format!("its {total} bytes exceed the limit of {most}"));
        }
        let keeps = !relays.contains(&self.node);
        if keeps {
            let multicast =
                self.multicasts.entry((root, flow)).or_insert_with(|| Assembly::new(total));
            multicast.add(offset, total, payload)?;
            multicast.note(now, stripe, from, frame.len() as u64);
        }
        send_to(tree.children(self.node), &frame.clone().into(), total, out);
        if !self.multicasts.get(&(root, flow)).is_some_and(Assembly::is_complete) {
            return Ok(());
        }
        let Some(multicast) = self.multicasts.remove(&(root, flow)) else { return Ok(()) };
        if let Some(name) = report.filter(|_| total >= REPORTED_BYTES_MIN) {
            out.push(self.carried(root, name, multicast.arrivals()));
        }
        let here = self.layout.place(self.node).pes.clone().map(PeId);
        for (to, control) in IncomingControl::from_bytes(&multicast.into_bytes())?.controls(here)? {
            out.push(RelayCommand::Deliver { from: origin, to, packet: Packet::control(control) });
        }
        Ok(())
    }
}

fn send_to(nodes: &[NodeId], frame: &Frame, total: u64, out: &mut Vec<RelayCommand>) {
    for &to in nodes {
        let (frame, is_bulk) = (frame.clone(), total >= BULK_BYTES);
        out.push(RelayCommand::Send { to, frame, is_bulk });
    }
}
