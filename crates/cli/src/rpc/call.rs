//! `gridctl rpc ls` and `gridctl rpc call`: requests of a client to a registry.

use super::serve::daemon_of;
use crate::args::{RpcCallArgs, RpcListArgs};
use crate::error::{CliError, RpcCommandError};
use crate::output::print;
use crate::quantity::{UNKNOWN, bandwidth, milliseconds};
use crate::status::folder;
use crate::style::Style;
use crate::table::{Align, Table};
use gridspan::keeper::ProcessId;
use gridspan_rpc_net::{Client, ListedServer, Token};
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Size in bytes of the largest text that a registry accepts.
const ARGUMENTS_BYTES_MAX: u64 = 256 << 20;
/// Name of standard input in errors.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Lists the servers of a registry.
pub(crate) fn list(args: &RpcListArgs) -> Result<ExitCode, CliError> {
    let servers = visit(args.token.as_deref(), async |client| client.list().await)?;
    let text = match args.json {
        true => {
            let text = serde_json::to_string_pretty(&servers);
            let text = text.map_err(|error| CliError::system("write JSON")(error.into()))?;
            format!("{text}\n")
        }
        false => format!("{}{}", table(&servers), links(&servers)),
    };
    print(&text, "print the servers")
}

fn table(servers: &[ListedServer]) -> String {
    let titles = ["server", "speed", "calls", "load", "functions"].map(str::to_owned);
    let align = |column| if (1..4).contains(&column) { Align::Right } else { Align::Left };
    let mut table = Table::new(titles.into(), align);
    for ListedServer { card, calls, load_s, .. } in servers {
        let functions: Vec<&str> = card.functions.keys().map(String::as_str).collect();
        table.row(vec![
            card.name.clone(),
            card.speed.to_string(),
            calls.to_string(),
            format!("{load_s:.1} s"),
            functions.join(" "),
        ]);
    }
    table.render(Style::of_stdout().is_coloured)
}

/// Renders the known links between servers; empty if none is known.
fn links(servers: &[ListedServer]) -> String {
    let titles = ["from", "to", "latency (ms)", "bandwidth"].map(str::to_owned);
    let align = |column| if column < 2 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into(), align);
    let name = |number: u32| {
        let found = servers.iter().find(|listed| listed.card.number == number);
        found.map(|listed| listed.card.name.clone())
    };
    let mut is_empty = true;
    for listed in servers {
        for (from, link) in &listed.links {
            let Some(from) = name(*from) else { continue };
            let rate = link.bandwidth.map_or_else(|| UNKNOWN.to_owned(), bandwidth);
            let latency = milliseconds(link.latency.duration());
            table.row(vec![from, listed.card.name.clone(), latency, rate]);
            is_empty = false;
        }
    }
    match is_empty {
        true => String::new(),
        false => format!("\n{}", table.render(Style::of_stdout().is_coloured)),
    }
}

/// Calls a function, and prints its results.
pub(crate) fn call(args: &RpcCallArgs) -> Result<ExitCode, CliError> {
    let RpcCallArgs { function, arguments, token, timeout } = args;
    let arguments = &text(arguments)?;
    let called =
        visit(token.as_deref(), async |client| client.call(function, arguments, *timeout).await)?;
    print(&format!("{}\n", called?), "print the results")
}

/// Returns the arguments themselves, or the content of the file that they name: `@FILE`, or `@-`
/// for standard input. No JSON starts with `@`.
fn text(arguments: &str) -> Result<String, CliError> {
    let Some(path) = arguments.strip_prefix('@') else { return Ok(arguments.to_owned()) };
    if path == "-" {
        // Standard input cannot be opened by its path if it is a socket, as in a session of `sshd`.
        return content(Ok(io::stdin()), Path::new(STANDARD_INPUT), ARGUMENTS_BYTES_MAX);
    }
    let path = Path::new(path);
    content(fs::File::open(path), path, ARGUMENTS_BYTES_MAX)
}

/// Reads arguments of at most this many bytes. `path`: the name of the input in errors.
fn content(from: io::Result<impl Read>, path: &Path, bytes_max: u64) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    // At most one byte more than a registry accepts is read, because the input may be endless.
    let read = from.and_then(|from| from.take(bytes_max + 1).read_to_end(&mut bytes));
    read.map_err(|error| CliError::Read { path: path.to_owned(), error })?;
    let refused =
        |reason| CliError::Rpc(RpcCommandError::CallArguments { path: path.to_owned(), reason });
    if bytes.len() as u64 > bytes_max {
        return Err(refused(format!("they have more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| refused("they are not text in UTF-8".to_owned()))
}

/// Sends a request to the registry of a token, or to the daemon that this user started last.
pub(super) fn visit<T, E>(
    token: Option<&Path>,
    request_response: impl AsyncFnOnce(&Client) -> Result<T, E>,
) -> Result<T, CliError>
where
    CliError: From<E>,
{
    let token = match token {
        Some(path) => Token::read(path)?,
        None => Token::read(&latest()?)?,
    };
    // One thread serves the network while another writes and reads long texts, because a client
    // that sends nothing for long is considered lost.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(CliError::system("start the network threads"))?;
    runtime.block_on(async {
        let client = Client::new(token)?;
        let asked = request_response(&client).await;
        client.leave().await;
        Ok(asked?)
    })
}

/// Returns the path of the token that this user's latest daemon has written. Removes tokens of
/// daemons that no longer exist.
fn latest() -> Result<PathBuf, CliError> {
    let find = || -> io::Result<Option<PathBuf>> {
        let mut found: Option<(SystemTime, PathBuf)> = None;
        for entry in fs::read_dir(folder()?)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(daemon) = name.to_str().and_then(daemon_of) else { continue };
            if !is_there(daemon) {
                // The daemon was killed, and could not remove its token.
                let _ = fs::remove_file(entry.path());
                continue;
            }
            // The daemon may have ended since.
            let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) else {
                continue;
            };
            let candidate = (written, entry.path());
            if found.as_ref().is_none_or(|found| *found < candidate) {
                found = Some(candidate);
            }
        }
        Ok(found.map(|(_, path)| path))
    };
    let found = find().map_err(CliError::system("look for this user's daemons"))?;
    found.ok_or(CliError::Rpc(RpcCommandError::NoRegistry))
}

/// Whether a daemon runs. Where the system does not say when processes began, any process with its
/// number that this user may signal counts as the daemon.
fn is_there(daemon: ProcessId) -> bool {
    if ProcessId::of(daemon.pid).is_some() {
        return daemon.is_running();
    }
    let pid = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn arguments_in_a_file_are_text_of_limited_length() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |path: &Path| content(fs::File::open(path), path, 6);
        let wrong = |bytes: &[u8]| {
            fs::write(file.path(), bytes).unwrap();
            let error = of(file.path()).unwrap_err();
            let hint = error.hint().unwrap();
            assert!(hint.contains("arguments are JSON"), "{hint}");
            error.to_string()
        };

        assert!(wrong(b"[1, 2]\xff").ends_with(": they have more than 6 bytes"));
        assert!(wrong(b"[\xff]").ends_with(": they are not text in UTF-8"));
        fs::write(file.path(), "[1, 2]").unwrap();
        assert_eq!(of(file.path()).unwrap(), "[1, 2]");
        let missing = of(&file.path().with_extension("none")).unwrap_err();
        assert_eq!(missing.hint().as_deref(), Some("check the path"));
    }

    #[test]
    fn standard_input_may_be_a_socket() {
        let (own, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"[1, 2]").unwrap();
        drop(other);
        assert_eq!(content(Ok(own), Path::new(STANDARD_INPUT), 6).unwrap(), "[1, 2]");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_process_with_the_number_of_a_daemon_is_not_the_daemon() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert!(is_there(own));
        assert!(!is_there(ProcessId { began: own.began + 1, ..own }));
    }
}
