//! The actor on each PE that runs tasks between other messages.

use super::deques::Deques;
use super::engine::{Engine, Finished};
use super::frame::Lender;
use super::work::Work;
use crate::index::Ix1;
use crate::reference::Reply;
use crate::{Actor, Context, codec};
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long tasks run before other messages have their turn, unless one task takes longer. As long as a
/// turn of the PE.
const SLICE: Duration = Duration::from_micros(200);
/// Tasks run before the clock is looked at for the first time in a slice.
const CHUNK: u32 = 16;
/// Other messages come first.
const BEHIND_ALL: i32 = i32::MAX;

/// What a worker is told.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A root from main, encoded, and where its output goes, encoded too.
    Begin { item: Bytes, reply: Reply<Bytes> },
    /// Run tasks for a while; a worker tells itself.
    Run,
    /// There is something to take in this node.
    Wake,
    /// Lent work is done.
    Done { lender: Lender, output: Bytes },
    /// No more work will come.
    Close,
}

/// Runs tasks on one PE.
pub(crate) struct Worker<W: Work> {
    engine: Engine<W>,
    /// Whether a `Run` is on its way.
    is_running: bool,
    roots: BTreeMap<u64, Reply<Bytes>>,
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
        let alone = cx.layout().pe_count() == 1;
        let at = (cx.node(), cx.collection().id());
        let node = cx.core.common.shelf.share(at, || Deques::new(seats));
        let node = node.unwrap_or_else(|| {
            cx.fail("two kinds of work share a collection; this is a bug in Gridspan");
            Deques::new(seats).into()
        });
        let engine = Engine::new(pe, seat, node, alone);
        let mut worker =
            Self { engine, is_running: false, roots: BTreeMap::new(), next_root: 0 };
        worker.rest(cx);
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
            Order::Wake => {}
            Order::Done { lender, output } => match codec::decode(W::name(), &output) {
                Ok(output) => {
                    let Lender { frame, child, items, .. } = lender;
                    W::report(&mut self.engine, frame, child, items, output);
                }
                Err(error) => cx.fail(format!("a task's output: {error}")),
            },
            Order::Close => return cx.destroy(),
        }
        self.flush(cx);
        if !self.is_running {
            self.rest(cx);
        }
    }

    fn heap_bytes(order: &Order) -> usize {
        match order {
            Order::Begin { item: bytes, .. } | Order::Done { output: bytes, .. } => bytes.len(),
            Order::Run | Order::Wake | Order::Close => 0,
        }
    }
}

impl<W: Work> Worker<W> {
    fn begin(&mut self, item: &[u8], reply: Reply<Bytes>, cx: &mut Context<'_, Self>) {
        match codec::decode(W::name(), item) {
            Ok(item) => {
                self.roots.insert(self.next_root, reply);
                self.engine.submit(item, self.next_root);
                self.next_root += 1;
            }
            Err(error) => cx.fail(format!("a task: {error}")),
        }
    }

    /// Runs tasks until other messages should have their turn.
    fn slice(&mut self, cx: &mut Context<'_, Self>) {
        let begin = cx.core.clock_ns();
        let mut chunk = CHUNK;
        'slice: loop {
            for _ in 0..chunk {
                if !self.engine.step() && !self.engine.steal() {
                    break 'slice;
                }
                if self.engine.charged >= SLICE {
                    break 'slice;
                }
            }
            let now = cx.core.clock_ns();
            let elapsed = Duration::from_nanos(now.saturating_sub(begin));
            if elapsed >= SLICE || self.engine.failure.is_some() {
                break;
            }
            chunk = if elapsed < SLICE / 8 { chunk * 2 } else { 1 };
        }
        cx.charge(std::mem::take(&mut self.engine.charged));
    }

    /// Passes on what tasks have led to.
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        let workers = cx.collection();
        let first = cx.layout().place(cx.node()).pes.start;
        for seat in self.engine.wakes.drain(..) {
            cx.send(&workers.at(Ix1((first + seat as u32) as i32)), Order::Wake);
        }
        for finished in self.engine.finished.drain(..) {
            match finished {
                Finished::Loan(lender, output) => {
                    let output = codec::encode(&output).into();
                    cx.send(&workers.at(at(lender.pe)), Order::Done { lender, output });
                }
                Finished::Root(root, output) => {
                    if let Some(reply) = self.roots.remove(&root) {
                        cx.reply(reply, codec::encode(&output).into());
                    }
                }
            }
        }
        if let Some(reason) = self.engine.failure.take() {
            cx.fail(reason);
        }
    }

    /// Goes on if there is anything to run here or to take in the node, or sleeps.
    fn rest(&mut self, cx: &mut Context<'_, Self>) {
        let found = self.engine.has_tasks() || self.engine.steal();
        if !found {
            let _dry = self.engine.fall_asleep();
            // Somebody may have laid out something just before, and not seen this PE asleep.
            if !self.engine.steal() {
                return;
            }
        }
        self.engine.wake_up();
        self.is_running = true;
        let me = cx.me();
        cx.send_with_priority(&me, BEHIND_ALL, Order::Run);
    }
}

/// The index of the worker on a PE.
fn at(pe: PeId) -> Ix1 {
    Ix1(pe.0 as i32)
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
