//! The actor on each PE that runs tasks between other messages.

use super::deques::Deques;
use super::engine::{Engine, Finished, Work};
use super::frame::Lender;
use super::leaving::{Leaving, notify};
use super::order::{Loan, Order, at, tell};
use super::steward::Steward;
use crate::index::Ix1;
use crate::limits::PIECE_BYTES_MAX;
use crate::pe::Visiting;
use crate::reduce::Op;
use crate::reference::Reply;
use crate::{Actor, Context, To, codec};
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long tasks run before other messages have their turn, unless one task takes longer. As long as a
/// turn of the PE.
const SLICE: Duration = Duration::from_micros(200);
const SLICE_NS: u64 = SLICE.as_nanos() as u64;
/// Tasks run before the clock is looked at for the first time in a slice: some take longer than that.
const CHUNK: u64 = 1;
/// Other messages come first.
const BEHIND_ALL: i32 = i32::MAX;

/// Runs tasks on one PE.
pub(crate) struct Worker<W: Work> {
    pub(super) engine: Engine<W>,
    /// On the first PE of each node, if there are several nodes.
    pub(super) steward: Option<Steward>,
    /// If this node is a guest that leaves.
    pub(super) leaving: Option<Leaving>,
    /// Whether a `Run` is on its way.
    is_running: bool,
    roots: BTreeMap<u64, Reply<Option<Bytes>>>,
    next_root: u64,
}

impl<W: Work> Actor for Worker<W> {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        let pe = cx.pe();
        let place = cx.layout().place(cx.node()).pes.clone();
        let (seats, seat) = (place.len(), (pe.0 - place.start) as usize);
        let has_guests = !cx.core.guests.present.is_empty() || cx.core.is_guest();
        let alone = cx.layout().pe_count() == 1 && !has_guests;
        let at = (cx.node(), cx.collection().id());
        let node = cx.core.common.shelf.share(at, || Deques::new(seats));
        let node = node.unwrap_or_else(|| {
            cx.fail("two kinds of work share a collection; this is a bug in Gridspan");
            Deques::new(seats).into()
        });
        let engine = Engine::new(pe, seat, node, alone);
        let is_leaving = matches!(cx.core.guests.visit, Visiting::Leaving(_));
        cx.core.join_crew(cx.collection().id, notify::<Self>);
        let mut worker = Self {
            engine,
            steward: Steward::new(cx),
            leaving: is_leaving.then(Leaving::default),
            is_running: false,
            roots: BTreeMap::new(),
            next_root: 0,
        };
        worker.go_on(cx);
        worker
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        self.engine.now = cx.now();
        match order {
            Order::Begin { item, reply } => self.begin(&item, reply, cx),
            Order::Run => {
                self.is_running = false;
                self.slice(cx);
            }
            Order::Wake | Order::Look => {}
            Order::Done { lender, output, by } => self.take_output(&lender, (&output, by), cx),
            Order::Steal { from, message } => {
                if let Some(steward) = &mut self.steward {
                    steward.handle_message(from, message, cx);
                }
            }
            Order::Gift { from, gift, loans } => {
                if let Some(steward) = &mut self.steward {
                    steward.handle_gift((from, gift), &loans, &mut self.engine, cx);
                }
            }
            Order::Notice(notice) => self.handle_notice(notice, cx),
            Order::Return { to, loan } => self.take_back(&to, &loan, cx),
            Order::Leave => drop(self.leaving.get_or_insert_default()),
            Order::Empty { pe } => self.note_empty(pe),
            Order::Timeout => {
                if let Some(steward) = &mut self.steward {
                    steward.handle_timeout(cx);
                }
            }
            Order::Report => {
                let statistics = self.steward.as_ref().map(Steward::statistics).unwrap_or_default();
                cx.contribute(Op::Sum, statistics.to_vec(), To::main());
            }
            Order::Close => return self.close(cx),
        }
        self.go_on(cx);
    }

    fn heap_bytes(order: &Order) -> usize {
        match order {
            Order::Begin { item: bytes, .. } | Order::Done { output: bytes, .. } => bytes.len(),
            Order::Gift { loans, .. } => loans.iter().map(Loan::bytes).sum(),
            Order::Return { loan, .. } => loan.bytes(),
            Order::Run | Order::Wake | Order::Look | Order::Steal { .. } => 0,
            Order::Notice(_)
            | Order::Leave
            | Order::Empty { .. }
            | Order::Timeout
            | Order::Report
            | Order::Close => 0,
        }
    }
}

impl<W: Work> Worker<W> {
    fn begin(&mut self, item: &[u8], reply: Reply<Option<Bytes>>, cx: &mut Context<'_, Self>) {
        match codec::decode(W::name(), item) {
            Ok(item) => {
                self.roots.insert(self.next_root, reply);
                self.engine.submit(item, self.next_root);
                self.next_root += 1;
            }
            Err(error) => cx.fail(format!("a task: {error}")),
        }
    }

    fn take_output(
        &mut self,
        lender: &Lender,
        (output, by): (&[u8], PeId),
        cx: &mut Context<'_, Self>,
    ) {
        let &Lender { frame, child, items, .. } = lender;
        match codec::decode(W::name(), output) {
            Ok(output) => W::report(&mut self.engine, frame, child, items, output),
            Err(error) => cx.fail(format!("a task's output: {error}")),
        }
        if let Some(steward) = &mut self.steward {
            steward.settle(frame, by, cx);
        }
    }

    /// Sees to what has changed: tasks to run, to lay out, to take or to give, and outputs.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if self.leaving.is_some() {
            self.hand_back(cx);
        }
        if !self.is_running {
            self.rest(cx);
        }
        if self.leaving.is_none() {
            self.engine.share();
        }
        if let Some(steward) = &mut self.steward {
            steward.look(&self.engine, cx);
            steward.carry_out(&mut self.engine, cx);
        }
        self.flush(cx);
        cx.charge(Duration::from_nanos(std::mem::take(&mut self.engine.charged_ns)));
    }

    /// Ends. Main hears of it if it waits.
    fn close(&mut self, cx: &mut Context<'_, Self>) {
        for reply in std::mem::take(&mut self.roots).into_values() {
            cx.reply(reply, None);
        }
        if let Some(steward) = &mut self.steward {
            steward.close(cx);
        }
        let collection = cx.collection().id;
        for guest in cx.core.leave_crew(collection) {
            tell(guest, Order::Close, cx);
        }
        cx.destroy();
    }

    /// Runs tasks until other messages should have their turn, or another PE is to be woken.
    fn slice(&mut self, cx: &mut Context<'_, Self>) {
        let begin = cx.core.clock_ns();
        let (mut chunk, mut done) = (CHUNK, 0);
        'slice: loop {
            for _ in 0..chunk {
                if !self.engine.step() && !self.find() {
                    break 'slice;
                }
                if self.engine.charged_ns >= SLICE_NS || !self.engine.wakes.is_empty() {
                    break 'slice;
                }
            }
            done += chunk;
            let elapsed = cx.core.clock_ns().saturating_sub(begin);
            if elapsed >= SLICE_NS || self.engine.failure.is_some() {
                break;
            }
            chunk = next_chunk(done, elapsed);
        }
        // What this slice has led to is sent, and what came meanwhile is handled, before the next one.
        cx.core.turn_is_over = true;
    }

    /// Passes on what tasks have led to.
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        if !self.engine.wakes.is_empty() || !self.engine.finished.is_empty() {
            // The next task may take long: what others wait for leaves before.
            cx.core.turn_is_over = true;
        }
        let workers = cx.collection();
        let first = cx.layout().place(cx.node()).pes.start;
        for seat in self.engine.wakes.drain(..) {
            cx.send(&workers.at(Ix1((first + seat as u32) as i32)), Order::Wake);
        }
        for finished in self.engine.finished.drain(..) {
            match finished {
                Finished::Loan(lender, output) => {
                    if let Some(output) = encode_output::<W>(&output, lender.pe, cx) {
                        let by = cx.pe();
                        tell(lender.pe, Order::Done { lender, output, by }, cx);
                    }
                }
                Finished::Root(root, output) => {
                    if let Some(reply) = self.roots.remove(&root)
                        && let Some(output) = encode_output::<W>(&output, reply.pe, cx)
                    {
                        cx.reply(reply, Some(output));
                    }
                }
            }
        }
        if let Some(reason) = self.engine.failure.take() {
            cx.fail(reason);
        }
    }

    /// The whole node has nothing to do, or has something again.
    fn tell_steward(&self, cx: &mut Context<'_, Self>) {
        let leader = cx.layout().leader(cx.node());
        if leader != cx.pe() {
            let steward = cx.collection().at(at(leader));
            cx.send(&steward, Order::Look);
            cx.core.turn_is_over = true;
        }
    }

    /// Takes work of another PE of this node; whether there was any.
    fn find(&mut self) -> bool {
        self.leaving.is_none() && self.engine.steal()
    }

    /// Goes on if there is anything to run here or to take in the node, or sleeps.
    fn rest(&mut self, cx: &mut Context<'_, Self>) {
        let found = self.engine.has_tasks() || self.find();
        if !found {
            let is_dry = self.engine.fall_asleep();
            // Somebody may have laid out something just before, and not seen this PE asleep.
            if !self.find() {
                if is_dry {
                    self.tell_steward(cx);
                }
                return;
            }
        }
        if self.engine.wake_up() {
            self.tell_steward(cx);
        }
        self.is_running = true;
        let me = cx.me();
        cx.send_with_priority(&me, BEHIND_ALL, Order::Run);
    }
}

/// An output as bytes. Ends the job if they are too many to be sent to the node of `to`.
fn encode_output<W: Work>(
    output: &W::Output,
    to: PeId,
    cx: &mut Context<'_, Worker<W>>,
) -> Option<Bytes> {
    let bytes = codec::encode(output);
    let is_here = cx.layout().place(cx.node()).pes.contains(&to.0);
    if is_here || bytes.len() <= PIECE_BYTES_MAX {
        return Some(bytes.into());
    }
    cx.fail(format!(
        "the output of a task of type {} takes {} bytes, and {PIECE_BYTES_MAX} are sent to another node in one \
         piece; have tasks return less",
        W::name(),
        bytes.len()
    ));
    None
}

/// How many tasks to run before the clock is looked at again, after so many in so many nanoseconds: half of those
/// that the slice has time for, so that tasks that turn out longer do not prolong it much.
fn next_chunk(done: u64, elapsed: u64) -> u64 {
    let left = (SLICE_NS.saturating_sub(elapsed) / 2).max(SLICE_NS / 16);
    (done * left / elapsed.max(1)).clamp(1, done * 8)
}

/// A worker never leaves its PE, so its state is never sent.
impl<W: Work> Serialize for Worker<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de, W: Work> Deserialize<'de> for Worker<W> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("a worker does not move"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_looked_at_some_times_a_slice_whatever_tasks_take() {
        for task_ns in [0, 5, 100, 3_000, 50_000, 10_000_000] {
            let (mut done, mut looks) = (CHUNK, 1);
            while done * task_ns < SLICE_NS && looks < 100 {
                done += next_chunk(done, done * task_ns);
                looks += 1;
                // Without a clock there is no end; the charges end a slice.
                if task_ns == 0 {
                    break;
                }
            }
            assert!(looks < 20, "{looks} looks for tasks of {task_ns} ns");
            let over = (done * task_ns).saturating_sub(SLICE_NS);
            assert!(over < SLICE_NS / 8 || done == CHUNK, "{over} ns too long");
        }
    }
}
