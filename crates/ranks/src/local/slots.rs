//! The operations of a rank that are not complete, and the results that wait to be taken.

use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::matching::{Arrived, Pattern};
use crate::name_server::ServerReply;
use crate::packet::Payload;
use crate::runs::Run;
use crate::scope::Peers;
use crate::ticket::Ticket;
use std::any::Any;
use std::task::{Context, Poll, Waker};

/// How an operation ended.
pub(crate) enum Outcome {
    /// A send is complete.
    Sent,
    /// A receive has its message.
    Message(Arrived<Payload>),
    /// An access to a window is complete, with what it has read.
    Answer(Option<Content>),
    /// A receive was cancelled.
    Cancelled,
    /// The answer of the name server, or of a rank that has ended.
    Reply(ServerReply),
    /// A collective operation has ended with this result, whose type only the operation knows.
    Value(Box<dyn Any + Send>),
    /// It cannot complete, because a rank has failed or the communicator was revoked.
    Failed(RankError),
}

impl Outcome {
    /// Fails if the operation could not complete.
    pub(crate) fn completed(self) -> Result<(), RankError> {
        match self {
            Self::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// What an operation waits for.
pub(crate) enum Wait {
    /// A message, of one of these ranks.
    Receive(Pattern, Peers),
    /// The data of this offered message, which the receive has matched.
    Data(Box<Arrived<Payload>>),
    /// The receiver of the message that was sent under this number.
    Receiver(u32),
    /// The receivers of all messages in the attached buffer.
    Buffer,
    /// The end of an access to a window.
    Access,
    /// A lock on a window.
    Lock(Box<LockWait>),
    /// A task of the rank.
    Task,
    /// An answer of the name server, or of a rank at its end.
    Reply,
}

/// A wait for a lock on a window of another rank, or of this one.
pub(crate) struct LockWait {
    /// The rank that has the window, numbered in the job.
    pub(crate) target: u32,
    pub(crate) window: u32,
    /// The ranks before this one, as the target has named them last. `None` if they are not known.
    pub(crate) before: Option<Vec<Run>>,
    /// Whether the target was asked for them, and sends them again once they have become fewer.
    pub(crate) is_asked: bool,
}

enum State {
    Free,
    Waiting { wait: Wait, waker: Option<Waker> },
    Done(Outcome),
}

struct Slot {
    generation: u64,
    at: CallSite,
    state: State,
}

/// The operations and their places.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Further tasks that wait for the end of an operation: its slot has the last one.
    others: Vec<(Ticket, Waker)>,
    /// Number of waits for each operation for which several tasks may wait, without those that have
    /// ended.
    shared: Vec<(Ticket, usize)>,
    /// The generation of the last operation.
    pub(crate) generation: u64,
}

impl Slots {
    pub(crate) fn add(&mut self, at: CallSite, wait: Wait) -> Ticket {
        self.generation += 1;
        let generation = self.generation;
        let new = Slot { generation, at, state: State::Waiting { wait, waker: None } };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                // Most ranks wait for one operation at a time.
                if self.slots.is_empty() {
                    self.slots.reserve_exact(1);
                }
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        Ticket { slot, generation }
    }

    fn find(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        (slot.generation == ticket.generation).then_some(slot)
    }

    /// The ticket of the operation at a place: the matching engine knows receives by their places.
    pub(crate) fn ticket(&self, slot: u32) -> Option<Ticket> {
        let generation = self.slots.get(slot as usize)?.generation;
        Some(Ticket { slot, generation })
    }

    /// Changes what an operation waits for.
    pub(crate) fn waits_for(&mut self, ticket: Ticket, now: Wait) {
        if let Some(Slot { state: State::Waiting { wait, .. }, .. }) = self.find(ticket) {
            *wait = now;
        }
    }

    /// What an operation waits for; `None` if it has ended.
    pub(crate) fn wait(&mut self, ticket: Ticket) -> Option<&Wait> {
        match &self.find(ticket)?.state {
            State::Waiting { wait, .. } => Some(wait),
            _ => None,
        }
    }

    /// The wait of an operation for a lock, if it waits for one.
    pub(crate) fn lock_wait(&mut self, ticket: Ticket) -> Option<&mut LockWait> {
        match &mut self.find(ticket)?.state {
            State::Waiting { wait: Wait::Lock(lock), .. } => Some(lock.as_mut()),
            _ => None,
        }
    }

    /// Ends an operation and wakes the task that waits for it. Returns the outcome if the operation
    /// no longer waits.
    pub(crate) fn end(&mut self, ticket: Ticket, outcome: Outcome) -> Option<Outcome> {
        match self.find(ticket) {
            Some(slot) if matches!(slot.state, State::Waiting { .. }) => {
                let old = std::mem::replace(&mut slot.state, State::Done(outcome));
                if let State::Waiting { waker: Some(waker), .. } = old {
                    waker.wake();
                }
                self.wake_others(ticket);
                None
            }
            _ => Some(outcome),
        }
    }

    /// Wakes the further tasks that wait for an operation, which has ended.
    fn wake_others(&mut self, ticket: Ticket) {
        self.shared.retain(|(other, _)| *other != ticket);
        self.others.retain(|(other, waker)| {
            let is_woken = *other == ticket;
            if is_woken {
                waker.wake_by_ref();
            }
            !is_woken
        });
    }

    /// Takes the outcome and frees the place, or keeps the waker.
    pub(crate) fn poll(&mut self, ticket: Ticket, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.take(ticket) {
            return Poll::Ready(outcome);
        }
        // An operation is missing only if its outcome was taken before.
        self.poll_left(ticket, cx).map(|()| Outcome::Cancelled)
    }

    /// Ready if an operation has ended: its outcome stays in its place. Otherwise keeps the waker.
    fn poll_left(&mut self, ticket: Ticket, cx: &mut Context<'_>) -> Poll<()> {
        match self.find(ticket) {
            Some(Slot { state: State::Waiting { waker, .. }, .. }) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Like [`poll_left`](Self::poll_left), for an operation for which several tasks may wait. A
    /// wait `is_known` after its first poll.
    pub(crate) fn poll_shared(
        &mut self,
        ticket: Ticket,
        is_known: bool,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if let Some(Slot { state: State::Waiting { waker: Some(last), .. }, .. }) =
            self.find(ticket)
            && !last.will_wake(cx.waker())
        {
            let last = last.clone();
            let is_last =
                |(other, waker): &(Ticket, Waker)| *other == ticket && waker.will_wake(&last);
            if !self.others.iter().any(is_last) {
                self.others.push((ticket, last));
            }
        }
        let polled = self.poll_left(ticket, cx);
        if polled.is_pending() && !is_known {
            match self.shared.iter_mut().find(|(other, _)| *other == ticket) {
                Some((_, waits)) => *waits += 1,
                None => self.shared.push((ticket, 1)),
            }
        }
        polled
    }

    /// Forgets one wait of a task for an operation for which several tasks may wait. If there are
    /// more waits, wakes the task: one of them may be its own, and then keeps its waker again.
    pub(crate) fn forget_waker(&mut self, ticket: Ticket, gone: &Waker) {
        self.others.retain(|(other, waker)| *other != ticket || !waker.will_wake(gone));
        if let Some(Slot { state: State::Waiting { waker, .. }, .. }) = self.find(ticket)
            && waker.as_ref().is_some_and(|waker| waker.will_wake(gone))
        {
            *waker = None;
            self.keep_other_waker(ticket);
        }
        let Some(at) = self.shared.iter().position(|(other, _)| *other == ticket) else { return };
        let (_, waits) = &mut self.shared[at];
        *waits -= 1;
        match *waits {
            0 => drop(self.shared.swap_remove(at)),
            _ => gone.wake_by_ref(),
        }
    }

    /// Moves a waker of a further task into the slot of an operation: without one, the operation
    /// would count as one for which no task waits.
    fn keep_other_waker(&mut self, ticket: Ticket) {
        let Some(at) = self.others.iter().position(|(other, _)| *other == ticket) else { return };
        let (_, next) = self.others.swap_remove(at);
        if let Some(Slot { state: State::Waiting { waker, .. }, .. }) = self.find(ticket) {
            *waker = Some(next);
        }
    }

    /// Takes the outcome and frees the place, if the operation has ended.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        let slot = self.find(ticket)?;
        if !matches!(slot.state, State::Done(_)) {
            return None;
        }
        self.remove(ticket)
    }

    /// Frees the place of an operation, and returns its outcome if it had one.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Outcome> {
        let slot = self.find(ticket)?;
        let state = std::mem::replace(&mut slot.state, State::Free);
        if matches!(state, State::Free) {
            return None;
        }
        self.shared.retain(|(other, _)| *other != ticket);
        if self.free.is_empty() {
            self.free.reserve_exact(1);
        }
        self.free.push(ticket.slot);
        match state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether an operation has ended.
    pub(crate) fn is_done(&mut self, ticket: Ticket) -> bool {
        self.find(ticket).is_none_or(|slot| matches!(slot.state, State::Done(_)))
    }

    /// The operations that have not ended.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = CallSite> {
        let is_waiting = |slot: &&Slot| matches!(slot.state, State::Waiting { .. });
        self.slots.iter().filter(is_waiting).map(|slot| slot.at)
    }

    /// The operations that have not ended, and what each waits for.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Ticket, CallSite, &Wait)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| match &slot.state {
            State::Waiting { wait, .. } => {
                let ticket = Ticket { slot: place as u32, generation: slot.generation };
                Some((ticket, slot.at, wait))
            }
            _ => None,
        })
    }

    /// The call of an operation.
    pub(crate) fn at(&self, ticket: Ticket) -> Option<CallSite> {
        let slot = self.slots.get(ticket.slot as usize)?;
        (slot.generation == ticket.generation).then_some(slot.at)
    }

    /// Wakes the tasks of collective operations that wait for messages.
    pub(crate) fn wake_collectives(&self) {
        for slot in &self.slots {
            if let State::Waiting { wait: Wait::Receive(pattern, _), waker: Some(waker) } =
                &slot.state
                && pattern.context % 2 == 1
            {
                waker.wake_by_ref();
            }
        }
    }

    /// The operations whose end would wake a task, and what each waits for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (Ticket, CallSite, &Wait)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| match &slot.state {
            State::Waiting { wait, waker: Some(_) } => {
                let ticket = Ticket { slot: place as u32, generation: slot.generation };
                Some((ticket, slot.at, wait))
            }
            _ => None,
        })
    }

    /// The call of an operation that has not ended, and what it waits for.
    pub(crate) fn open(&self, ticket: Ticket) -> Option<(CallSite, &Wait)> {
        match self.slots.get(ticket.slot as usize)? {
            Slot { generation, at, state: State::Waiting { wait, .. } }
                if *generation == ticket.generation =>
            {
                Some((*at, wait))
            }
            _ => None,
        }
    }

    /// The operations that have not ended, or whose outcome was not taken.
    pub(crate) fn pending(&self) -> impl Iterator<Item = CallSite> {
        let is_used = |slot: &&Slot| !matches!(slot.state, State::Free);
        self.slots.iter().filter(is_used).map(|slot| slot.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[test]
    fn a_place_is_used_again_and_the_old_ticket_finds_nothing() {
        let mut slots = Slots::default();
        let at = CallSite::new("send", 0);
        let first = slots.add(at, Wait::Receiver(1));
        assert!(slots.end(first, Outcome::Sent).is_none());
        assert!(matches!(slots.take(first), Some(Outcome::Sent)));
        let second = slots.add(at, Wait::Receiver(2));
        assert_eq!((first.slot, second.slot), (0, 0));
        assert!(slots.end(first, Outcome::Sent).is_some());
        assert!(!slots.is_done(second) && slots.is_done(first));
        assert_eq!(slots.pending().count(), 1);
    }

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_the_other_waits_for_the_same_operation() {
        let mut slots = Slots::default();
        let access = slots.add(CallSite::new("put", 0), Wait::Access);
        let tasks = [Arc::new(Counted::default()), Arc::new(Counted::default())];
        let wakers = tasks.clone().map(Waker::from);
        let wait = |slots: &mut Slots, task: usize| {
            let mut cx = Context::from_waker(&wakers[task]);
            assert!(slots.poll_shared(access, false, &mut cx).is_pending());
        };
        // Task 1 waits, drops the wait, and is not woken, since no other wait lacks a waker. Then
        // it waits in two places, and drops one wait. It is woken, so that the other wait keeps its
        // waker again.
        wait(&mut slots, 1);
        slots.forget_waker(access, &wakers[1]);
        assert_eq!((tasks[1].0.load(Ordering::Relaxed), slots.awaited().count()), (0, 0));
        for task in [0, 1, 1] {
            wait(&mut slots, task);
        }
        slots.forget_waker(access, &wakers[1]);
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!((woken(), slots.awaited().count()), ([0, 1], 1));
        let mut cx = Context::from_waker(&wakers[1]);
        assert!(slots.poll_shared(access, true, &mut cx).is_pending());
        assert!(slots.end(access, Outcome::Answer(None)).is_none());
        assert_eq!(woken(), [1, 2]);
        slots.forget_waker(access, &wakers[1]);
        assert_eq!(woken(), [1, 2]);
    }
}
