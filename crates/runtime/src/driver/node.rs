//! One node: the threads of its PEs and, if the job has other nodes, the driver of its network.

use super::affinity::Affinity;
use super::checkpoints::CheckpointKeeper;
use super::coordinator::CoordinatorDriver;
use super::cores::cores;
use super::inbox::Inbox;
#[cfg(feature = "net")]
use super::net_driver::{Drive, NetDriver};
use super::park::Park;
use super::readings::SwitchReadings;
use super::switch::Switch;
use super::watchdog::Watchdog;
use super::worker::{self, Idle};
use crate::address::id::MAIN_PE;
use crate::coordinator::CoordinatorEvent;
use crate::error::{JobError, StartError};
use crate::job::program::Program;
use crate::pe::{Pe, Records};
use gridspan_topology::{NodeId, PeId, Speed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Scope, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Largest number of PEs in one process. Each is a thread, and systems refuse more than some
/// thousands of threads.
const PES_PER_PROCESS_MAX: u32 = 4096;

/// Checks that one process can run `pes` PEs.
pub(super) fn check_pes(pes: u32) -> Result<(), JobError> {
    if pes <= PES_PER_PROCESS_MAX {
        return Ok(());
    }
    Err(StartError::TooManyPes { pes, limit: PES_PER_PROCESS_MAX }.into())
}

/// Driver of a node's network; it has no values without the feature `net`.
#[cfg(not(feature = "net"))]
pub(super) enum NetDriver {}

/// The error of a job that ends because the thread of a PE has died.
fn died() -> JobError {
    JobError::ThreadLost { thread: "a PE".to_owned(), end: "died".to_owned() }
}

fn cannot_start(error: &std::io::Error) -> JobError {
    StartError::Thread { thread: "a PE".to_owned(), reason: error.to_string() }.into()
}

/// Makes the first PE of a node report to the coordinator that the node is present.
#[cfg(feature = "net")]
fn introduce(machine: &mut Pe, net_driver: &NetDriver, is_guest: bool) {
    if is_guest {
        let contact = net_driver.contact();
        machine.act(Box::new(move |core| core.join(contact)));
    } else {
        machine.greet();
    }
}

#[cfg(not(feature = "net"))]
fn introduce(machine: &mut Pe, _: &NetDriver, _: bool) {
    machine.greet();
}

/// Returns the time from the start of the recording until `begin`, by the clock of the host.
fn recording_offset(records: &Records, begin: Instant) -> Duration {
    let Some(started) = records.settings().started_unix_ns else { return Duration::ZERO };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_start = now.saturating_sub(Duration::from_nanos(started));
    since_start.saturating_sub(begin.elapsed())
}

/// Ends the job on the other PEs of this node, since `dead` does not run, and reports the failure
/// to the coordinator.
fn abandon(switch: &Switch, dead: PeId, error: &JobError) {
    for pe in switch.layout.place(switch.node).pes.clone().map(PeId).filter(|&pe| pe != dead) {
        let error = error.clone();
        switch.inbox(pe).push_action(Box::new(move |core| core.handle_stop(Err(error))));
    }
    if dead == MAIN_PE {
        switch.ending.declare();
    }
    switch.tell_coordinator(CoordinatorEvent::Failed(error.clone()));
}

/// Ends the job if the thread of a PE unwinds.
struct Dying<'a>(&'a Switch, PeId);

impl Drop for Dying<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            abandon(self.0, self.1, &died());
        }
    }
}

/// A running node.
pub(super) struct Node<'scope> {
    pub(super) switch: Arc<Switch>,
    /// The threads of the PEs, or the error with which one could not be started.
    pes: Vec<std::io::Result<ScopedJoinHandle<'scope, Result<(), JobError>>>>,
    net_driver: Option<Arc<NetDriver>>,
    watch: Option<ScopedJoinHandle<'scope, ()>>,
    watchdog: std::io::Result<ScopedJoinHandle<'scope, ()>>,
}

/// Returns a function that wakes a PE's thread where it sleeps: in the socket, or parked.
fn wake(
    thread: Arc<OnceLock<Thread>>,
    _net_driver: Option<&Arc<NetDriver>>,
) -> Box<dyn Fn() + Send + Sync> {
    #[cfg(feature = "net")]
    if let Some(net_driver) = _net_driver {
        let waker = net_driver.waker();
        return Box::new(move || waker.wake());
    }
    Box::new(move || {
        if let Some(thread) = thread.get() {
            thread.unpark();
        }
    })
}

/// Connects a node to the nodes that watch it for losses, and that it watches. A guest connects to
/// all founders. Main's node and that of the coordinator have frames for the others from the start,
/// but leave the dials to them.
#[cfg(feature = "net")]
fn connect(net_driver: &NetDriver, program: &Program, node: NodeId) {
    let layout = program.layout();
    // Nodes watch each other over these connections.
    let watched = [layout.node_of(MAIN_PE), program.coordinator_node()];
    watched.into_iter().filter(|&other| other != node).for_each(|other| net_driver.connect(other));
    let dialling =
        layout.nodes().filter(|other| watched.contains(&node) && !watched.contains(other));
    dialling.for_each(|other| net_driver.await_dial(other));
    // Founders need not know the address of a guest: it connects to them.
    let founders = layout.nodes().filter(|_| layout.is_guest(node));
    founders.for_each(|founder| net_driver.connect(founder));
}

/// Returns the switch of a node, with the inboxes of its PEs, whose clocks begin at `begin`.
fn new_switch(
    (program, keeper): (&Program, CheckpointKeeper),
    node: NodeId,
    _net_driver: Option<&Arc<NetDriver>>,
    inboxes: Vec<Inbox>,
    begin: Instant,
) -> Arc<Switch> {
    #[cfg(not(feature = "net"))]
    let network = None;
    #[cfg(feature = "net")]
    let network =
        _net_driver.cloned().map(|net_driver| net_driver as Arc<dyn super::switch::Network>);
    let limits = program.limits();
    let host = program.coordinator_host(node);
    Switch::new(
        program.layout().clone(),
        node,
        inboxes,
        network,
        program.relay(node),
        CoordinatorDriver::new(host, limits.hard_bytes, begin),
        (limits, keeper, begin, program.records().is_some()),
    )
}

/// Starts the thread of a PE, which `affinity` binds to processors, and sets `thread` to it. If the
/// system refuses the thread, ends the job.
fn start_pe<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (machine, mut idle): (Pe, Box<dyn Idle + Send>),
    (thread, affinity): (Arc<OnceLock<Thread>>, Option<Affinity>),
    switch: &Arc<Switch>,
    pace: (Instant, Speed),
) -> std::io::Result<ScopedJoinHandle<'scope, Result<(), JobError>>> {
    let pe = machine.id();
    // Messages of panics contain the name.
    let named = thread::Builder::new().name(pe.to_string());
    let spawned = named.spawn_scoped(scope, {
        let switch = switch.clone();
        move || {
            affinity.into_iter().for_each(Affinity::apply);
            // Set once, here.
            let _ = thread.set(thread::current());
            let _dying = Dying(&switch, pe);
            worker::run(machine, &switch, pace, &mut *idle)
        }
    });
    if let Err(error) = &spawned {
        abandon(switch, pe, &cannot_start(error));
    }
    spawned
}

impl<'scope> Node<'scope> {
    /// Starts the threads of a node; `speed` is emulated if it is below the ordinary one. This
    /// process runs `nodes_here` nodes of the job.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        (program, keeper): (&Program, CheckpointKeeper),
        node: NodeId,
        net_driver: Option<Arc<NetDriver>>,
        (begin, speed): (Instant, Speed),
        nodes_here: u32,
    ) -> Self {
        #[cfg(feature = "net")]
        net_driver.iter().for_each(|net_driver| connect(net_driver, program, node));
        let layout = program.layout();
        let pes: Vec<PeId> = layout.place(node).pes.clone().map(PeId).collect();
        let spins = layout.pe_count() <= cores() && pes.len() > 1;
        let threads: Vec<_> = pes.iter().map(|_| Arc::new(OnceLock::new())).collect();
        let inboxes = threads.iter().enumerate().map(|(position, thread)| {
            // The first PE sleeps in the socket, if there is one.
            let net_driver = net_driver.as_ref().filter(|_| position == 0);
            Inbox::new(wake(Arc::clone(thread), net_driver))
        });
        let inboxes = inboxes.collect();
        let switch = new_switch((program, keeper), node, net_driver.as_ref(), inboxes, begin);
        let offset = program.records().map(|records| recording_offset(records, begin));
        switch.set_readings(Arc::new(SwitchReadings::new(&switch, nodes_here)));
        if pes.iter().any(|&pe| program.cpus_of(pe).is_some()) {
            switch.set_home(Affinity::of_this_thread());
        }
        let (mut handles, mut views) = (Vec::new(), Vec::new());
        for (&pe, thread) in pes.iter().zip(threads) {
            let mut machine = program.pe(pe);
            views.push(machine.current_handler());
            machine.set_recording_offset(offset.unwrap_or_default());
            if let Some(net_driver) = net_driver.as_ref().filter(|_| pe == pes[0]) {
                introduce(&mut machine, net_driver, layout.is_guest(node));
            }
            let idle: Box<dyn Idle + Send> = Box::new(Park::new(spins, program.spin_limit()));
            #[cfg(feature = "net")]
            let idle: Box<dyn Idle + Send> = match net_driver.as_ref().filter(|_| pe == pes[0]) {
                Some(net_driver) => {
                    Box::new(Drive { net_driver: net_driver.clone(), switch: switch.clone() })
                }
                None => idle,
            };
            let placement = (thread, program.cpus_of(pe).map(Affinity::to));
            handles.push(start_pe(scope, (machine, idle), placement, &switch, (begin, speed)));
        }
        let watch = Self::start_watch(scope, net_driver.as_ref(), &switch);
        let dog = Watchdog::new(views, program.watch().clone(), program.on_failure())
            .asking_for_progress(program.makes_checkpoints());
        let watchdog = thread::Builder::new().name("watchdog".to_owned()).spawn_scoped(scope, {
            let switch = switch.clone();
            move || dog.run(&switch, begin)
        });
        switch.begin_coordinator();
        Self { switch, pes: handles, net_driver, watch, watchdog }
    }

    #[cfg(feature = "net")]
    fn start_watch<'env>(
        scope: &'scope Scope<'scope, 'env>,
        net_driver: Option<&Arc<NetDriver>>,
        switch: &Arc<Switch>,
    ) -> Option<ScopedJoinHandle<'scope, ()>> {
        let (net_driver, failed) = (net_driver?.clone(), switch.clone());
        let switch = switch.clone();
        let spawned = thread::Builder::new()
            .name("watch".to_owned())
            .spawn_scoped(scope, move || net_driver.watch(&switch));
        match spawned {
            Ok(watch) => Some(watch),
            Err(error) => {
                let leader = failed.layout.leader(failed.node);
                failed.inbox(leader).push_action(Box::new({
                    let error = cannot_start(&error);
                    move |core| core.fail(error)
                }));
                None
            }
        }
    }

    #[cfg(not(feature = "net"))]
    fn start_watch<'env>(
        _: &'scope Scope<'scope, 'env>,
        _: Option<&Arc<NetDriver>>,
        _: &Arc<Switch>,
    ) -> Option<ScopedJoinHandle<'scope, ()>> {
        None
    }

    /// Waits until the job is over on this node. Returns the outcome of the first PE.
    pub(super) fn join(self) -> Result<(), JobError> {
        let Self { switch, pes, net_driver: _net_driver, watch, watchdog } = self;
        let mut outcome = Err(StartError::NoPes.into());
        for (position, pe) in pes.into_iter().enumerate() {
            let ended = match pe.map(ScopedJoinHandle::join) {
                Ok(Ok(ended)) => ended,
                Ok(Err(_)) => Err(died()),
                Err(error) => Err(cannot_start(&error)),
            };
            if position == 0 {
                outcome = ended;
            }
        }
        #[cfg(feature = "net")]
        if let Some(net_driver) = _net_driver {
            net_driver.finish(&switch);
        }
        switch.close();
        // A job runs without a watchdog if its thread could not be started.
        if let Ok(watchdog) = watchdog {
            watchdog.thread().unpark();
            // The thread ends by itself and returns nothing.
            let _ = watchdog.join();
        }
        switch.join_threads();
        if let Some(watch) = watch {
            // The thread ends by itself and returns nothing.
            let _ = watch.join();
        }
        outcome
    }
}
