//! The part of a server that works for groups: keeps data, passes it on, and executes orders.

use super::catalogue::Catalogue;
use super::function::Work;
use super::server::{FAILED, Pending, Server, ServerMessage};
use crate::block::{DATA_SEGMENT_BYTES, EncodedBlock};
use crate::group::order::{
    DataKey, DataPacket, Done, Fault, GroupMessage, Held, Piece, Route, TaskOrder, pieces,
};
use crate::trace;
use gridspan_runtime::{Context, Ix1};
use std::time::Duration;

impl<C: Catalogue> Server<C> {
    /// Handles a message of a group.
    pub(super) fn group(&mut self, message: GroupMessage, cx: &mut Context<'_, Self>) {
        let Some(message) = self.pass_by(message.received(), cx) else { return };
        match message {
            GroupMessage::Order(order) if self.is_outdated(order.attempt) => {
                give_up(&order, "its job has gone on from a checkpoint since", cx);
            }
            GroupMessage::Order(order) if self.store.is_over(order.group) => {
                give_up(&order, "its group has ended", cx);
            }
            GroupMessage::Order(order) if !self.is_open() => {
                give_up(&order, "its server has left", cx);
            }
            GroupMessage::Order(order) => self.store.add(order),
            // `GroupMessage::received` has made it an `Order`.
            GroupMessage::TracedOrder(..) => {}
            GroupMessage::Data(mut piece) => {
                for Route { to, then } in Route::of_hops(&std::mem::take(&mut piece.then)) {
                    send(Piece { then, ..piece.clone() }, to, cx);
                }
                if self.is_open() {
                    self.store.arrive(piece);
                }
            }
            GroupMessage::Share(DataPacket { key, routes }, reply) => {
                let is_there = self.store.has(key);
                if is_there {
                    // Several servers may share this data with the same server. The attempt number
                    // tells it which of them sent a segment.
                    let attempt = SHARED + cx.index().0.unsigned_abs();
                    pass_on(key, attempt, &self.store.get(key), &routes, cx);
                }
                cx.reply(reply, is_there);
            }
            GroupMessage::Withdraw(first) => {
                if let Some(order) = self.store.withdraw(first) {
                    give_up(&order, "it was withdrawn", cx);
                }
            }
            GroupMessage::Fetch(key, index, reply) => cx.reply(reply, self.store.piece(key, index)),
            GroupMessage::Free { group, data } => self.store.free(group, &data),
            GroupMessage::End { group, floor } => {
                for order in self.store.end(group, floor) {
                    give_up(&order, "its group has ended", cx);
                }
            }
            GroupMessage::Handed(reply) => cx.reply(reply, ()),
            GroupMessage::Resume(group, reply) => cx.reply(reply, self.store.resume(group)),
            GroupMessage::TakeBack { group, data, reply } => {
                self.store.take_back(group, &data);
                cx.reply(reply, ());
            }
            GroupMessage::Kept(reply) => cx.reply(reply, self.kept_bytes()),
        }
    }

    /// Executes the first order that can begin, if any.
    pub(super) fn execute_order(&mut self, speed: f64, cx: &mut Context<'_, Self>) {
        let Some((order, arguments)) = self.store.next() else { return };
        let mut work = Work::new(speed);
        let input_bytes = arguments.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let span = trace::server_span(&order.function, self.name(), order.trace.as_ref());
        let outcome = arguments.and_then(|bytes| {
            let _executing = span.enter();
            self.check(&order.function, order.signature.as_ref())?;
            let (bytes, count) = (bytes.contiguous(), order.outputs.len());
            let made = self.functions().run_parts(&order.function, &bytes, count, &mut work);
            let (parts, work_s) = made.map_err(|reason| self.failure(&order.function, &reason))?;
            let cut = |part| EncodedBlock::cut("a result", part, DATA_SEGMENT_BYTES);
            Ok((parts.into_iter().map(cut).collect::<Result<Vec<EncodedBlock>, String>>()?, work_s))
        });
        if let Err(reason) = &outcome {
            trace::note_failure(&span, FAILED, reason);
        }
        drop(span);
        cx.charge(work.emulated());
        let (held, work_s): (Vec<Held>, _) = match outcome {
            Ok((blocks, work_s)) => (blocks.into_iter().map(Ok).collect(), work_s),
            Err(reason) => (vec![Err(reason); order.outputs.len()], None),
        };
        let emulated_s = work.emulated().as_secs_f64() * speed;
        let work_s = work_s.or((emulated_s > 0.0).then_some(emulated_s));
        let sizes = held.iter().map(|held| held.as_ref().map(|block| block.len() as u64));
        let outcome = sizes.collect::<Result<Vec<u64>, _>>();
        let outcome = outcome.map_err(|reason| Fault::Failed(reason.clone()));
        for (DataPacket { key, routes }, held) in order.outputs.into_iter().zip(held) {
            pass_on(key, order.attempt, &held, &routes, cx);
            self.store.put(key, held);
        }
        let done = Done { outcome, input_bytes, work_s, took_s: None };
        self.pending = Some(Pending { reply: order.reply, done, begun: cx.now() });
        // Report in a later turn, whose time shows how long the order took.
        let me = cx.me();
        cx.send_after(Duration::from_nanos(1), &me, ServerMessage::Report);
    }

    /// Reports the outcome of the last executed order.
    pub(super) fn report(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(Pending { reply, mut done, begun }) = self.pending.take() {
            let took_s = cx.now().since(begun).as_secs_f64();
            done.took_s = (took_s > REPORTED_S_MIN).then_some(took_s);
            cx.reply(reply, done);
        }
    }

    /// Gives up all orders, and drops all data.
    pub(super) fn give_up_orders(&mut self, cx: &mut Context<'_, Self>) {
        self.store.clear();
        for order in self.store.take_orders() {
            give_up(&order, "its server has left", cx);
        }
    }
}

/// First attempt number for data that a server shares.
const SHARED: u32 = 1 << 31;
/// Shortest reported time of an order, in seconds. A shorter time is only the overhead of a turn.
const REPORTED_S_MIN: f64 = 1e-4;

fn pass_on<C: Catalogue>(
    key: DataKey,
    attempt: u32,
    held: &Held,
    routes: &[Route],
    cx: &mut Context<'_, Server<C>>,
) {
    // Each segment goes to all routes at once, so that servers pass it on before the next arrives.
    for piece in pieces(key, attempt, held) {
        for Route { to, then } in routes {
            send(Piece { then: then.clone(), ..piece.clone() }, *to, cx);
        }
    }
}

fn send<C: Catalogue>(piece: Piece, to: u32, cx: &mut Context<'_, Server<C>>) {
    let server = cx.collection().at(Ix1(to as i32));
    cx.send(&server, ServerMessage::Group(GroupMessage::Data(piece)));
}

/// Reports an order as lost, because this server does not execute it.
pub(super) fn give_up<C: Catalogue>(
    order: &TaskOrder,
    reason: &str,
    cx: &mut Context<'_, Server<C>>,
) {
    let outcome = Err(Fault::Lost(reason.to_owned()));
    cx.reply(order.reply, Done { outcome, input_bytes: 0, work_s: None, took_s: None });
}
