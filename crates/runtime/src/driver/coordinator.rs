//! Runs the coordinator in real time, or what passes on packets for it where it is on another node.
//!
//! A packet for it is handled on the thread that brings it, whichever that is, so that no thread
//! has to be woken. While another thread is at it, that one takes the packet before it leaves. What
//! the coordinator does later, planning of rebalances with it, is for its own thread alone: packets
//! wait meanwhile, and neither PEs nor the network do. There is such a thread while it is here.

use crate::coordinator::{CoordinatorCommand, CoordinatorEvent, CoordinatorHost};
use crate::error::{JobError, panic_message};
use gridspan_topology::Time;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Instant;

/// How often a thread that has brought a packet has the coordinator take what came meanwhile.
const ROUNDS_MAX: u32 = 8;
/// No time.
const NEVER: u64 = u64::MAX;

/// What is around the coordinator on its node.
pub(super) trait Surroundings {
    /// Does what the coordinator wants.
    fn obey(&self, commands: Vec<CoordinatorCommand>);
    /// Whether the job is over on this node.
    fn is_closed(&self) -> bool;
    /// Starts the coordinator's own thread, which [serves](CoordinatorDriver::serve).
    fn start_thread(&self) -> std::io::Result<()>;
}

/// The machine, and what goes with it.
struct Machine {
    host: CoordinatorHost,
    /// Whether there is a thread for it.
    is_served: bool,
}

/// The coordinator of a job, as a node has it.
pub(super) struct CoordinatorDriver {
    events: Mutex<VecDeque<CoordinatorEvent>>,
    /// Whether there are some: PEs look at the end of each turn, and a lock that all of them took
    /// would go from core to core.
    has_events: AtomicBool,
    machine: Mutex<Machine>,
    /// When its thread has something to do, in nanoseconds since `begin`.
    due_ns: AtomicU64,
    thread: Mutex<Option<Thread>>,
    begin: Instant,
}

impl CoordinatorDriver {
    pub(super) fn new(mut host: CoordinatorHost, begin: Instant) -> Self {
        host.set_stopwatch(Arc::new(move || begin.elapsed().as_nanos() as u64));
        Self {
            events: Mutex::default(),
            has_events: AtomicBool::new(false),
            machine: Mutex::new(Machine { host, is_served: false }),
            due_ns: AtomicU64::new(NEVER),
            thread: Mutex::default(),
            begin,
        }
    }

    /// Leaves something for [`run`](Self::run).
    pub(super) fn push(&self, event: CoordinatorEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_back(event);
        self.has_events.store(true, Ordering::SeqCst);
        drop(events);
        // Before this thread finds the machine locked: see `run`.
        fence(Ordering::SeqCst);
    }

    /// Begins: starts the coordinator's thread, if it is here.
    pub(super) fn begin(&self, surroundings: &dyn Surroundings) {
        let mut machine = self.lock();
        self.note_due(&mut machine, surroundings);
        drop(machine);
        // As in `run`, which goes on.
        fence(Ordering::SeqCst);
        self.run(surroundings);
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the coordinator take what is there, unless another thread is at it, which will.
    pub(super) fn run(&self, surroundings: &dyn Surroundings) {
        // The thread that holds the machine looks again after it has let go of it, so nothing stays.
        for round in 0.. {
            if !self.has_events.load(Ordering::SeqCst) {
                return;
            }
            // This thread has other things to do, and the coordinator a thread of its own.
            if round == ROUNDS_MAX && self.wake() {
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
            // Either this thread sees what others have pushed, or they see the machine free.
            fence(Ordering::SeqCst);
        }
    }

    /// Does what is due, until the job is over on this node or the coordinator on another.
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
            // As in `run`, which goes on.
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

    /// Has the coordinator's own thread look at what there is to do. Returns whether there is one.
    pub(super) fn wake(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().map(Thread::unpark).is_some()
    }

    /// Has the machine take what is there now. What comes meanwhile has its turn after what is due.
    fn take_all(&self, machine: &mut Machine, surroundings: &dyn Surroundings) {
        let mut waiting = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(&mut *waiting);
        self.has_events.store(false, Ordering::SeqCst);
        drop(waiting);
        for event in events.drain(..) {
            self.guard(machine, surroundings, |host, now| host.handle(now, event));
        }
    }

    /// Has the machine do something, and does what follows. A panic, such as one of a strategy or
    /// of an operator of the job, ends the job.
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
                let error = JobError::Failed(format!("the coordinator panicked: {reason}"));
                end(host, now, &error)
            }
        };
        surroundings.obey(commands);
    }

    /// Notes when the thread has something to do, and wakes it if that is earlier than it knows.
    /// Starts one if the coordinator is here and there is none.
    fn note_due(&self, machine: &mut Machine, surroundings: &dyn Surroundings) {
        if machine.host.coordinator().is_some() && !machine.is_served {
            machine.is_served = true;
            if let Err(error) = surroundings.start_thread() {
                let error = JobError::Failed(format!(
                    "cannot start the thread of the coordinator ({error}); use fewer PEs"
                ));
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

/// Ends the job. A listener of the job may panic then, too; nothing calls it the second time.
fn end(host: &mut CoordinatorHost, now: Time, error: &JobError) -> Vec<CoordinatorCommand> {
    let mut try_end = || {
        let failed = CoordinatorEvent::Failed(error.clone());
        catch_unwind(AssertUnwindSafe(|| host.handle(now, failed)))
    };
    try_end().or_else(|_| try_end()).unwrap_or_default()
}
