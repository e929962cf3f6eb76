//! `gridctl join`: a node that joins a running job, works on its tasks, and leaves on request.

use crate::args::JoinArgs;
use crate::channel;
use crate::error::{CliError, JoinCommandError};
use crate::invitation::Invitation;
use crate::launch::LineSplitter;
use crate::signals;
use crate::status::{self, Status};
use crate::task::Output;
use gridspan::control::{Control, MARK, OutputDemux, OutputItem};
use gridspan_runtime::net::bootstrap::LEAVE;
use gridspan_topology::SiteId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a guest that has lost the nodes of the job waits for another run. After a loss,
/// the nodes that are left may take this long to stop.
const AGAIN_PATIENCE: Duration = Duration::from_secs(120);
/// Time after which gridctl tells the user what it waits for.
const QUIET: Duration = Duration::from_secs(2);
/// Interval between checks for another run.
const LOOK: Duration = Duration::from_millis(100);

/// How a node has ended.
struct Ended {
    code: ExitCode,
    /// Whether it failed, or a signal killed it, although the user had not requested it to leave.
    /// It also fails when the nodes of the job change.
    has_failed: bool,
}

/// Joins a job, and joins it again when the job's nodes have changed, until the job ends or the
/// user wants the node to leave.
pub(crate) fn run(args: &JoinArgs) -> Result<ExitCode, CliError> {
    // Watch signals before a node's process starts, so that its end is noticed.
    let signals = Signals::new(signals::not_ignored(&[SIGINT, SIGTERM, SIGHUP, SIGCHLD]));
    let mut signals = signals.map_err(CliError::system("watch for signals"))?;
    if let Some(path) = &args.invitation {
        let unusable =
            |error| CliError::Join(JoinCommandError::Invitation { path: path.clone(), error });
        let mut invitation = Invitation::read_file(path).map_err(unusable)?;
        if let Some(program) = &args.program {
            invitation = invitation.with_program(program.clone());
        }
        check_program(&invitation)?;
        // Only the process that removes the file may use the invitation.
        fs::remove_file(path).map_err(unusable)?;
        return take_part(invitation, args, &mut signals).map(|ended| ended.code);
    }
    let (id, mut invitation) = accept(args)?;
    loop {
        check_program(&invitation)?;
        let run = invitation.run;
        let ended = take_part(invitation, args, &mut signals)?;
        let next = match ended.has_failed {
            true => await_run(&id, run, args, &mut signals)?,
            false => None,
        };
        let Some(next) = next else { return Ok(ended.code) };
        // With standard error closed, nothing can be reported.
        let _ = writeln!(io::stderr(), "the nodes of {id} have changed; joining it again");
        invitation = next;
    }
}

fn check_program(invitation: &Invitation) -> Result<(), CliError> {
    let path = invitation.program().to_owned();
    match invitation.fits() {
        Ok(true) => Ok(()),
        Ok(false) => Err(JoinCommandError::OtherProgram { path }.into()),
        Err(error) => Err(CliError::Start { path, error }),
    }
}

/// Takes an invitation to a later run of the job at the same site, once there is one; `None` if the
/// job has ended, there is none in time, or the user wants to leave.
fn await_run(
    id: &str,
    run: u32,
    args: &JoinArgs,
    signals: &mut Signals,
) -> Result<Option<Invitation>, CliError> {
    let (began, mut is_told) = (Instant::now(), false);
    while began.elapsed() < AGAIN_PATIENCE && !signals.pending().any(|signal| signal != SIGCHLD) {
        let running = status::running().map_err(CliError::system("look for running jobs"))?;
        let Some(job) = running.iter().find(|status| status.id == id) else { return Ok(None) };
        if let Some(invitation) = invitation_to(job, args, |invitation| invitation.run > run)? {
            return Ok(Some(invitation));
        }
        if began.elapsed() > QUIET && !std::mem::replace(&mut is_told, true) {
            let text = "the node has failed or was lost; it joins again if the job goes on with \
                        other nodes soon";
            // With standard error closed, nothing can be reported.
            let _ = writeln!(io::stderr(), "{text}");
        }
        thread::sleep(LOOK);
    }
    Ok(None)
}

/// Starts the node of an invitation, and attends to it.
fn take_part(
    mut invitation: Invitation,
    args: &JoinArgs,
    signals: &mut Signals,
) -> Result<Ended, CliError> {
    let first = invitation.addresses.0.first().copied();
    invitation.bundle.guest = Some(args.pes.get());
    invitation.bundle.listen =
        first.map(towards).transpose().map_err(CliError::system("find a route to the job"))?;
    let mut command = invitation.command();
    let path = command.get_program().into();
    // The process has its own group: Ctrl-C reaches gridctl, which asks the node to leave.
    command.stdout(Stdio::piped()).process_group(0);
    let (node_end, mut pipe) = channel::open(&mut command, false).map_err(lost)?;
    let mut node = command.spawn().map_err(|error| CliError::Start { path, error })?;
    drop(node_end);
    let pass_on = |stdout: ChildStdout| {
        let mut lines = NodeLines::default();
        let push = move |bytes: &[u8]| {
            lines.push(bytes);
            Ok(())
        };
        Output::start(stdout, push)
    };
    let output = node.stdout.take().map(pass_on).transpose();
    let output = output.map_err(CliError::system("start a thread"))?;
    introduce(&invitation, &mut pipe).map_err(lost)?;
    let ended = attend(&mut node, &mut pipe, signals)?;
    let mut is_stopped = false;
    if let Some(output) = output {
        // The reader of this output may be slow, or read no more.
        output.drain_unless(|| {
            is_stopped |= signals.pending().any(|signal| signal != SIGCHLD);
            is_stopped
        });
    }
    Ok(Ended { has_failed: ended.has_failed && !is_stopped, ..ended })
}

fn lost(error: io::Error) -> CliError {
    CliError::System { what: "exchange data with the node", error }
}

/// Takes an invitation to the requested site of the requested job. Also returns the job's name.
fn accept(args: &JoinArgs) -> Result<(String, Invitation), CliError> {
    let running = status::running().map_err(CliError::system("look for running jobs"))?;
    let job = match &args.job {
        Some(id) => running.iter().find(|status| status.id == *id),
        // The latest job with an invitation left; if there is none, the latest job, which the
        // error names.
        None => {
            let takes_guests = |id: &str| Invitation::are_left(id).unwrap_or_default();
            running.iter().rfind(|status| takes_guests(&status.id)).or(running.last())
        }
    };
    let Some(job) = job else {
        let running = running.into_iter().map(|status| status.id).collect();
        return Err(CliError::NoJob { id: args.job.clone(), running });
    };
    match invitation_to(job, args, |_| true)? {
        Some(invitation) => Ok((job.id.clone(), invitation)),
        None => {
            Err(JoinCommandError::NotInvited { id: job.id.clone(), site: args.site.clone() }.into())
        }
    }
}

/// Takes an invitation to the requested site of a job that `is_wanted` accepts, if there is one.
fn invitation_to(
    job: &Status,
    args: &JoinArgs,
    is_wanted: impl Fn(&Invitation) -> bool,
) -> Result<Option<Invitation>, CliError> {
    let is_there = |invitation: &Invitation| {
        // Each run numbers its nodes and sites.
        let layout = invitation.bundle.spec.layout();
        let site = layout.site_of_node(invitation.bundle.identity.node);
        match &args.site {
            Some(name) => layout.site_name(site) == name,
            None => site == SiteId(0),
        }
    };
    Invitation::take(&job.id, |invitation| is_there(invitation) && is_wanted(invitation))
        .map_err(CliError::system("read the job's invitations"))
}

/// Returns the address at which to listen so that nodes at `address` can answer.
fn towards(address: SocketAddr) -> io::Result<SocketAddr> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // `connect` sends nothing: it only makes the system choose the interface.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok((socket.local_addr()?.ip(), 0).into())
}

fn introduce(invitation: &Invitation, pipe: &mut File) -> io::Result<()> {
    pipe.write_all(invitation.bundle.to_line()?.as_bytes())?;
    pipe.write_all(invitation.addresses.to_line()?.as_bytes())?;
    pipe.flush()
}

/// Prints the lines of the node, and the reason if the job failed.
#[derive(Default)]
struct NodeLines {
    splitter: LineSplitter,
    demux: OutputDemux,
}

impl NodeLines {
    fn push(&mut self, bytes: &[u8]) {
        let Self { splitter, demux } = self;
        splitter.push(bytes, &mut |line| demux.line(line, &mut print));
    }
}

impl Drop for NodeLines {
    /// Prints an unfinished last line.
    fn drop(&mut self) {
        let Self { splitter, demux } = self;
        splitter.finish(&mut |line| demux.line(line, &mut print));
        demux.pass_on(&mut print);
    }
}

fn print(item: OutputItem<'_>) {
    // With the output closed, nothing can be reported.
    let _ = match item {
        OutputItem::Line(line) => io::stdout().write_all(&[line, b"\n"].concat()),
        OutputItem::Control(line) => match Control::parse(&line[MARK.len()..]) {
            Some(Control::Failed(failure)) => writeln!(io::stderr(), "error: {}", failure.message),
            _ => Ok(()),
        },
    };
}

/// Waits for the end of the node. The first signal makes the node leave. A later one kills it,
/// except SIGHUP: when a terminal vanishes, the shell and the system both send SIGHUP.
fn attend(node: &mut Child, pipe: &mut File, signals: &mut Signals) -> Result<Ended, CliError> {
    let mut is_leaving = false;
    for signal in signals.forever() {
        if signal == SIGCHLD {
            if let Some(status) = node.try_wait().map_err(lost)? {
                let has_failed = !status.success() && !is_leaving;
                let code = status
                    .code()
                    .or(status.signal().map(|signal| signals::exit_code(signal).into()));
                let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                return Ok(Ended { code: ExitCode::from(code), has_failed });
            }
        } else if !std::mem::replace(&mut is_leaving, true) {
            // The node may have ended just now.
            let _ = pipe.write_all(LEAVE.as_bytes()).and_then(|()| pipe.flush());
        } else if signal != SIGHUP {
            // The node may have ended just now.
            let _ = node.kill();
        }
    }
    Ok(Ended { code: ExitCode::from(gridspan::EXIT_FAILED), has_failed: false })
}
