//! `gridctl join`: a node that joins a running job, works on its tasks, and leaves on request.

use crate::args::JoinArgs;
use crate::channel;
use crate::error::CliError;
use crate::invitation::Invitation;
use crate::signals;
use crate::status;
use gridspan::control::{Control, MARK};
use gridspan_runtime::net::bootstrap::LEAVE;
use gridspan_topology::SiteId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitCode, Stdio};
use std::thread;

/// Joins a job and waits for the end of the node.
pub(crate) fn run(args: &JoinArgs) -> Result<ExitCode, CliError> {
    let mut invitation = match &args.invitation {
        Some(path) => Invitation::read_file(path)
            .map_err(|error| CliError::Invitation { path: path.clone(), error })?,
        None => accept(args)?,
    };
    if let Some(program) = &args.program {
        invitation = invitation.with_program(program.clone());
    }
    let path = invitation.program().to_owned();
    match invitation.fits() {
        Ok(true) => {}
        Ok(false) => return Err(CliError::OtherProgram { path }),
        Err(error) => return Err(CliError::Start { path, error }),
    }
    if let Some(path) = &args.invitation {
        // Only the process that removes the file may use the invitation.
        fs::remove_file(path)
            .map_err(|error| CliError::Invitation { path: path.clone(), error })?;
    }
    let first = invitation.addresses.0.first().copied();
    invitation.bundle.guest = Some(args.pes.get());
    invitation.bundle.listen =
        first.map(towards).transpose().map_err(CliError::system("find a route to the job"))?;
    // Signals are watched before the node's process starts, so that its end is not missed.
    let signals = Signals::new(signals::not_ignored(&[SIGINT, SIGTERM, SIGHUP, SIGCHLD]));
    let mut signals = signals.map_err(CliError::system("watch for signals"))?;
    let mut command = invitation.command();
    let path = command.get_program().into();
    // The process has its own group: Ctrl-C reaches gridctl, which asks the node to leave.
    command.stdout(Stdio::piped()).process_group(0);
    let (node_end, mut pipe) = channel::open(&mut command, false).map_err(lost)?;
    let mut node = command.spawn().map_err(|error| CliError::Start { path, error })?;
    drop(node_end);
    if let Some(stdout) = node.stdout.take() {
        thread::spawn(move || pass_on(BufReader::new(stdout)));
    }
    introduce(&invitation, &mut pipe).map_err(lost)?;
    attend(&mut node, &mut pipe, &mut signals)
}

fn lost(error: io::Error) -> CliError {
    CliError::System { what: "exchange data with the node", error }
}

/// Takes an invitation to the requested site of the requested job.
fn accept(args: &JoinArgs) -> Result<Invitation, CliError> {
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
    let site = args.site.as_ref().map_or(Some(SiteId(0)), |name| job.grid.site_named(name));
    let is_there = |invitation: &Invitation| {
        let node = invitation.bundle.identity.node;
        Some(job.grid.layout().site_of_node(node)) == site
    };
    let taken = Invitation::take(&job.id, is_there);
    let taken = taken.map_err(CliError::system("read the job's invitations"))?;
    taken.ok_or_else(|| CliError::NotInvited { id: job.id.clone(), site: args.site.clone() })
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

/// Prints the node's output, and the reason if the job failed.
fn pass_on(from: impl BufRead) {
    for line in from.split(b'\n').map_while(Result::ok) {
        let mark = line.strip_prefix(MARK.as_bytes());
        // With the output closed, nothing can be reported.
        let _ = match mark.map(Control::parse) {
            None => io::stdout().write_all(&[&line[..], b"\n"].concat()),
            Some(Some(Control::Failed(failure))) => {
                writeln!(io::stderr(), "error: {}", failure.message)
            }
            Some(_) => Ok(()),
        };
    }
}

/// Waits for the end of the node. The first signal makes it leave, the second kills it.
fn attend(node: &mut Child, pipe: &mut File, signals: &mut Signals) -> Result<ExitCode, CliError> {
    let mut is_leaving = false;
    for signal in signals.forever() {
        if signal == SIGCHLD {
            if let Some(status) = node.try_wait().map_err(lost)? {
                let code = status.code().or(status.signal().map(|signal| 128 + signal));
                return Ok(ExitCode::from(
                    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
                ));
            }
        } else if std::mem::replace(&mut is_leaving, true) {
            // The node may have ended just now.
            let _ = node.kill();
        } else {
            // The node may have ended just now.
            let _ = pipe.write_all(LEAVE.as_bytes()).and_then(|()| pipe.flush());
        }
    }
    Ok(ExitCode::from(gridspan::EXIT_FAILED))
}
