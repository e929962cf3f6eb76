//! The actor on each PE that runs tasks between other messages.

use super::backups::Settled;
use super::deques::Deques;
use super::draining::{Draining, is_allowed, notify};
use super::engine::{Engine, Finished, Work};
use super::frame::{FrameId, Lender};
use super::ledger::Ledger;
use super::message::{WorkerMessage, notify_agent, send_to_worker};
use super::roots::{Origin, Roots};
use crate::address::index::Ix1;
use crate::message::Stage;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::steal_agent::StealEvent;
use crate::pe::actor::options::SendOptions;
use crate::reduce::Op;
use crate::{Actor, Context, To};
use bytes::Bytes;
use gridspan_topology::PeId;
use std::time::Duration;

/// Time for which tasks run before other messages have their turn: as long as a turn of the PE. One
/// task may take longer.
const SLICE: Duration = Duration::from_micros(200);
const SLICE_NS: u64 = SLICE.as_nanos() as u64;
/// Number of tasks that a slice runs before it first reads the clock: a single task may take longer
/// than the slice.
const CHUNK: u64 = 1;
/// Mean time of a task, in nanoseconds, above which the worker offers all tasks but the one that
/// runs next. An offer costs a few per cent of this time.
const LONG_NS: u64 = 10_000;
/// After a slice of more than this length, in nanoseconds, the next slice first wakes the network
/// thread if the pool has a bound: nodes must learn of improvements within two milliseconds.
const UNATTENDED_NS: u64 = 1_000_000;
/// Minimum number of tasks in a slice to conclude from its mean time that tasks are short.
const SAMPLE: u64 = 16;

/// Runs tasks on one PE.
pub(crate) struct Worker<W: Work> {
    pub(super) engine: Engine<W>,
    /// Whether this PE gave the node's relay an agent for the pool, and has to close it.
    pub(super) opened_agent: bool,
    /// Loans to guests whose results are missing; used on the first PE of each node.
    pub(super) ledger: Ledger,
    /// Set if this node is a guest and is leaving.
    pub(super) draining: Option<Draining>,
    /// Whether a [`WorkerMessage::Run`] to this worker is still to be handled.
    is_running: bool,
    /// Whether the node had no work before its present work arrived, and its agent does not know of
    /// that work.
    is_new: bool,
    /// Whether a task has run since that work arrived.
    has_run: bool,
    /// Whether the last slice took longer than [`UNATTENDED_NS`].
    took_long: bool,
    /// Number of waiting tasks that this PE counts for the worker.
    counted: u64,
    pub(super) roots: Roots<W::Output>,
}

impl<W: Work> Actor for Worker<W> {
    type Index = Ix1;
    type Init = ();
    type Message = WorkerMessage;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        let pe = cx.pe();
        let place = cx.layout().place(cx.node()).pes.clone();
        let slot = (pe.0 - place.start) as usize;
        let has_guests = !cx.core.membership.present.is_empty() || cx.core.is_guest();
        let alone = cx.layout().pe_count() == 1 && !has_guests;
        let at = (cx.node(), cx.collection().id());
        let node = cx.core.common.node_local.share(at, || Deques::new(place.clone()));
        let node = node.unwrap_or_else(|| {
            cx.fail("two kinds of work share a collection; this is a bug in Gridspan");
            Deques::new(place).into()
        });
        if cx.core.membership.resting.contains(&cx.node()) {
            node.rest();
        }
        let engine = Engine::new(pe, slot, node, alone);
        let is_draining = cx.core.membership.stage == Stage::Draining;
        cx.core.register_pool(cx.collection().id, notify::<Self>, is_allowed);
        let mut worker = Self {
            engine,
            opened_agent: false,
            ledger: Ledger::default(),
            draining: is_draining.then(Draining::default),
            is_running: false,
            is_new: false,
            has_run: false,
            took_long: false,
            counted: 0,
            roots: Roots::default(),
        };
        worker.open_agent(cx);
        worker.go_on(cx);
        worker
    }

    fn handle(&mut self, message: WorkerMessage, cx: &mut Context<'_, Self>) {
        self.engine.now = cx.now();
        self.engine.bound.is_deferred = cx.core.is_virtual_time() && self.engine.node.has_agent();
        match message {
            WorkerMessage::Begin { item, repeats, reply } => {
                self.begin((&item, repeats), Origin::Asked(reply), cx)
            }
            WorkerMessage::Call { item, repeats, reply } => {
                self.begin((&item, repeats), Origin::Called(reply), cx)
            }
            WorkerMessage::Feed { stream, first, items } => self.feed((stream, first), &items, cx),
            WorkerMessage::Collect { stream, reply } => self.collect(stream, reply, cx),
            WorkerMessage::Bound { reply } => cx.reply(reply, self.engine.bound.shared_value()),
            WorkerMessage::EndStream { stream } => self.end_stream(stream, cx),
            WorkerMessage::Repeatable { stream } => self.set_repeatable(stream),
            WorkerMessage::Called { call, output } => self.called(call, output, cx),
            WorkerMessage::Run => {
                self.is_running = false;
                self.slice(cx);
            }
            WorkerMessage::Wake => {}
            WorkerMessage::Done { lender, output, by } => {
                self.take_output(&lender, (&output, by), cx)
            }
            WorkerMessage::GivenUp { lender, by } => self.take_given_up(&lender, by, cx),
            WorkerMessage::Give { to, limit, grant, until } => {
                self.give((to, grant), (limit, until), cx)
            }
            WorkerMessage::PoolEvent(event) => self.handle_pool_event(event, cx),
            WorkerMessage::Return { to, loan } => self.take_back(&to, &loan, cx),
            WorkerMessage::GiveBack { loan, output, by } => {
                self.take_given_back(&loan, output.as_deref(), by, cx)
            }
            WorkerMessage::Drain => drop(self.draining.get_or_insert_default()),
            WorkerMessage::Empty { pe } => self.note_empty(pe),
            WorkerMessage::DropOrphans => self.drop_orphans(),
            WorkerMessage::Report => {
                let is_first = cx.layout().leader(cx.node()) == cx.pe();
                let statistics = match is_first {
                    true => self.engine.node.statistics(),
                    false => Default::default(),
                };
                cx.contribute(Op::Sum, statistics.to_vec(), To::main());
            }
            WorkerMessage::Statistics { reply } => {
                cx.reply(reply, self.engine.node.statistics().to_vec());
            }
            WorkerMessage::Close => return self.close(cx),
        }
        self.go_on(cx);
    }

    fn heap_bytes(message: &WorkerMessage) -> usize {
        message.heap_bytes()
    }
}

impl<W: Work> Worker<W> {
    fn take_output(
        &mut self,
        lender: &Lender,
        (output, by): (&[u8], PeId),
        cx: &mut Context<'_, Self>,
    ) {
        let &Lender { frame, child, items, .. } = lender;
        if !self.counts(lender, by, cx) {
            return;
        }
        match codec::decode(W::name(), output) {
            Ok(output) => W::report(&mut self.engine, frame, child, items, output),
            Err(error) => {
                let from = cx.layout().node_of(by);
                return cx.core.blame(from, format_args!("a task's output: {error}"));
            }
        }
        self.ledger.settle(frame, cx.layout().node_of(by));
    }

    /// Takes the news that lent work waits for a pool that is closed.
    fn take_given_up(&mut self, lender: &Lender, by: PeId, cx: &mut Context<'_, Self>) {
        if self.counts(lender, by, cx) {
            self.ledger.settle(lender.frame, cx.layout().node_of(by));
            self.give_up(lender.frame, cx);
        }
    }

    /// Notes the end of a loan. Returns whether the PE that reports it may do so, and no other copy
    /// of the loan has ended before.
    pub(super) fn counts(&mut self, lender: &Lender, by: PeId, cx: &mut Context<'_, Self>) -> bool {
        let &Lender { frame, child, .. } = lender;
        if !self.may_answer(frame, by, cx) {
            return false;
        }
        if let Some(draining) = &mut self.draining {
            self.engine.node.note_output_of_given(draining.note_output((frame, child)));
        }
        // Loans to guests have no copies.
        let is_guest = cx.layout().is_guest(cx.layout().node_of(by));
        if let Some(copy) = lender.copy.filter(|_| !is_guest) {
            let Settled { counts, superseded } = self.engine.node.backups.settle(copy);
            if let Some((to, copy)) = superseded {
                notify_agent(StealEvent::Superseded { to, copy }, cx);
            }
            return counts;
        }
        true
    }

    /// Whether a PE may send an output for which a frame waits. A PE of a guest may do so only for
    /// the guest's loans.
    pub(super) fn may_answer(&self, frame: FrameId, by: PeId, cx: &Context<'_, Self>) -> bool {
        let node = cx.layout().node_of(by);
        let is_own = node == cx.node() || !cx.layout().is_guest(node);
        is_own || self.ledger.is_owed(frame, node)
    }

    /// Hands back tasks if this node leaves; runs tasks or falls asleep; sends outputs, wakes and
    /// calls; and records the number of open tasks.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if self.draining.is_some() {
            self.hand_back(cx);
        } else if self.engine.node.rests() {
            self.give_back(cx);
        }
        if !self.is_running {
            self.rest(cx);
        }
        self.flush(cx);
        let (pool, roots) = (cx.collection().id, self.roots.open.len() as u64);
        cx.core.note_open_tasks(pool, self.engine.open_tasks(roots));
        cx.charge(Duration::from_nanos(std::mem::take(&mut self.engine.charged_ns)));
    }

    /// Ends the worker, and answers main if it waits.
    fn close(&mut self, cx: &mut Context<'_, Self>) {
        self.abandon_roots(cx);
        self.count(0, 0, cx);
        if self.opened_agent {
            notify_agent(StealEvent::Close, cx);
        }
        let collection = cx.collection().id;
        cx.core.unregister_pool(collection, codec::encode(&WorkerMessage::Close));
        cx.destroy();
    }

    /// Runs tasks until other messages should have their turn, or until it must notify another PE
    /// or the agent. A PE sleeps only after a slice without tasks: by then the messages of the
    /// slice before have left.
    fn slice(&mut self, cx: &mut Context<'_, Self>) {
        if self.engine.node.rests() {
            self.give_back(cx);
        } else {
            self.take_arrivals(cx);
        }
        if self.took_long && self.engine.bound.value().is_some() {
            self.engine.node.bound.nudge();
        }
        let begin = cx.core.clock_ns();
        let (mut chunk, mut done) = (CHUNK, 0);
        // With short tasks, this publishes the stock when a slice begins. At its end only a slice
        // that has time left publishes, and a busy PE's slices end when their time is over.
        let is_begun = !self.engine.are_long && self.engine.publish();
        let mut is_news = false;
        'slice: loop {
            for step in 0..chunk {
                self.engine.share();
                is_news = self.engine.are_long && (self.engine.publish() | self.engine.tell_done())
                    || self.is_news();
                if is_news || !self.engine.wakes.is_empty() {
                    done += step;
                    break 'slice;
                }
                let has_run = match cx.core.recording {
                    None => self.engine.step(),
                    Some(_) => self.step_recorded(cx),
                };
                // If the node rests, tasks that arrive go back at the end of the slice.
                if !has_run && (self.engine.node.rests() || !self.find(cx)) {
                    done += step;
                    break 'slice;
                }
                if self.engine.charged_ns >= SLICE_NS {
                    done += step + 1;
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
        let ran = cx.core.clock_ns().saturating_sub(begin);
        self.took_long = ran > UNATTENDED_NS;
        let elapsed = ran.max(self.engine.charged_ns);
        if let Some(mean_ns) = elapsed.checked_div(done) {
            self.has_run = true;
            self.engine.note_done(done);
            let are_long = mean_ns > LONG_NS;
            if are_long || done >= SAMPLE {
                self.engine.are_long = are_long;
            }
        }
        self.count(done, self.engine.waiting(), cx);
        if done > 0 || self.engine.has_tasks() {
            self.run_again(cx);
        }
        // If a root has come to a node without work, this notifies the agent once the root has
        // spawned its children. After a long task it does so in the next slice: in virtual time
        // this slice is not over yet.
        let is_over = elapsed < SLICE_NS && (self.engine.publish() || self.is_news());
        if is_begun || is_news || is_over {
            (self.is_new, self.has_run) = (false, false);
            notify_agent(StealEvent::StockChanged, cx);
        }
        // Before the next slice, the PE sends the messages of this one, and handles those that have
        // arrived.
        cx.core.turn_is_over = true;
    }

    /// Runs the newest task, and records it. Returns whether there was one.
    #[cold]
    fn step_recorded(&mut self, cx: &mut Context<'_, Self>) -> bool {
        if !self.engine.has_tasks() {
            return false;
        }
        cx.core.begin_task(self.engine.charged_ns);
        let has_run = self.engine.step();
        cx.core.end_task(self.engine.charged_ns, has_run);
        has_run
    }

    /// Counts the tasks that were run, and those that wait now, for samples of the job.
    fn count(&mut self, done: u64, waiting: u64, cx: &mut Context<'_, Self>) {
        let before = std::mem::replace(&mut self.counted, waiting);
        cx.core.counts.note_tasks(done, before, waiting);
    }

    /// Sends the outputs, wakes and calls of tasks.
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        let Engine { wakes, finished, calls, .. } = &self.engine;
        if !wakes.is_empty() || !finished.is_empty() || !calls.is_empty() {
            // The next task may take long, so messages that others wait for leave before it.
            cx.core.turn_is_over = true;
        }
        let workers = cx.collection();
        let first = cx.layout().place(cx.node()).pes.start;
        for slot in self.engine.wakes.drain(..) {
            cx.send(&workers.at(Ix1((first + slot as u32) as i32)), WorkerMessage::Wake);
        }
        let mut done = std::mem::take(&mut self.engine.finished);
        for finished in done.drain(..) {
            match finished {
                Finished::Loan(lender, output) => {
                    if let Some(output) = encode_output::<W>(&output, lender.pe, cx) {
                        let by = cx.pe();
                        send_to_worker(lender.pe, WorkerMessage::Done { lender, output, by }, cx);
                    }
                }
                Finished::Root(root, output) => self.finish(root, &output, cx),
            }
        }
        // Reuses the memory of the list.
        self.engine.finished = done;
        self.answer_streams(cx);
        for call in std::mem::take(&mut self.engine.calls) {
            self.call(call, cx);
        }
        if let Some(reason) = self.engine.failure.take() {
            cx.fail(reason);
        }
    }

    /// Takes work from another node or PE. Returns whether there was any.
    fn find(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let may_steal = self.draining.is_none() && !self.engine.node.rests();
        let has_found = self.take_arrivals(cx) || may_steal && self.engine.steal();
        cx.core.note_steal(has_found);
        has_found
    }

    /// Continues if this PE has tasks or can take some in the node; otherwise falls asleep.
    fn rest(&mut self, cx: &mut Context<'_, Self>) {
        let found = self.engine.has_tasks() || self.find(cx);
        if !found {
            let is_dry = self.engine.fall_asleep();
            // A PE may have offered tasks just before without seeing this one asleep.
            if !self.find(cx) {
                if is_dry && self.engine.node.has_agent() {
                    notify_agent(StealEvent::StockChanged, cx);
                }
                return;
            }
        }
        if self.engine.wake_up() {
            (self.is_new, self.has_run) = (true, false);
        }
        self.run_again(cx);
    }

    /// Whether to notify the agent of work that has come to a node without work.
    fn is_news(&self) -> bool {
        self.is_new && self.has_run && self.engine.node.has_agent()
    }

    fn run_again(&mut self, cx: &mut Context<'_, Self>) {
        self.is_running = true;
        let me = cx.me();
        cx.send_with(SendOptions::BEHIND_ALL, &me, WorkerMessage::Run);
    }
}

/// Encodes an output. Ends the job if it is too large to be sent to the node of `to`.
pub(super) fn encode_output<W: Work>(
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
        "the output of a task of type {} takes {} bytes, but at most {PIECE_BYTES_MAX} are sent to \
         another node in one piece; make tasks return less",
        W::name(),
        bytes.len()
    ));
    None
}

/// Number of tasks to run before the clock is read again, after `done` tasks in `elapsed`
/// nanoseconds: half of those that the rest of the slice has time for, so that longer tasks do not
/// prolong it much.
fn next_chunk(done: u64, elapsed: u64) -> u64 {
    let left = (SLICE_NS.saturating_sub(elapsed) / 2).max(SLICE_NS / 16);
    (done * left / elapsed.max(1)).clamp(1, done * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_reads_the_clock_a_few_times_whatever_the_length_of_tasks() {
        for task_ns in [0, 5, 100, 3_000, 50_000, 10_000_000] {
            let (mut done, mut looks) = (CHUNK, 1);
            while done * task_ns < SLICE_NS && looks < 100 {
                done += next_chunk(done, done * task_ns);
                looks += 1;
                // Tasks of 0 ns never end a slice by the clock; in virtual time, charges do.
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
