//! The worker's answers to the origins of its tasks: main, a stream of main, or a task of another
//! pool.

use super::engine::{Call, Work};
use super::frame::{Frame, FrameId, Up};
use super::lineage::{LineageId, Repeats};
use super::message::{Outputs, WorkerMessage, at, send_to_worker};
use super::roots::{Origin, PendingCall, Roots};
use super::worker::{Worker, encode_output};
use crate::Context;
use crate::address::id::{ActorId, Sender};
use crate::address::index::ActorIndex;
use crate::error::AskError;
use crate::message::codec;
use crate::pe::actor::reference::Reply;
use bytes::Bytes;
use std::time::Duration;

impl<W: Work> Worker<W> {
    pub(super) fn begin(
        &mut self,
        (item, repeats): (&[u8], Repeats),
        origin: Origin,
        cx: &mut Context<'_, Self>,
    ) {
        match codec::decode(W::name(), item) {
            Ok(item) => {
                let root = self.roots.enter(origin);
                self.engine.submit([(item, root)], repeats);
                // The job is not quiescent while the pool has tasks.
                cx.core.task_begins(false);
            }
            Err(error) => cx.fail(format!("a task: {error}")),
        }
    }

    /// Receives more tasks of a stream; `first` is the number of the first one.
    pub(super) fn feed(
        &mut self,
        (stream, first): (u64, u64),
        items: &[u8],
        cx: &mut Context<'_, Self>,
    ) {
        let items: Vec<W::Item> = match codec::decode(W::name(), items) {
            Ok(items) => items,
            Err(error) => return cx.fail(format!("tasks of a stream: {error}")),
        };
        let is_repeatable = self.roots.streams.entry(stream).or_default().is_repeatable;
        items.iter().for_each(|_| cx.core.task_begins(is_repeatable));
        let enter = |(number, item)| {
            (item, self.roots.enter(Origin::Streamed { stream, number, is_repeatable }))
        };
        let items: Vec<_> = (first..).zip(items).map(enter).collect();
        self.engine.submit(items, Repeats::default());
    }

    /// Notes that main, if it begins again, hands in further tasks of a stream again.
    pub(super) fn set_repeatable(&mut self, stream: u64) {
        self.roots.streams.entry(stream).or_default().is_repeatable = true;
    }

    /// Takes main's request for outputs of a stream.
    pub(super) fn collect(
        &mut self,
        stream: u64,
        reply: Reply<Option<Outputs>>,
        cx: &mut Context<'_, Self>,
    ) {
        self.roots.streams.entry(stream).or_default().waiting = Some(reply);
        self.answer_streams(cx);
    }

    /// Forgets a stream that main has dropped; outputs still to come are dropped too. If main had
    /// asked for outputs of the stream, answers `None`, so that nothing waits for the answer.
    pub(super) fn end_stream(&mut self, stream: u64, cx: &mut Context<'_, Self>) {
        let ended = self.roots.streams.remove(&stream);
        if let Some(reply) = ended.and_then(|stream| stream.waiting) {
            cx.reply(reply, None);
        }
    }

    /// Passes on the output of a root.
    pub(super) fn finish(&mut self, root: u64, output: &W::Output, cx: &mut Context<'_, Self>) {
        let Some(origin) = self.roots.open.remove(&root) else { return };
        cx.core.task_ends(origin.is_repeatable());
        match origin {
            Origin::Asked(reply) | Origin::Called(reply) => {
                if let Some(output) = encode_output::<W>(output, reply.pe, cx) {
                    cx.reply(reply, Some(output));
                }
            }
            Origin::Streamed { stream, number, .. } => {
                if let Some(stream) = self.roots.streams.get_mut(&stream) {
                    stream.ready.push((number, codec::encode(output).into()));
                }
            }
        }
    }

    /// Sends main the outputs that it waits for.
    pub(super) fn answer_streams(&mut self, cx: &mut Context<'_, Self>) {
        for stream in self.roots.streams.values_mut().filter(|stream| !stream.ready.is_empty()) {
            if let Some(reply) = stream.waiting.take() {
                cx.reply(reply, Some(std::mem::take(&mut stream.ready)));
            }
        }
    }

    /// Notifies all waiting callers that the pool is closed.
    pub(super) fn abandon_roots(&mut self, cx: &mut Context<'_, Self>) {
        let Roots { open, streams, .. } = std::mem::take(&mut self.roots);
        for origin in open.into_values() {
            cx.core.task_ends(origin.is_repeatable());
            if let Origin::Asked(reply) | Origin::Called(reply) = origin {
                cx.reply(reply, None);
            }
        }
        for reply in streams.into_values().filter_map(|stream| stream.waiting) {
            cx.reply(reply, None);
        }
    }

    /// Passes a task, spawned by a task of this pool, to another pool. The worker of that pool on
    /// this PE begins the task.
    pub(super) fn call(&mut self, call: Call<W::Output>, cx: &mut Context<'_, Self>) {
        let Call { pool, item, frame, child, convert, send } = call;
        let Some(lineage) = self.awaited(frame) else { return };
        let to = ActorId { collection: pool, key: at(cx.pe()).key() };
        if cx.core.is_closed(to) {
            return self.give_up(frame, cx);
        }
        let number = self.roots.next_call;
        self.roots.next_call += 1;
        self.roots.calls.insert(number, PendingCall { frame, child, convert });
        let me = cx.me().id();
        let resume = move |core: &mut crate::pe::Core, answer: Result<Option<Bytes>, AskError>| {
            let output = answer.ok().flatten();
            core.send::<Self>(Sender::Pe, me, 0, WorkerMessage::Called { call: number, output });
        };
        let reply = cx.core.expect_reply_for_actor((me, to), Duration::MAX, resume);
        // A repeated task calls a repetition, since its first call may have spread a value in that
        // pool.
        let repeats = lineage.repeats();
        send(cx.core, to, WorkerMessage::Call { item, repeats, reply });
    }

    /// Takes the output of a task of another pool, or `None` if that pool, or one that the task
    /// waits for, is closed.
    pub(super) fn called(&mut self, call: u64, output: Option<Bytes>, cx: &mut Context<'_, Self>) {
        let Some(PendingCall { frame, child, convert }) = self.roots.calls.remove(call) else {
            return;
        };
        if self.awaited(frame).is_none() {
            return;
        }
        let Some(output) = output else { return self.give_up(frame, cx) };
        match convert(&output) {
            Ok(output) => W::report(&mut self.engine, frame, child, 1, output),
            Err(error) => cx.fail(format!("the output of a task of another pool: {error}")),
        }
    }

    /// Returns the lineage of a frame; `None` if the frame is closed or its tasks are orphans. Main
    /// does not wait for orphans, because other nodes repeat their work, and may close the pool
    /// that they call.
    fn awaited(&mut self, frame: FrameId) -> Option<LineageId> {
        let lineage = self.engine.frames.get(frame)?.lineage;
        (!self.engine.node.lineages.is_orphaned(lineage)).then_some(lineage)
    }

    /// Closes a frame that waits for a closed pool, and all frames that wait for its output. If
    /// main waits for the output, this ends the job. If a task of another pool or a lender waits
    /// for it, this notifies their worker, which decides: main may not wait for that task, and the
    /// lender may have the output of another copy.
    pub(super) fn give_up(&mut self, frame: FrameId, cx: &mut Context<'_, Self>) {
        let mut next = Some(frame);
        while let Some(Frame { up, .. }) = next.and_then(|id| self.engine.frames.release(id)) {
            next = None;
            match up {
                Up::Frame(frame, _) => next = Some(frame),
                Up::Lender(borrowed) => {
                    let (lender, by) = (borrowed.lender, cx.pe());
                    send_to_worker(lender.pe, WorkerMessage::GivenUp { lender, by }, cx);
                }
                Up::Root(root) => self.give_up_root(root, cx),
            }
        }
        self.engine.drop_unowned();
    }

    fn give_up_root(&mut self, root: u64, cx: &mut Context<'_, Self>) {
        match self.roots.open.remove(&root) {
            Some(Origin::Called(reply)) => {
                cx.core.task_ends(false);
                cx.reply(reply, None);
            }
            // Main has dropped the stream, and waits for none of its tasks.
            Some(Origin::Streamed { stream, is_repeatable, .. })
                if !self.roots.streams.contains_key(&stream) =>
            {
                cx.core.task_ends(is_repeatable);
            }
            Some(Origin::Asked(_) | Origin::Streamed { .. }) => cx.fail(format!(
                "a task of type {}, or one that it waits for, waits for a pool that is closed; \
                 close a pool only when no task waits for it",
                W::name()
            )),
            None => {}
        }
    }
}
