//! The state that a rank's actor shares with the communicators that the rank's code uses.
//!
//! Operations leave messages and receives here; the actor sends the messages, and delivers those
//! that arrive. Nothing here sends, waits or reads a clock. The lock is never contended, since a
//! rank's code runs only inside its actor.

mod blocked;
pub(crate) mod buffer;
mod delivery;
pub(crate) mod failures;
mod hopeless;
pub(crate) mod interrupts;
mod joined;
pub(crate) mod joined_wait;
pub(crate) mod link;
mod makers;
pub(crate) mod memory;
mod receives;
pub(crate) mod saved;
mod sleeping;
pub(crate) mod slots;
pub(crate) mod turn;

use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::matching::{Arrived, Label, Matcher};
use crate::name_server::ServerRequest;
use crate::packet::{Access, Load, Payload, RankMessage};
use crate::scope::Peers;
use crate::ticket::{Asker, Ticket};
use buffer::SendBuffer;
use failures::Failures;
use gridspan_runtime::{Time, Timer};
use interrupts::Interrupts;
use joined::JoinedWaits;
use link::Link;
use makers::Makers;
use memory::Window;
use serde::{Deserialize, Serialize};
use slots::{LockWait, Outcome, Slots, Wait};
use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Default number of bytes up to which messages are sent at once.
pub(crate) const EAGER_BYTES: usize = 64 << 10;

/// The number of accesses without an answer. No other access and no message has it.
const NO_TOKEN: u32 = 0;

/// A future that the rank's actor runs beside the rank's own code.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When a send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// When the data is on its way or, if it is long, when the receiver has asked for it or has
    /// matched it.
    Standard,
    /// When a receive has matched it.
    Synchronous,
    /// At once, within the attached buffer.
    Buffered,
}

/// A message that was sent and that waits for its receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// The receiver's number in the job.
    to: u32,
    label: Label,
    /// The data of an offer; `None` if they were sent with the message.
    content: Option<Content>,
    /// Bytes of the data of a long message that were sent with it.
    included: usize,
    /// The operation that waits for the end of the send.
    ticket: Option<Ticket>,
    /// Number of bytes in the attached buffer.
    buffered: usize,
}

/// An operation that has begun: its outcome, or the ticket under which it ends later.
pub(crate) enum Begun<T> {
    Now(T),
    Later(Ticket),
}

/// What a rank has sent in this turn of its PE.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Number of messages to ranks of the same PE.
    near: u32,
    /// Number of messages to other ranks.
    far: u32,
    /// Number of answers, accesses and requests to any rank, and of collective operations that have
    /// begun and have sent nothing yet.
    other: u32,
}

/// A task that looks at each message that no receive has taken.
pub(crate) struct Watcher {
    pub(crate) waker: Waker,
    /// The ranks whose messages it looks for.
    pub(crate) peers: Peers,
    pub(crate) at: CallSite,
}

/// The state of one rank, behind a lock.
pub(crate) struct Local {
    /// The number in the job.
    pub(crate) rank: u32,
    state: Mutex<LocalState>,
}

impl Local {
    /// The state of a rank that has not begun.
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, state: Mutex::new(LocalState::new(rank)) }
    }

    /// Calls `look` with the state.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut LocalState) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of one rank.
pub(crate) struct LocalState {
    rank: u32,
    /// A number that grows with each change of what the rank waits for, and may grow without one.
    pub(crate) changes: u64,
    pub(crate) matcher: Matcher<Payload>,
    pub(crate) slots: Slots,
    joined: JoinedWaits,
    /// Messages to send, with the ranks of their receivers in the job.
    pub(crate) outbox: Vec<(u32, RankMessage)>,
    turn: Turn,
    /// Futures to run.
    pub(crate) tasks: Vec<Task>,
    /// Tasks to poll once a message has arrived that no receive waits for, such as probes.
    /// They have numbers, by which they are forgotten.
    watchers: Vec<(u64, Watcher)>,
    last_watcher: u64,
    /// Tasks to poll once the PE has handled other messages.
    resumed: Vec<Waker>,
    /// Sends that end once the PE has handled other messages: their data has left by then.
    leaving: Vec<Ticket>,
    /// Delays to begin, with their numbers.
    pub(crate) delays: Vec<(Duration, u64)>,
    /// The delays that have begun, with their wakers and, once these are set, their timers.
    sleeping: BTreeMap<u64, (Waker, Option<Timer>)>,
    /// The timers of delays for which no task waits any more.
    pub(crate) unneeded_timers: Vec<Timer>,
    last_delay: u64,
    sent: BTreeMap<u32, Sent>,
    /// Bytes of the data of all long messages that were sent with them and that no receive has
    /// matched.
    included_bytes: usize,
    /// The number of the last message or access that needed one.
    last_token: u32,
    /// The smallest communicator number that this rank has not used.
    pub(crate) next_communicator: u32,
    /// The tasks that make communicators.
    pub(crate) makers: Makers,
    /// Number of collective operations on the world that this rank has begun.
    pub(crate) world_operations: Arc<AtomicU32>,
    pub(crate) buffer: SendBuffer,
    /// Operations that wait until the buffer is empty.
    detaching: Vec<Ticket>,
    /// The receives that get the data of messages whose first receives were dropped, by the
    /// generations of the first receives.
    redirected: BTreeMap<u64, Ticket>,
    /// Messages whose first receives were dropped, and whose data came while the program held them
    /// as matched messages, by the generations of the first receives.
    matched_with_data: BTreeMap<u64, Arrived<Payload>>,
    /// The windows of this rank, by number.
    pub(crate) windows: BTreeMap<u32, Window>,
    /// What an operator of a window has panicked with, in a job with `ErrorsReturn`.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Accesses of this rank that are not complete, and the ranks that have the windows.
    accesses: BTreeMap<u32, (u32, Ticket)>,
    /// The groups that have spawned this rank, and those that it has spawned.
    pub(crate) links: Vec<Link>,
    /// Requests that were dropped before they were complete.
    pub(crate) abandoned: Vec<CallSite>,
    pub(crate) failures: Failures,
    /// The communicators whose operations other ranks may end, in jobs with `ErrorsReturn`.
    pub(crate) interrupts: Interrupts,
    pub(crate) eager_bytes: usize,
    pub(crate) now: Time,
    /// Compute time to charge to the actor.
    pub(crate) charged: Duration,
}

impl LocalState {
    fn new(rank: u32) -> Self {
        Self {
            rank,
            changes: 0,
            matcher: Matcher::default(),
            slots: Slots::default(),
            joined: JoinedWaits::default(),
            outbox: Vec::new(),
            turn: Turn::default(),
            tasks: Vec::new(),
            watchers: Vec::new(),
            last_watcher: 0,
            resumed: Vec::new(),
            leaving: Vec::new(),
            delays: Vec::new(),
            sleeping: BTreeMap::new(),
            unneeded_timers: Vec::new(),
            last_delay: 0,
            sent: BTreeMap::new(),
            included_bytes: 0,
            last_token: NO_TOKEN,
            next_communicator: 1,
            makers: Makers::default(),
            world_operations: Arc::default(),
            buffer: SendBuffer::default(),
            detaching: Vec::new(),
            redirected: BTreeMap::new(),
            matched_with_data: BTreeMap::new(),
            windows: BTreeMap::new(),
            panic: None,
            accesses: BTreeMap::new(),
            links: Vec::new(),
            abandoned: Vec::new(),
            failures: Failures::default(),
            interrupts: Interrupts::default(),
            eager_bytes: EAGER_BYTES,
            now: Time::ZERO,
            charged: Duration::ZERO,
        }
    }

    /// Returns a number for a message or an access. After a wrap it skips those that are in use.
    fn new_token(&mut self) -> u32 {
        loop {
            self.last_token = self.last_token.wrapping_add(1);
            let token = self.last_token;
            let is_used = self.sent.contains_key(&token) || self.accesses.contains_key(&token);
            if token != NO_TOKEN && !is_used {
                return token;
            }
        }
    }

    /// Begins an access to a window of a rank of the job. Returns its ticket and its number.
    pub(crate) fn access(
        &mut self,
        to: u32,
        window: u32,
        access: Access,
        at: CallSite,
    ) -> (Ticket, u32) {
        let wait = match access {
            Access::Lock { .. } => {
                let wait = LockWait { target: to, window, before: None, is_asked: false };
                Wait::Lock(Box::new(wait))
            }
            _ => Wait::Access,
        };
        let ticket = self.slots.add(at, wait);
        let (from, token) = (self.rank, self.new_token());
        if let Some(error) = self.failures.of_rank(to, at) {
            self.slots.end(ticket, Outcome::Failed(error));
            return (ticket, token);
        }
        self.accesses.insert(token, (to, ticket));
        self.put(to, RankMessage::Access { from, window, token, access });
        (ticket, token)
    }

    /// Sends an access to a window. The access gets no answer.
    pub(crate) fn tell(&mut self, to: u32, window: u32, access: Access) {
        let message = RankMessage::Access { from: self.rank, window, token: NO_TOKEN, access };
        self.put(to, message);
    }

    /// Gives back a lock that the rank no longer waits for.
    pub(crate) fn withdraw(&mut self, to: u32, window: u32, lock: u32) {
        self.accesses.remove(&lock);
        self.tell(to, window, Access::Withdraw { lock });
    }

    /// Asks the name server, which runs at rank 0.
    pub(crate) fn ask(&mut self, request: ServerRequest, at: CallSite) -> Ticket {
        let ticket = self.slots.add(at, Wait::Reply);
        let asker = Asker { rank: self.rank, ticket };
        self.put(0, RankMessage::Ask { asker, request: Box::new(request) });
        ticket
    }

    /// Withdraws a request to the name server, because the rank no longer waits for the answer.
    pub(crate) fn withdraw_request(&mut self, ticket: Ticket) {
        let asker = Asker { rank: self.rank, ticket };
        let request = Box::new(ServerRequest::Withdraw);
        self.put(0, RankMessage::Ask { asker, request });
    }

    /// Asks a rank of the job to answer when it ends.
    pub(crate) fn ask_end(&mut self, rank: u32, at: CallSite) -> Ticket {
        let ticket = self.slots.add(at, Wait::Reply);
        let asker = Asker { rank: self.rank, ticket };
        self.put(rank, RankMessage::TellEnd(asker));
        ticket
    }

    /// Wakes a task at the next message that no receive has taken. Returns the number of the
    /// watcher, which is the given one if the task has watched before.
    pub(crate) fn watch(&mut self, number: Option<u64>, watcher: Watcher) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.last_watcher += 1;
            self.last_watcher
        });
        match self.watchers.iter_mut().find(|(other, _)| *other == number) {
            Some((_, known)) => *known = watcher,
            None => self.watchers.push((number, watcher)),
        }
        number
    }

    /// Forgets a watcher, whose task no longer waits.
    pub(crate) fn forget_watcher(&mut self, number: u64) {
        self.watchers.retain(|(other, _)| *other != number);
    }

    /// Sends a message to a rank of the job.
    pub(crate) fn send(
        &mut self,
        mode: SendMode,
        to: u32,
        label: Label,
        content: Content,
        at: CallSite,
    ) -> Result<Begun<()>, RankError> {
        let revoked = self.failures.revocation(label.context / 2, at);
        if let Some(error) = revoked.or_else(|| self.failures.of_rank(to, at)) {
            return Err(error);
        }
        let bytes = content.bytes().len();
        let is_long = bytes > self.eager_bytes;
        let buffered = match mode {
            SendMode::Buffered => self.buffer.check(bytes, at)?,
            _ => 0,
        };
        if !is_long && mode != SendMode::Synchronous {
            self.post(to, label, Load::Whole { content, acknowledge: None });
            return Ok(Begun::Now(()));
        }
        let token = self.new_token();
        let waits = mode != SendMode::Buffered;
        let ticket = waits.then(|| self.slots.add(at, Wait::Receiver(token)));
        if !waits {
            self.buffer.take(buffered);
        }
        let (kept, load) = match is_long {
            true => {
                let (kind, bytes) = (content.kind, bytes as u64);
                (Some(content), Load::Offer { token, kind, bytes })
            }
            false => (None, Load::Whole { content, acknowledge: Some(token) }),
        };
        let new = Sent { to, label, content: kept, included: 0, ticket, buffered };
        self.sent.insert(token, new);
        self.post(to, label, load);
        Ok(ticket.map_or(Begun::Now(()), Begun::Later))
    }

    /// Puts a message of the program into the outbox. The caller has counted it by `note_sent`.
    pub(crate) fn post(&mut self, to: u32, label: Label, load: Load) {
        let payload = Payload { origin: self.rank, load };
        self.put_out(to, RankMessage::Message(label, payload));
    }

    /// Detaches the buffer and returns its size, or waits until it is empty.
    pub(crate) fn detach(&mut self, at: CallSite) -> Begun<usize> {
        match self.buffer.detach() {
            Some(bytes) => Begun::Now(bytes),
            None => {
                let ticket = self.slots.add(at, Wait::Buffer);
                self.detaching.push(ticket);
                Begun::Later(ticket)
            }
        }
    }
}

#[cfg(test)]
mod tests;
