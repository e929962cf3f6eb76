//! `gridctl rpc serve`: a daemon that serves functions, or is a registry of servers.

use super::toolbox::Toolbox;
use crate::args::RpcServeArgs;
use crate::error::CliError;
use crate::output::print;
use crate::signals::{exit_code, not_ignored};
use crate::status::folder;
use gridspan::keeper::ProcessId;
use gridspan::variables::cores;
use gridspan_rpc::group::Room;
use gridspan_rpc_net::{DaemonOptions, Role, ServeOptions, Token, serve};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use tokio::sync::oneshot;

/// Serves until a signal requests the end. A second signal ends the process at once.
pub(crate) fn run(args: &RpcServeArgs) -> Result<ExitCode, CliError> {
    let (tell, end) = oneshot::channel();
    let signals = Signals::new(not_ignored(&[SIGINT, SIGTERM, SIGHUP]));
    let mut signals = signals.map_err(CliError::system("watch for signals"))?;
    thread::spawn(move || {
        let mut tell = Some(tell);
        for signal in signals.forever() {
            match tell.take() {
                // The daemon may have ended.
                Some(tell) => drop(tell.send(())),
                None => std::process::exit(exit_code(signal).into()),
            }
        }
    });
    let options = options(args)?;
    let (name, role) = (options.name.clone(), options.role.clone());
    let on_ready = move |address| {
        let line = match &role {
            Role::Member(_) => format!("{name} serves for the registry at {address}\n"),
            Role::Daemon(registry) | Role::Registry(registry) => {
                format!("{name} is at {address}; its token is {}\n", registry.token.display())
            }
        };
        // With the output closed, nothing can be reported.
        let _ = print(&line, "print the address of the registry");
    };
    serve::<Toolbox>(options, end, on_ready)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &RpcServeArgs) -> Result<ServeOptions, CliError> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = args.name.clone().unwrap_or_else(|| format!("{host}-{}", std::process::id()));
    let role = match &args.join {
        Some(token) => Role::Member(Token::read(token)?),
        None => {
            let is_kept = args.token.is_some();
            let token = args.token.clone().map_or_else(own_token, Ok)?;
            let (listen, advertise) = (args.listen, args.advertise);
            let registry = DaemonOptions { listen, advertise, token, is_kept };
            if args.registry { Role::Registry(registry) } else { Role::Daemon(registry) }
        }
    };
    let pes = args.pes.map_or_else(|| cores() as u32, std::num::NonZeroU32::get);
    let mut room = Room::default().with_memory_bytes(args.memory);
    room.folder = args.spill_to.clone();
    Ok(ServeOptions { name, pes, speed: args.speed, room, role })
}

/// Returns the process whose token file has this name, made by [`token_name`]; `None` for other
/// files.
pub(super) fn daemon_of(file: &str) -> Option<ProcessId> {
    let name = file.strip_prefix("registry-")?.strip_suffix(".token")?;
    let (pid, began) = name.split_once('-')?;
    Some(ProcessId { pid: pid.parse().ok()?, began: began.parse().ok()? })
}

/// The name of a daemon's token file. The name also has the time when the daemon began, since
/// another process may get its number later.
fn token_name(daemon: ProcessId) -> String {
    format!("registry-{:010}-{}.token", daemon.pid, daemon.began)
}

/// Returns the path of this process's token, where other processes of the same user look for it.
fn own_token() -> Result<PathBuf, CliError> {
    let folder = folder().map_err(CliError::system("find the folder of this user's jobs"))?;
    let pid = std::process::id();
    // Where the system does not say when a process began, the name has only its number.
    let own = ProcessId::of(pid).unwrap_or(ProcessId { pid, began: 0 });
    Ok(folder.join(token_name(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_names_its_daemon() {
        let daemon = ProcessId { pid: 4711, began: 98765 };
        assert_eq!(daemon_of(&token_name(daemon)), Some(daemon));
        for other in ["registry-4711.token", "registry-x-1.token", "ring-4711.json"] {
            assert_eq!(daemon_of(other), None, "{other}");
        }
    }
}
