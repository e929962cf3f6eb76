//! The workers' part in membership: on founders when guests join and leave or other founders are
//! lost, on guests when they leave.
//!
//! A guest that leaves hands back the nodes of searches that it has not visited: the PEs whose
//! frames they work for take them over, so the guest only has to report the part of the total that
//! it has found so far. It cannot hand back fork-join tasks, since their parents wait on the guest:
//! it gives them to a founder of its site, and stays until their results have come. Tasks that
//! could exceed the founder's limit for loans of a guest stay, and run on the guest unless earlier
//! results make room for them.
//!
//! A founder that is about to leave *rests*, so that its loss would repeat little. Its PEs finish
//! the tasks that run. If all that is missing of a loan waits on one PE, the PE gives the loan
//! back: the lender counts the output so far, and queues the other items. A loan is settled once
//! (`backups`): if it was recalled, or its other copy is done, nothing counts. The agent lends all
//! other tasks to founders that stay, as ordinary loans: if this node is lost, they are orphans.

use super::agent::{guest_bytes_max, near, places};
use super::engine::Work;
use super::frame::{FrameId, Lender, QueuedTask, Up};
use super::lending::{GRANT_BYTES, LENDER_BYTES};
use super::lineage::{LineageId, Repeats, Via};
use super::message::{AgentMessage, Loan, WorkerMessage, notify_agent, send_to_worker};
use super::worker::Worker;
use crate::Context;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::steal_agent::StealEvent;
use crate::message::{MembershipEvent, Stage};
use crate::pe::PoolEvent;
use crate::pe::slab_map::SlabMap;
use bytes::Bytes;
use gridspan_balance::stealing::Grant;
use gridspan_topology::PeId;

/// Tasks that have not begun, by the frame that they work for and their lineage, each with its
/// child number.
type ByFrame<I> = SlabMap<(FrameId, LineageId), Vec<(u32, I)>>;

/// The tasks that a leaving guest gives away have at most as many bytes as a founder's limit for
/// loans of a guest, divided by this number. The rest of the limit is for loans that the founder
/// has asked for.
const GIVEN_AWAY_SHARE: usize = 2;

impl<W: Work> Worker<W> {
    /// Reacts to a change of membership or to new measurements of places.
    pub(super) fn handle_pool_event(&mut self, event: PoolEvent, cx: &mut Context<'_, Self>) {
        let MembershipEvent { node, stage } = match event {
            PoolEvent::Membership(event) => event,
            PoolEvent::Measured => return notify_agent(StealEvent::Measured(places(cx)), cx),
        };
        let pes = cx.layout().place(cx.node()).pes.clone().map(PeId);
        match stage {
            Stage::Joining => {
                self.engine.expect_thieves();
                self.open_agent(cx);
            }
            Stage::Active => notify_agent(StealEvent::OwnStage(stage), cx),
            Stage::Draining if !cx.layout().is_guest(node) => {
                self.engine.node.rest();
                pes.for_each(|pe| send_to_worker(pe, WorkerMessage::Wake, cx));
            }
            Stage::Draining => {
                notify_agent(StealEvent::OwnStage(stage), cx);
                pes.for_each(|pe| send_to_worker(pe, WorkerMessage::Drain, cx));
            }
            // Only agents act on it.
            Stage::Suspended => {}
            Stage::Left | Stage::Lost => {
                match cx.layout().is_guest(node) {
                    true => drop(self.engine.node.note_gone(Via::Guest(node))),
                    false => self.engine.node.note_lost(node),
                }
                self.drop_orphans();
                if let Err(error) = self.ledger.recall(node, &mut self.engine) {
                    cx.fail(format!("the tasks that {node} owed cannot run again: {error}"));
                }
                let own = cx.pe();
                pes.filter(|&pe| pe != own)
                    .for_each(|pe| send_to_worker(pe, WorkerMessage::DropOrphans, cx));
            }
        }
    }

    /// Drops the tasks and loans that have come through a guest or a copy that is gone.
    pub(super) fn drop_orphans(&mut self) {
        self.engine.drop_orphans();
        self.ledger.drop_orphans(&mut self.engine);
    }

    /// Takes back tasks that another PE has not begun, as tasks of the frame that they work for.
    /// Sends that PE the neutral output for them.
    pub(super) fn take_back(&mut self, to: &Lender, loan: &Loan, cx: &mut Context<'_, Self>) {
        if !self.may_answer(to.frame, loan.lender.pe, cx) {
            return;
        }
        let items: Vec<W::Item> = match codec::decode(W::name(), &loan.items) {
            Ok(items) => items,
            Err(error) => {
                let from = cx.layout().node_of(loan.lender.pe);
                return cx.core.blame(from, format_args!("tasks that it hands back: {error}"));
            }
        };
        // If the frame is closed, the tasks are dropped.
        self.engine.resume(to.frame, items);
        let Some(nothing) = W::nothing() else { return };
        let output = codec::encode(&nothing).into();
        let by = cx.pe();
        send_to_worker(loan.lender.pe, WorkerMessage::Done { lender: loan.lender, output, by }, cx);
    }

    /// Hands back the tasks that have not begun, and reports when no frame waits for results of
    /// this PE any more.
    pub(super) fn hand_back(&mut self, cx: &mut Context<'_, Self>) {
        self.take_arrivals(cx);
        let mut by_frame = ByFrame::<W::Item>::default();
        for token in self.engine.take_all() {
            by_frame.get_or_default((token.frame, token.lineage)).push((token.child, token.item));
        }
        for (at, items) in by_frame.into_entries() {
            let frame = self.engine.frames.get(at.0);
            let is_lent = frame.is_some_and(|frame| matches!(frame.up, Up::Lender(_)));
            match W::nothing() {
                Some(_) if is_lent => self.return_items(at, items, cx),
                _ => self.give_away(at, items, cx),
            }
        }
        self.note_done(cx);
    }

    fn return_items(
        &mut self,
        (frame, lineage): (FrameId, LineageId),
        items: Vec<(u32, W::Item)>,
        cx: &mut Context<'_, Self>,
    ) {
        let to = match self.engine.frames.get(frame).map(|frame| &frame.up) {
            Some(Up::Lender(borrowed)) => borrowed.lender,
            _ => return,
        };
        let (too_large, items): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|(_, item)| is_too_large(item));
        // These run here.
        let too_large = too_large.into_iter();
        let kept = too_large.map(|(child, item)| QueuedTask { item, frame, child, lineage });
        self.engine.kept.extend(kept);
        for items in payloads(items.into_iter().map(|(_, item)| item).collect()) {
            let items_len = items.len() as u64;
            let lender = Lender { pe: cx.pe(), frame, child: 0, items: items_len, copy: None };
            // The frame of the lender has the lineage.
            let (lineage, repeats) = (Vec::new(), Repeats::default());
            let loan = Loan { lender, lineage, repeats, items: codec::encode(&items).into() };
            send_to_worker(to.pe, WorkerMessage::Return { to, loan }, cx);
        }
    }

    fn give_away(
        &mut self,
        (frame, lineage): (FrameId, LineageId),
        items: Vec<(u32, W::Item)>,
        cx: &mut Context<'_, Self>,
    ) {
        let vias = self.engine.node.lineages.vias(lineage);
        let Some(founder) = near(cx.layout(), cx.node()) else { return };
        let max = guest_bytes_max(&cx.core.common.limits) / GIVEN_AWAY_SHARE;
        for (child, item) in items {
            let item_bytes = codec::encoded_len(&std::slice::from_ref(&item));
            let bytes = Loan::bytes_of(vias.len(), item_bytes);
            if item_bytes.saturating_add(LENDER_BYTES) > PIECE_BYTES_MAX
                || !self.engine.node.may_give_away(bytes, max)
            {
                // The task is too large to leave, or too many bytes have left. It runs here.
                self.engine.kept.push(QueuedTask { item, frame, child, lineage });
                continue;
            }
            let encoded = codec::encode(std::slice::from_ref(&item));
            self.draining.get_or_insert_default().note_given_away((frame, child), bytes);
            let lender = Lender { pe: cx.pe(), frame, child, items: 1, copy: None };
            let (vias, repeats) = (vias.clone(), lineage.repeats());
            let loans = vec![Loan { lender, lineage: vias, repeats, items: encoded.into() }];
            let message =
                codec::encode(&AgentMessage::Grant { grant: Grant::Lifeline, loans }).into();
            notify_agent(StealEvent::HandOver { to: founder, message }, cx);
        }
    }

    /// Gives back the tasks that have not begun, because this node rests: those of loans of which
    /// nothing else is missing to their lenders, and the others to the agent. Tasks that are too
    /// large to be sent run here.
    pub(super) fn give_back(&mut self, cx: &mut Context<'_, Self>) {
        self.take_arrivals(cx);
        let mut by_frame = SlabMap::<FrameId, Vec<QueuedTask<W::Item>>>::default();
        for token in self.engine.take_all() {
            by_frame.get_or_default(token.frame).push(token);
        }
        let mut others = Vec::new();
        for (frame, tokens) in by_frame.into_entries() {
            others.extend(self.give_back_loan(frame, tokens, cx));
        }
        others.sort_by_cached_key(|token| is_too_large(&token.item));
        let leave = others.partition_point(|token| !is_too_large(&token.item));
        self.engine.kept = others;
        if leave > 0 {
            self.engine.lay_out(leave);
            notify_agent(StealEvent::StockChanged, cx);
        }
    }

    /// Gives back the loan of a frame if these tasks are all that is missing of it, and its lender
    /// is a founder. Returns the tasks otherwise.
    fn give_back_loan(
        &mut self,
        frame: FrameId,
        tokens: Vec<QueuedTask<W::Item>>,
        cx: &mut Context<'_, Self>,
    ) -> Vec<QueuedTask<W::Item>> {
        let Some(waiting) = self.engine.frames.get(frame) else { return tokens };
        let Up::Lender(borrowed) = &waiting.up else { return tokens };
        let lender = borrowed.lender;
        let is_whole = waiting.pending == tokens.len() as u64;
        if !is_whole || cx.layout().is_guest(cx.layout().node_of(lender.pe)) {
            return tokens;
        }
        let output = W::so_far(&waiting.state).map(|output| Bytes::from(codec::encode(output)));
        let items: Vec<&W::Item> = tokens.iter().map(|token| &token.item).collect();
        let items = Bytes::from(codec::encode(&items));
        let bytes = items.len() + output.as_ref().map_or(0, Bytes::len);
        if bytes.saturating_add(LENDER_BYTES) > PIECE_BYTES_MAX {
            return tokens;
        }
        let or = |all: LineageId, token: &QueuedTask<_>| all.with(token.lineage.repeats());
        let repeats = tokens.iter().fold(LineageId::FOUNDERS, or).repeats();
        drop(self.engine.frames.release(frame));
        // The frame of the lender has the lineage.
        let loan = Loan { lender, lineage: Vec::new(), repeats, items };
        let by = cx.pe();
        send_to_worker(lender.pe, WorkerMessage::GiveBack { loan, output, by }, cx);
        Vec::new()
    }

    /// Takes back a loan that another PE has not finished, with the output so far.
    pub(super) fn take_given_back(
        &mut self,
        loan: &Loan,
        output: Option<&[u8]>,
        by: PeId,
        cx: &mut Context<'_, Self>,
    ) {
        if !self.counts(&loan.lender, by, cx) {
            return;
        }
        let items = codec::decode(W::name(), &loan.items);
        let output = output.map(|output| codec::decode(W::name(), output)).transpose();
        match (items, output) {
            (Ok(items), Ok(output)) => {
                self.engine.take_rest(&loan.lender, items, loan.repeats, output);
            }
            (Err(error), _) | (_, Err(error)) => {
                let from = cx.layout().node_of(by);
                cx.core.blame(from, format_args!("a loan that it gives back: {error}"));
            }
        }
    }

    /// Once no frame waits for results of this PE, reports this to the first PE of the node. When
    /// all PEs have reported, the first one notifies its core.
    fn note_done(&mut self, cx: &mut Context<'_, Self>) {
        let Some(draining) = &mut self.draining else { return };
        let is_empty = self.engine.frames.len() == 0 && !self.engine.has_tasks();
        let leader = cx.layout().leader(cx.node());
        if leader != cx.pe() {
            if is_empty && !draining.is_done {
                draining.is_done = true;
                send_to_worker(leader, WorkerMessage::Empty { pe: cx.pe() }, cx);
            }
            return;
        }
        let others = cx.layout().place(cx.node()).pes.len() - 1;
        if is_empty && draining.done.len() == others {
            let collection = cx.collection().id;
            cx.core.pool_drained(collection);
        }
    }

    /// Notes that another PE of this node has no more tasks and frames.
    pub(super) fn note_empty(&mut self, pe: PeId) {
        self.draining.get_or_insert_default().done.insert(pe);
    }
}

/// Whether a task is too large to be sent to another node, with the names of two frames.
fn is_too_large<I: serde::Serialize>(item: &I) -> bool {
    codec::encoded_len(item).saturating_add(2 * LENDER_BYTES) > PIECE_BYTES_MAX
}

/// Divides items into lists of at most [`GRANT_BYTES`]; a list of one item may be longer.
fn payloads<I: serde::Serialize>(items: Vec<I>) -> Vec<Vec<I>> {
    let (mut payloads, mut payload, mut bytes) = (Vec::new(), Vec::new(), 0);
    for item in items {
        let size = codec::encoded_len(&item);
        if bytes + size > GRANT_BYTES && !payload.is_empty() {
            payloads.push(std::mem::take(&mut payload));
            bytes = 0;
        }
        bytes += size;
        payload.push(item);
    }
    payloads.extend((!payload.is_empty()).then_some(payload));
    payloads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_no_packet_can_hold_stays() {
        assert!(!is_too_large(&"x".repeat(PIECE_BYTES_MAX - 3 * LENDER_BYTES)));
        assert!(is_too_large(&"x".repeat(PIECE_BYTES_MAX)));
    }
}
