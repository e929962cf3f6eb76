//! Runs a node's host of the coordinator in real time: the coordinator itself, or the forwarding of
//! its packets to the node that runs it.
//!
//! The thread that delivers a packet for the coordinator also handles it, so that no thread has to
//! be woken. If another thread is running the coordinator, that thread handles the packet before it
//! returns. Timers, planning of rebalances, and packets that may take long run on the coordinator's
//! own thread; meanwhile packets for the coordinator wait, but PEs and the network do not. This
//! thread exists while the coordinator is on this node.

use crate::coordinator::{CoordinatorCommand, CoordinatorEvent, CoordinatorHost};
use crate::error::{JobError, StartError, panic_message};
use gridspan_topology::Time;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Instant;

/// Number of rounds after which a thread that runs the coordinator leaves further packets to the
/// coordinator's own thread.
const ROUNDS_MAX: u32 = 8;
/// Value of `due_ns` if no timer is set.
const NEVER: u64 = u64::MAX;

/// Services that the node provides for the coordinator.
pub(super) trait Surroundings {
    /// Carries out the commands of the coordinator.
    fn obey(&self, commands: Vec<CoordinatorCommand>);
    /// Whether the job is over on this node.
    fn is_closed(&self) -> bool;
    /// Starts the coordinator's own thread, which [serves](CoordinatorDriver::serve).
    fn start_thread(&self) -> std::io::Result<()>;
}

/// The state machine, and whether it has a thread.
struct Machine {
    host: CoordinatorHost,
    /// Whether the coordinator's own thread exists or is starting.
    is_served: bool,
}

/// Driver of a node's coordinator host.
pub(super) struct CoordinatorDriver {
    events: Mutex<VecDeque<CoordinatorEvent>>,
    /// Whether `events` is not empty. PEs check this at the end of each turn; the cache line of a
    /// lock would move from core to core.
    has_events: AtomicBool,
    /// Whether `events` contains one that the coordinator's own thread, if any, has to handle.
    has_long: AtomicBool,
    /// Bytes that `events` holds.
    bytes: AtomicUsize,
    bytes_max: usize,
    machine: Mutex<Machine>,
    /// Time of the next timer of the coordinator, in nanoseconds since `begin`.
    due_ns: AtomicU64,
    thread: Mutex<Option<Thread>>,
    begin: Instant,
}

impl CoordinatorDriver {
    /// Creates the driver of a host. At most `bytes_max` bytes of packets wait for it.
    pub(super) fn new(mut host: CoordinatorHost, bytes_max: usize, begin: Instant) -> Self {
        host.set_stopwatch(Arc::new(move || begin.elapsed().as_nanos() as u64));
        Self {
            events: Mutex::default(),
            has_events: AtomicBool::new(false),
            has_long: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            bytes_max,
            machine: Mutex::new(Machine { host, is_served: false }),
            due_ns: AtomicU64::new(NEVER),
            thread: Mutex::default(),
            begin,
        }
    }

    /// Queues an event for [`run`](Self::run). A packet above the limit is dropped, and the job
    /// ends.
    pub(super) fn push(&self, event: CoordinatorEvent) {
        let held = event.bytes();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.bytes.fetch_add(held, Ordering::Relaxed);
        let bytes = before.saturating_add(held);
        match bytes > self.bytes_max && held > 0 {
            true if before > self.bytes_max => {}
            true => events.push_back(CoordinatorEvent::Overflow(bytes)),
            false => {
                if event.may_take_long() {
                    self.has_long.store(true, Ordering::SeqCst);
                }
                events.push_back(event);
            }
        }
        self.has_events.store(true, Ordering::SeqCst);
        drop(events);
        // Orders the push before the attempt in `run` to lock the machine.
        fence(Ordering::SeqCst);
    }

    /// Starts the coordinator's own thread, if the coordinator is on this node.
    pub(super) fn begin(&self, surroundings: &dyn Surroundings) {
        let mut machine = self.lock();
        self.note_due(&mut machine, surroundings);
        drop(machine);
        // As in `run`, a fence follows the release of the machine.
        fence(Ordering::SeqCst);
        self.run(surroundings);
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the coordinator handle the waiting events, unless another thread is running it; that
    /// thread then handles them. Leaves events that may take long, and all events after
    /// [`ROUNDS_MAX`] rounds, to the coordinator's own thread.
    pub(super) fn run(&self, surroundings: &dyn Surroundings) {
        // The thread that holds the machine looks for events again after the release, so no event
        // stays behind.
        for round in 0.. {
            if !self.has_events.load(Ordering::SeqCst) {
                return;
            }
            // This thread has other work; the coordinator's own thread has none.
            let is_much = round == ROUNDS_MAX || self.has_long.load(Ordering::SeqCst);
            if is_much && self.wake() {
                return;
            }
            let mut machine = match self.machine.try_lock() {
                Ok(machine) => machine,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.take_all(&mut machine, surroundings);
            self.note_due(&mut machine, surroundings);
            drop(machine);
            // Either this thread sees the events that others have pushed, or those threads see the
            // machine free.
            fence(Ordering::SeqCst);
        }
    }

    /// Runs timers and events until the job is over on this node or the coordinator has moved to
    /// another node.
    pub(super) fn serve(&self, surroundings: &dyn Surroundings) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        while !surroundings.is_closed() {
            let is_over = {
                let mut machine = self.lock();
                self.guard(&mut machine, surroundings, CoordinatorHost::wake);
                self.take_all(&mut machine, surroundings);
                self.note_due(&mut machine, surroundings);
                machine.is_served = machine.host.coordinator().is_some();
                if !machine.is_served {
                    *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
                !machine.is_served
            };
            // As in `run`, a fence follows the release of the machine.
            fence(Ordering::SeqCst);
            self.run(surroundings);
            if is_over {
                return;
            }
            match self.due_ns.load(Ordering::SeqCst) {
                NEVER => thread::park(),
                due => thread::park_timeout(Time(due).since(self.now())),
            }
        }
    }

    /// Wakes the coordinator's own thread. Returns whether that thread exists.
    pub(super) fn wake(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().map(Thread::unpark).is_some()
    }

    /// Makes the machine handle the events that wait now. Events that arrive meanwhile wait for the
    /// next call.
    fn take_all(&self, machine: &mut Machine, surroundings: &dyn Surroundings) {
        let mut waiting = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(&mut *waiting);
        self.has_events.store(false, Ordering::SeqCst);
        self.has_long.store(false, Ordering::SeqCst);
        self.bytes.store(0, Ordering::Relaxed);
        drop(waiting);
        for event in events.drain(..) {
            self.guard(machine, surroundings, |host, now| host.handle(now, event));
        }
    }

    /// Calls `act` on the machine and carries out the resulting commands. A panic, such as one in a
    /// strategy or in a reducer of the job, ends the job.
    fn guard(
        &self,
        machine: &mut Machine,
        surroundings: &dyn Surroundings,
        act: impl FnOnce(&mut CoordinatorHost, Time) -> Vec<CoordinatorCommand>,
    ) {
        let now = self.now();
        let host = &mut machine.host;
        let commands = match catch_unwind(AssertUnwindSafe(|| act(host, now))) {
            Ok(commands) => commands,
            Err(panic) => {
                let reason = panic_message(&*panic);
                let error = JobError::CoordinatorPanicked { reason };
                end(host, now, &error)
            }
        };
        surroundings.obey(commands);
    }

    /// Notes the time of the next timer, and wakes the coordinator's own thread if that time is
    /// earlier than before. Starts the thread if the coordinator is on this node and has none.
    fn note_due(&self, machine: &mut Machine, surroundings: &dyn Surroundings) {
        if machine.host.coordinator().is_some() && !machine.is_served {
            machine.is_served = true;
            if let Err(error) = surroundings.start_thread() {
                let thread = "the coordinator".to_owned();
                let error = StartError::Thread { thread, reason: error.to_string() }.into();
                let commands = end(&mut machine.host, self.now(), &error);
                surroundings.obey(commands);
            }
        }
        let due_ns = machine.host.next_wakeup().map_or(NEVER, |due| due.0);
        if due_ns < self.due_ns.swap(due_ns, Ordering::SeqCst) {
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = thread.as_ref().filter(|own| own.id() != thread::current().id()) {
                thread.unpark();
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }
}

/// Ends the job. A listener of the job may panic meanwhile; the second attempt does not call it.
fn end(host: &mut CoordinatorHost, now: Time, error: &JobError) -> Vec<CoordinatorCommand> {
    let mut try_end = || {
        let failed = CoordinatorEvent::Failed(error.clone());
        catch_unwind(AssertUnwindSafe(|| host.handle(now, failed)))
    };
    try_end().or_else(|_| try_end()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Job;
    use crate::address::id::{ActorId, CollectionId, KindId, MAIN_PE};
    use crate::address::index::{ActorIndex, Ix1};
    use crate::job::program::Program;
    use crate::message::payload::Payload;
    use crate::message::probe::ProbeReport;
    use crate::message::{Content, Control, MainRequest, Packet};
    use gridspan_topology::{Layout, NodeId, PeId};
    use std::thread::ThreadId;
    use std::time::Duration;

    /// Records the packets to send, each with the thread that sent it.
    #[derive(Default)]
    struct Noted {
        sent: Mutex<Vec<(ThreadId, Control)>>,
        is_closed: AtomicBool,
    }

    impl Surroundings for Noted {
        fn obey(&self, commands: Vec<CoordinatorCommand>) {
            let mut sent = self.sent.lock().unwrap();
            for command in commands {
                if let CoordinatorCommand::Send {
                    packet: Packet(Content::Control(control)), ..
                } = command
                {
                    sent.push((thread::current().id(), *control));
                }
            }
        }

        fn is_closed(&self) -> bool {
            self.is_closed.load(Ordering::SeqCst)
        }

        fn start_thread(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn driver(bytes_max: usize) -> CoordinatorDriver {
        let job = Job::new("driven").main(async |_| Ok::<(), JobError>(()));
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
        let host = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
        CoordinatorDriver::new(host, bytes_max, Instant::now())
    }

    fn packet(control: Control) -> CoordinatorEvent {
        CoordinatorEvent::Packet { from: MAIN_PE, packet: Packet::control(control) }
    }

    #[test]
    fn waiting_bytes_above_the_limit_end_the_job() {
        let (driver, noted) = (driver(1000), Noted::default());
        let request = |bytes: usize| {
            let collection = CollectionId(0);
            let source = ActorId { collection, key: Ix1(0).key() };
            let asked = crate::message::Asked { source, count: 1, earlier: Default::default() };
            let message = Payload::Bytes(vec![0; bytes].into());
            let wanted = crate::message::Wanted::Message(message);
            let (kind, priority, is_alone) = (KindId(0), 0, false);
            Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone }
        };
        for _ in 0..4 {
            driver.push(packet(request(600)));
        }
        assert_eq!(driver.events.lock().unwrap().len(), 2, "the other two are dropped");

        // The first request names a collection that does not exist, which would be another error.
        let first = driver.events.lock().unwrap().pop_front();
        assert!(matches!(first, Some(CoordinatorEvent::Packet { .. })));
        driver.run(&noted);

        let sent = noted.sent.into_inner().unwrap();
        let is_over = |(_, control): &(ThreadId, Control)| {
            matches!(control, Control::Stop { outcome: Err(JobError::OverBudget { .. }) })
        };
        assert_eq!((sent.len(), sent.iter().filter(|sent| is_over(sent)).count()), (2, 2));
    }

    #[test]
    fn the_coordinators_own_thread_handles_long_events_and_those_behind() {
        let (driver, noted) = (driver(1 << 20), Noted::default());
        let ask = |slot| Control::MainRequest { slot, request: MainRequest::Rebalance };
        thread::scope(|scope| {
            driver.begin(&noted);
            let own = scope.spawn(|| driver.serve(&noted)).thread().id();
            while !driver.wake() {
                thread::yield_now();
            }
            driver.push(packet(ask(1)));
            driver.run(&noted);
            let report = ProbeReport { id: 9, send_cost: None, found: Vec::new() };
            driver.push(CoordinatorEvent::Packet {
                from: PeId(1),
                packet: Packet::control(Control::Probed(report)),
            });
            driver.push(packet(ask(2)));
            driver.run(&noted);
            let of = |slot| {
                let sent = noted.sent.lock().unwrap();
                let is_answer = |control: &Control| matches!(control, Control::Reply { slot: answered, .. } if *answered == slot);
                sent.iter().find(|(_, control)| is_answer(control)).map(|(thread, _)| *thread)
            };
            let deadline = Instant::now() + Duration::from_secs(20);
            while of(2).is_none() && Instant::now() < deadline {
                thread::yield_now();
            }
            assert_eq!(of(2), Some(own));
            noted.is_closed.store(true, Ordering::SeqCst);
            driver.wake();
        });
    }
}
