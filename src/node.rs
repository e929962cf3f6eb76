//! One node of a job that a launcher started: it receives its identity, takes part in the job, and
//! ends with it.
//!
//! # Failure
//!
//! If the job can continue from checkpoints, SIGTERM makes this node leave it: the launcher lets
//! the job go on without the node, and then lets the node end. A second SIGTERM ends it at once.
//!
//! The end of the input from the launcher ends the process. If the process hangs, the kernel kills
//! it on Linux when the launcher's thread that started it ends. Once it has its bundle, the node of
//! a detached job outlives its launcher: it reads from a named pipe, which does not end, so that
//! another launcher can attend to it. If it needs a launcher to go on after a loss, it waits for
//! [`LAUNCHER_PATIENCE`]. If the job has several hosts, a bridge starts the node, and acts as its
//! launcher (see [`keeper`]).

use crate::binding;
use crate::build::{build, host};
use crate::control::{self, Control, ControlOutput, Failure, Holdings, Pause};
use crate::input::ForwardedInput;
use crate::keeper;
use crate::outcome::{EXIT_FAILED, EXIT_USAGE, complain, conclude};
use crate::settings::Settings;
use crate::variables::{DETACHED, LAUNCHER};
use gridspan_runtime::driver::{CheckpointKeeper, NodeHandle, cluster};
use gridspan_runtime::net::bootstrap::{
    self, BootstrapError, Joined, LauncherLines, LauncherRequest, LossNotice, NodeBundle,
    PauseOrder, SampleOrder,
};
use gridspan_runtime::pe::Records;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, JobError, NodeId, Warning};
use serde::Deserialize;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Whether this process is or was a node of a job.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Time for which the node of a detached job waits for a launcher.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(3600);

/// Advice for a process that cannot be a node.
const NO_NODE: &str = "`gridctl run` starts nodes; unset GRIDSPAN_DRIVER otherwise";

/// Runs this process's part of the job.
pub(crate) fn run(job: Job) -> ExitCode {
    if HAS_BEGUN.swap(true, Ordering::SeqCst) {
        // The launcher sends addresses and settings of one job only.
        complain(
            "this process is a node of one job, and cannot run a second one",
            "call `gridspan::main` once, or run further jobs with `gridspan::run` and `Driver::Embedded`",
        );
        return ExitCode::from(EXIT_FAILED);
    }
    let kind = begin();
    let launcher = match launcher() {
        Ok(launcher) if kind == Kind::Bridge => return keeper::run(launcher),
        Ok(launcher) => BufReader::new(launcher),
        Err(error) => {
            complain(&format!("cannot read from the launcher: {error}"), NO_NODE);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let handle = Handle::default();
    let is_restartable = job.again().is_some();
    let mut lines = match listen(launcher, &handle, kind, is_restartable) {
        Ok(lines) => lines,
        Err(error) => {
            complain(&format!("cannot listen to the launcher: {error}"), NO_NODE);
            return ExitCode::from(EXIT_FAILED);
        }
    };
    let nothing = || Holdings::new(Vec::new(), is_restartable);
    let joined = match join(&mut lines, &handle, nothing) {
        Ok(joined) => joined,
        Err(error) => return refuse(error),
    };
    let has_ended = {
        let mut shared = lock(&handle);
        (shared.has_joined, shared.patience) = (true, None);
        shared.has_ended
    };
    if has_ended {
        end_with_launcher();
    }
    let mut settings = match settings(&joined.bundle.settings) {
        Ok(settings) => settings,
        Err(error) => {
            let error = format!("the launcher sent invalid settings: {error}");
            return conclude(Err(JobError::Protocol(error)), joined.bundle.spec.layout(), true);
        }
    };
    let job = prepare(job, &joined, &mut settings, is_restartable);
    run_joined(control::telling(job), joined, &settings, (lines, handle))
}

/// Begins to listen to the launcher.
fn listen(
    launcher: impl BufRead + Send + 'static,
    handle: &Handle,
    kind: Kind,
    is_restartable: bool,
) -> io::Result<LauncherLines> {
    let is_detached = kind == Kind::Detached;
    if is_detached {
        lock(handle).is_detached = true;
        await_launcher(handle);
    }
    let mut lines = watch(launcher, handle.clone(), is_restartable)?;
    if is_detached {
        // The launcher saves the id of this process before it writes the first line. That line
        // stays in the buffer, and is read to join the job.
        let _ = lines.fill_buf();
        live_without_launcher();
    }
    Ok(lines)
}

/// Applies the launcher's settings to the job, and decides whether this node recovers from a loss
/// of others.
fn prepare(job: Job, joined: &Joined, settings: &mut Settings, is_restartable: bool) -> Job {
    let mut job = settings.apply(job).origin(build(), host());
    let is_open = settings.recovers.is_none();
    let is_wanted = settings.recovers.unwrap_or(job.makes_checkpoints());
    let recovers = is_wanted && joined.bundle.guest.is_none() && (is_restartable || !is_open);
    if recovers && is_open {
        // Each node sends this, since a node may be lost before the launcher reads its line.
        Control::Recovers.tell();
    }
    if is_wanted && !is_restartable && joined.bundle.identity.node == NodeId(0) {
        Control::Warning(Warning::NotRestartable).tell();
    }
    if recovers && !job.makes_checkpoints() {
        job = job.checkpoints(Checkpoints::every(CheckpointEvery::Auto));
    }
    settings.recovers = Some(recovers);
    match settings.repeats_tasks {
        Some(true) if recovers && job.has_tasks() => {
            // Each node sends this, too.
            Control::RepeatsTasks.tell();
            job = job.recover_tasks_locally(true);
        }
        // The user has overruled the program.
        Some(false) => job = job.recover_tasks_locally(false),
        _ => {}
    }
    if is_restartable && joined.bundle.guest.is_none() {
        leave_at_sigterm();
    }
    job
}

/// Answers requests of the launcher about a job on threads of this process, if the launcher has
/// opened a channel. Returns a function that takes the handle of the job once it runs.
pub(crate) fn answer_launcher() -> impl FnOnce(NodeHandle) {
    // A program may run several jobs, one after the other. One thread reads the channel.
    static OF_PRESENT_JOB: OnceLock<Handle> = OnceLock::new();
    let begin = || {
        let handle = Handle::default();
        // Without a channel, the standard input is the program's own.
        if std::env::var_os(LAUNCHER).is_some() {
            let lines = launcher().map(BufReader::new);
            let watched = lines.and_then(|lines| watch(lines, handle.clone(), false));
            if let Err(error) = watched {
                let reason = format!("the launcher cannot ask this job: {error}");
                Control::Warning(Warning::Process { reason }).tell();
            }
        }
        handle
    };
    let handle = OF_PRESENT_JOB.get_or_init(begin);
    move |node| lock(handle).node = Some(node)
}

/// The role of this process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A node that ends with its launcher.
    Attached,
    /// A node that goes on when its launcher has ended.
    Detached,
    /// A bridge to such a node.
    Bridge,
}

/// Returns the role of this process. Until a node has its bundle, it ends with the process that
/// started it.
fn begin() -> Kind {
    let detached = std::env::var(DETACHED).ok().filter(|value| !value.is_empty());
    if detached.as_deref() == Some(keeper::BRIDGE) {
        return Kind::Bridge;
    }
    die_with_launcher();
    let Some(parent) = detached else { return Kind::Attached };
    if parent.parse().is_ok_and(|parent: u32| parent != parent_id()) {
        // The launcher ended before the kernel was asked to end this process with it.
        end_with_launcher();
    }
    // It fails if gridctl has started this process as the leader of a group.
    let _ = rustix::process::setsid();
    Kind::Detached
}

/// Waits until the launcher has sent the bundle of this node and the addresses of all nodes. If the
/// launcher asks, tells it which parts of checkpoints this process has.
fn join(
    lines: &mut LauncherLines,
    handle: &Handle,
    holdings: impl Fn() -> Holdings,
) -> Result<Joined, BootstrapError> {
    loop {
        match bootstrap::join(lines, &mut ControlOutput) {
            Err(BootstrapError::Again) => {
                lock(handle).must_stop = false;
                Control::Holds(holdings()).tell();
            }
            other => return other,
        }
    }
}

/// Takes part in the job, and again after each loss of other nodes. Then sends the records to the
/// launcher.
fn run_joined(
    job: Job,
    joined: Joined,
    settings: &Settings,
    (lines, handle): (LauncherLines, Handle),
) -> ExitCode {
    let records = settings.record.clone().map(Records::new);
    control::tell_build(records.as_ref());
    control::tell_processors(records.as_ref());
    let code = run_again(job, joined, (settings, records.as_ref()), (lines, handle));
    control::tell_records(records.as_ref());
    code
}

/// Takes part in the runs of the job until it ends.
fn run_again(
    mut job: Job,
    mut joined: Joined,
    (settings, records): (&Settings, Option<&Records>),
    (mut lines, handle): (LauncherLines, Handle),
) -> ExitCode {
    // Guests have no actors.
    let keeper = match joined.bundle.guest {
        Some(_) => Ok(CheckpointKeeper::default()),
        None => CheckpointKeeper::new(&job, joined.bundle.restore.is_some()),
    };
    let keeper = match keeper {
        Ok(keeper) => keeper,
        Err(error) => return conclude(Err(error.into()), joined.bundle.spec.layout(), true),
    };
    loop {
        let (again, checkpoints) = (job.again(), job.checkpoint_settings());
        let layout = joined.bundle.spec.layout().clone();
        let outcome = run_once(job, joined, keeper.clone(), records, &handle);
        let is_loss =
            matches!(outcome, Err(JobError::NodeLost { .. })) && settings.recovers.unwrap_or(false);
        if !is_loss && !matches!(outcome, Err(JobError::Recovering)) {
            if outcome.is_ok() && lock(&handle).is_detached {
                Control::Done.tell();
            }
            return conclude(outcome, &layout, true);
        }
        if let Err(error @ JobError::NodeLost { .. }) = outcome {
            Control::Failed(Failure::of(&error, &layout)).tell();
        }
        let is_restartable = again.is_some();
        let holdings = || Holdings {
            settings: Some(checkpoints),
            ..Holdings::new(keeper.holdings(), is_restartable)
        };
        await_launcher(&handle);
        joined = match join(&mut lines, &handle, holdings) {
            Ok(joined) => joined,
            Err(error) => return refuse(error),
        };
        lock(&handle).patience = None;
        match again {
            Some(again) => job = again,
            None => return conclude(Err(JobError::Recovering), &layout, true),
        }
    }
}

/// Takes part in one run of the job.
fn run_once(
    job: Job,
    joined: Joined,
    keeper: CheckpointKeeper,
    records: Option<&Records>,
    handle: &Handle,
) -> Result<(), JobError> {
    let keeper = match joined.bundle.identity.node {
        NodeId(0) => telling_pauses(keeper, handle),
        _ => keeper,
    };
    let layout = joined.bundle.spec.layout().clone();
    let mut told = job.on_failure(move |error| {
        Control::Failed(Failure::of(error, &layout)).tell();
    });
    if let Some(records) = records {
        // A node's number may differ between runs.
        let of_run = settings(&joined.bundle.settings).ok().and_then(|it| it.record);
        let of_run = of_run.unwrap_or_else(|| records.settings().clone());
        told = told.recording(&records.of_run(of_run));
        told = control::telling_broadcasts(told, Some(records));
    }
    let told = bound(told, &joined.bundle);
    let outcome = cluster::run_keeping(told, joined, keeper, |begun| {
        let mut handle = lock(handle);
        if handle.must_stop {
            begun.stop_to_recover();
        }
        if let Some(order) = handle.must_pause.take() {
            handle.pause(&begun, order);
        }
        for LossNotice { node, reason } in std::mem::take(&mut handle.losses) {
            begun.report_lost(node, reason);
        }
        handle.node = Some(begun);
    });
    lock(handle).node = None;
    outcome
}

/// Binds the PEs of this node, if the launcher requests it. If they cannot be bound, the first node
/// of each host warns: all its nodes have the same problem.
fn bound(job: Job, bundle: &NodeBundle) -> Job {
    // The nodes of the host may differ between runs.
    let Ok(settings) = settings(&bundle.settings) else { return job };
    // A guest may share its host with other programs.
    let Some(share) = settings.host_share.filter(|_| bundle.guest.is_none()) else { return job };
    let pes = bundle.spec.layout().place(bundle.identity.node).pes.clone();
    let (job, unbound) = binding::bind(job, settings.bind, pes, share);
    if let Some(error) = unbound.filter(|_| share.before == 0) {
        Control::Warning(Warning::NotBound { reason: error.to_string() }).tell();
    }
    job
}

/// Reports why this process cannot join a job.
fn refuse(error: BootstrapError) -> ExitCode {
    match error {
        BootstrapError::Left => ExitCode::SUCCESS,
        BootstrapError::Port(error) => {
            let hint = "set another `port` for the site in the grid file";
            let mut failure = Failure::new(&error.to_string(), Some(hint), None);
            failure.is_port_taken = error.source.kind() == io::ErrorKind::AddrInUse;
            Control::Failed(failure).tell();
            ExitCode::from(EXIT_FAILED)
        }
        error => {
            complain(&error.to_string(), NO_NODE);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// On Linux, makes the kernel kill this process when the thread that started it has ended.
pub(crate) fn die_with_launcher() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // If that fails, the end of the launcher's input still ends the process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// Undoes [`die_with_launcher`].
fn live_without_launcher() {
    #[cfg(target_os = "linux")]
    {
        // If that fails, the node ends with its launcher.
        let _ = rustix::process::set_parent_process_death_signal(None);
    }
}

/// Ends the node of a detached job after [`LAUNCHER_PATIENCE`], unless a launcher makes it join the
/// job, or its next run, before.
fn await_launcher(handle: &Handle) {
    let mut shared = lock(handle);
    if !shared.is_detached {
        return;
    }
    let (attended, waits) = channel();
    shared.patience = Some(attended);
    drop(shared);
    let wait = move || {
        if waits.recv_timeout(LAUNCHER_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            complain("no launcher attended to this node", "`gridctl attach` starts one");
            std::process::exit(i32::from(EXIT_FAILED));
        }
    };
    // If the thread cannot start, the node waits without a limit.
    let _ = thread::Builder::new().name("patience".to_owned()).spawn(wait);
}

/// Opens the input from the launcher.
fn launcher() -> io::Result<Box<dyn Read + Send>> {
    let Some(descriptor) = std::env::var_os(LAUNCHER) else { return Ok(Box::new(io::stdin())) };
    let number = descriptor.to_str().and_then(|text| text.parse::<u16>().ok());
    let number = number.ok_or_else(|| io::Error::other(format!("{LAUNCHER} is not a number")))?;
    Ok(Box::new(File::open(format!("/dev/fd/{number}"))?))
}

/// What the thread that listens to the launcher shares with the node.
#[derive(Default)]
struct Shared {
    /// The handle of the node, while it runs.
    node: Option<NodeHandle>,
    /// Whether the node has joined the first run of the job.
    has_joined: bool,
    /// Whether the input from the launcher has ended.
    has_ended: bool,
    /// Whether the node goes on when its launcher has ended.
    is_detached: bool,
    /// Dropped when the node need not wait for a launcher any longer.
    patience: Option<Sender<()>>,
    /// Whether the launcher has requested a recovery that no run of the node has noticed.
    must_stop: bool,
    /// The order to stop the job after a checkpoint, if it came before the node ran.
    must_pause: Option<PauseOrder>,
    /// The losses that the launcher reported before the node ran.
    losses: Vec<LossNotice>,
    /// Number of the last order to the present run to stop after a checkpoint.
    pause_order: Arc<AtomicU64>,
}

impl Shared {
    fn pause(&self, node: &NodeHandle, order: PauseOrder) {
        self.pause_order.store(order.number, Ordering::SeqCst);
        node.pause(order, refuse_change);
    }
}

/// Makes the keeper tell the launcher when the next run has stopped after a checkpoint.
fn telling_pauses(keeper: CheckpointKeeper, handle: &Handle) -> CheckpointKeeper {
    // A late report of an earlier run has the number of that run's order.
    let number = Arc::<AtomicU64>::default();
    lock(handle).pause_order = number.clone();
    let handle = handle.clone();
    keeper.on_pause(move |checkpoint, error| {
        let order = number.load(Ordering::SeqCst);
        await_launcher(&handle);
        Control::Paused(Pause { order, checkpoint, error }).tell();
    })
}

type Handle = Arc<Mutex<Shared>>;

fn lock(handle: &Handle) -> MutexGuard<'_, Shared> {
    handle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process when the input from the launcher ends, and carries out requests of the
/// launcher. Returns the launcher's other lines.
fn watch(
    launcher: impl BufRead + Send + 'static,
    handle: Handle,
    is_restartable: bool,
) -> io::Result<LauncherLines> {
    let at_end = handle.clone();
    let mut input = ForwardedInput::default();
    let on_request = move |request| {
        if let LauncherRequest::Input(text) = &request {
            return input.handle(text);
        }
        if let LauncherRequest::Diagnose(number) = request {
            let node = lock(&handle).node.clone();
            return diagnose(node.as_ref(), number);
        }
        if let LauncherRequest::Sample(order) = request {
            let node = lock(&handle).node.clone();
            return tell_sample(node.as_ref(), order);
        }
        let mut handle = lock(&handle);
        if request == LauncherRequest::Recover {
            (handle.must_stop, handle.must_pause) = (true, None);
            handle.losses.clear();
        }
        match (&handle.node, request) {
            (_, LauncherRequest::Pause(order)) if !is_restartable && !order.is_end => {
                let reason = "its main cannot begin again; define it by `restartable_main`";
                refuse_change(reason.to_owned());
            }
            (Some(node), LauncherRequest::Pause(order)) => handle.pause(node, order),
            (None, LauncherRequest::Pause(order)) => handle.must_pause = Some(order),
            (Some(node), LauncherRequest::Leave) => node.leave(),
            (Some(node), LauncherRequest::Recover) => node.stop_to_recover(),
            (None, LauncherRequest::Leave | LauncherRequest::Recover) => {}
            (Some(node), LauncherRequest::Lost(lost)) => node.report_lost(lost.node, lost.reason),
            (None, LauncherRequest::Lost(lost)) => handle.losses.push(lost),
            (_, LauncherRequest::Diagnose(_)) => {}
            (_, LauncherRequest::Sample(_)) => {}
            (_, LauncherRequest::Input(_)) => {}
        }
    };
    bootstrap::watch_launcher(launcher, on_request, move || {
        let has_joined = {
            let mut shared = lock(&at_end);
            shared.has_ended = true;
            shared.has_joined
        };
        // A process that has not joined fails to join, and then ends.
        if has_joined {
            end_with_launcher();
        }
    })
}

/// Takes part in a diagnosis of the job, and tells the launcher that this process runs. Does not
/// need the threads of PEs.
fn diagnose(node: Option<&NodeHandle>, number: u64) {
    let silent = node.map(|node| node.diagnose(number)).unwrap_or_default();
    let silent = silent.into_iter().map(|(node, time)| (node, time.as_secs())).collect();
    Control::Awake { number, silent }.tell();
}

/// Sends the latest sample of the counters to the launcher. Does not need the threads of PEs.
fn tell_sample(node: Option<&NodeHandle>, SampleOrder { number, lease }: SampleOrder) {
    let sample = node.and_then(|node| node.sample(lease)).map(Box::new);
    Control::Sampled { number, sample }.tell();
}

/// Tells the launcher that the nodes of the job cannot change.
fn refuse_change(reason: String) {
    Control::Unchangeable(reason).tell();
}

/// Makes the first SIGTERM request the launcher to let this node leave the job, and the second one
/// end the process.
fn leave_at_sigterm() {
    let begin = || {
        let mut signals = Signals::new([SIGTERM])?;
        let wait = move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                Control::Leaving.tell();
            }
            if signals.next().is_some() {
                // It fails only for signals that do not exist.
                let _ = signal_hook::low_level::emulate_default_handler(SIGTERM);
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
    };
    if let Err(error) = begin() {
        let reason = format!("SIGTERM ends this node at once: {error}");
        Control::Warning(Warning::Process { reason }).tell();
    }
}

/// Ends this process, since the launcher has ended.
fn end_with_launcher() -> ! {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "the launcher has ended; this node ends too");
    std::process::exit(i32::from(EXIT_FAILED));
}

fn settings(value: &serde_json::Value) -> Result<Settings, serde_json::Error> {
    if value.is_null() {
        return Ok(Settings::default());
    }
    Settings::deserialize(value)
}
