//! Sends the messages that a rank has left in its outbox.

use super::RankActor;
use super::body::Body;
use crate::packet::RankMessage;
use crate::program::RankProgram;
use gridspan_runtime::{Context, Ix1};
use std::time::Duration;

impl<P: RankProgram> RankActor<P> {
    /// Sends the messages of the outbox, and delivers those to this rank itself, until there are
    /// none. Adds to the body the tasks that have begun: in its futures, if it was polled, or in
    /// the operator of a window, which a message of another rank runs.
    pub(super) fn flush(
        &mut self,
        mut body: Option<&mut Body<P>>,
        mut is_polled: bool,
        cx: &mut Context<'_, Self>,
    ) {
        let ranks = cx.collection();
        loop {
            let (outbox, (delays, unneeded), charged, tasks, leaves) = self.local.with(|state| {
                state.changes += u64::from(is_polled);
                let tasks = match body.is_some() {
                    true => std::mem::take(&mut state.tasks),
                    false => Vec::new(),
                };
                // Taken, not drained, so that its memory is freed: the next rank of the PE that
                // sends gets this memory while it is in the cache.
                let outbox = std::mem::take(&mut state.outbox);
                let delays = std::mem::take(&mut state.delays);
                let delays = (delays, std::mem::take(&mut state.unneeded_timers));
                let leaves = state.has_messages_that_leave();
                (outbox, delays, std::mem::take(&mut state.charged), tasks, leaves)
            });
            is_polled = false;
            if let Some(body) = body.as_deref_mut() {
                body.add(tasks);
            }
            for timer in unneeded {
                cx.cancel(timer);
            }
            for (delay, number) in delays {
                let timer = cx.send_after(delay, &cx.me(), RankMessage::Elapsed(number));
                self.local.with(|state| state.note_timer(number, timer));
            }
            if charged > Duration::ZERO {
                cx.charge(charged);
            }
            let mut has_delivered = false;
            for (to, message) in outbox {
                match message {
                    // It comes back once the PE has handled the messages that wait now. Messages of
                    // the rank to other PEs leave before that, even if nothing else waits.
                    RankMessage::GoOn => {
                        cx.send(&cx.me(), RankMessage::GoOn);
                        if leaves {
                            cx.end_turn();
                        }
                    }
                    RankMessage::Ask { asker, request } if to == self.local.rank => {
                        self.serve(asker, *request, cx);
                        has_delivered = true;
                    }
                    RankMessage::TellEnd(asker) if to == self.local.rank => {
                        self.tell_end(asker, cx);
                        has_delivered = true;
                    }
                    RankMessage::Access { from, window, token, access }
                        if to == self.local.rank && access.runs_operator() =>
                    {
                        self.local.run_operator((from, token), window, &access);
                        has_delivered = true;
                    }
                    message if to == self.local.rank => {
                        self.local.with(|state| state.deliver(message));
                        has_delivered = true;
                    }
                    message => self.send(&ranks.at(Ix1(to as i32)), to, message, cx),
                }
            }
            // Only messages that are delivered here leave more in the outbox.
            if !has_delivered {
                return;
            }
        }
    }
}
