//! `gridctl check`: whether the hosts of a grid are ready for a job, and what to do if not.
//!
//! gridctl starts an agent on each host over ssh: itself, with a hidden verb. It asks all agents
//! what they find, and lets them send datagrams to each other, as nodes of a job would.
//!
//! | module | purpose |
//! | --- | --- |
//! | `subject` | the hosts of a grid |
//! | `protocol` | the messages between gridctl and its agents |
//! | `agent`, `machine`, `udp` | the agent: what it finds, and its datagrams |
//! | `session`, `survey` | a conversation with one agent, and with all |
//! | `clock`, `pairs`, `failure` | pure: differences of clocks, pairs of hosts, errors of ssh |
//! | `traffic`, `problems`, `advice`, `finding` | pure: what the answers mean, and what to do |
//! | `rows`, `report`, `json` | the output |

mod advice;
mod agent;
mod clock;
mod failure;
mod finding;
mod json;
mod machine;
mod pairs;
mod problems;
mod protocol;
mod report;
mod rows;
mod session;
mod subject;
mod survey;
mod traffic;
mod udp;

use crate::args::{CheckAgentArgs, CheckArgs};
use crate::digest::hex;
use crate::error::CliError;
use crate::hosts::Hosts;
use crate::program::Program;
use crate::progress::Progress;
use crate::style::Style;
use crate::{grid, output};
use advice::Wanted;
use gridspan::EXIT_FAILED;
use report::Report;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use subject::subjects;
use survey::{Agents, survey};
use traffic::Traffic;

pub(crate) use agent::limit_life;
pub(crate) use failure::Failure;
pub(crate) use protocol::plain;
pub(crate) use session::keep_end;

/// Hidden verb of the agent.
const AGENT: &str = "__check";
/// Shell script for another host. Its arguments are a folder, gridctl, its verb and the program.
/// If gridctl is not there, the shell says whether the program is.
const SCRIPT: &str = "cd \"$1\" 2>/dev/null; shift; [ -x \"$1\" ] && exec \"$@\"; p=false; \
                      [ -x \"$3\" ] && p=true; \
                      echo \"gridctl-check {\\\"say\\\":\\\"missing\\\",\\\"has_program\\\":$p}\"; \
                      exit 127";
/// Number of hexadecimal digits of the text by which datagrams of one check are recognised.
const TOKEN_DIGITS: usize = 32;

/// Checks the hosts of a grid.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, CliError> {
    let program = args.program.as_ref().map(|words| Program::resolve(Some(words))).transpose()?;
    let gridctl = std::env::current_exe().map_err(CliError::system("find gridctl's own path"))?;
    let path = match &program {
        Some(program) => std::path::absolute(program.path()?)
            .map_err(CliError::system("find the program's path"))?,
        None => gridctl.clone(),
    };
    let is_built_in = program.as_ref().is_none_or(Program::is_built_in);
    let wanted = Wanted { program: &path, gridctl: &gridctl, is_built_in };
    let (spec, is_emulated) = grid::of_check(args)?;
    let (hosts, unknown) = match is_emulated {
        true => (Hosts::here(), vec![]),
        false => Hosts::look_up(&spec, args.ssh.as_deref()),
    };
    let subjects = subjects(&spec, &hosts, &unknown, is_emulated);
    let folder = std::env::current_dir().map_err(CliError::system("find this folder"))?;
    let commands = Commands { hosts: &hosts, folder, wanted: &wanted, timeout: args.timeout };
    let token = token();
    let progress = Progress::begin("checking hosts".to_owned(), Some(subjects.len() as u64));
    let found = survey(&Agents {
        subjects: &subjects,
        command: &|host| commands.of(&subjects[host]),
        token: &token,
        timeout: args.timeout,
        on_answer: &|| progress.advance(),
    });
    progress.end();
    let traffic = Traffic::of(&subjects, &found);
    let reference = problems::reference(&machine::program_state(&path), &found);
    let reference = reference.as_deref();
    let findings = problems::problems(&subjects, &found, &traffic, &wanted, reference);
    let report = Report {
        subjects: &subjects,
        found: &found,
        traffic: &traffic,
        reference,
        findings: &findings,
    };
    let text = match args.json {
        true => json::render(&report, &wanted),
        false => report.text(Style::of_stdout().is_coloured),
    };
    let printed = output::print(&text, "print the findings")?;
    Ok(if report.has_errors() { ExitCode::from(EXIT_FAILED) } else { printed })
}

/// Answers `gridctl check` on a host.
pub(crate) fn serve(args: &CheckAgentArgs) -> Result<ExitCode, CliError> {
    let life = limit_life().map_err(CliError::system("start a thread"))?;
    let program = Path::new(&args.program);
    agent::serve(program, io::stdin().lock(), io::stdout().lock(), &life)
        .map_err(CliError::system("answer the check"))?;
    Ok(ExitCode::SUCCESS)
}

/// The data for the commands that start agents.
struct Commands<'a> {
    hosts: &'a Hosts,
    /// The folder in which nodes run, if it exists on their hosts.
    folder: PathBuf,
    wanted: &'a Wanted<'a>,
    timeout: Duration,
}

impl Commands<'_> {
    /// Returns the command of the agent of a host.
    fn of(&self, subject: &subject::Subject) -> Command {
        let Wanted { program, gridctl, .. } = *self.wanted;
        // This limits the time of an `ssh` that outlives this process.
        let seconds = self.timeout.as_secs().max(1);
        let options = ["-o".to_owned(), format!("ConnectTimeout={seconds}")];
        let words =
            [self.folder.as_os_str(), gridctl.as_os_str(), OsStr::new(AGENT), program.as_os_str()];
        self.hosts.script(subject.first, &options, SCRIPT, &words).unwrap_or_else(|| {
            let mut command = Command::new(gridctl);
            command.arg(AGENT).arg(program);
            command
        })
    }
}

/// Returns a text that no other check has. It is no secret, since agents do not answer datagrams.
fn token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format!("{} {}", now.as_nanos(), std::process::id());
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    hex(digest.as_ref()).chars().take(TOKEN_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::MARK;

    /// Runs the script with a folder, gridctl and a program.
    fn run_script(folder: &Path, gridctl: &str, program: &str) -> (Option<i32>, String) {
        let words = ["sh", folder.to_str().unwrap(), gridctl, AGENT, program];
        let output = Command::new("sh").args(["-c", SCRIPT]).args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn the_shell_says_whether_the_program_is_there_if_gridctl_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for (program, is_there) in [("/bin/sh", true), ("/nowhere/job", false)] {
            let (code, text) = run_script(folder.path(), "/nowhere/gridctl", program);
            let expected = format!("{MARK}{{\"say\":\"missing\",\"has_program\":{is_there}}}\n");
            assert_eq!((code, text), (Some(127), expected));
        }
    }

    #[test]
    fn gridctl_begins_in_the_folder_if_it_exists_and_gets_the_verb_and_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (code, text) = run_script(&folder, "/bin/echo", "/opt/my job");
        assert_eq!((code, text.as_str()), (Some(0), "__check /opt/my job\n"));
        let (_, text) = run_script(Path::new("/nowhere"), "/bin/echo", "/opt/job");
        assert_eq!(text, "__check /opt/job\n");
    }

    #[test]
    fn two_checks_have_different_tokens() {
        let first = token();
        assert_eq!(first.len(), TOKEN_DIGITS);
        std::thread::sleep(Duration::from_millis(1));
        assert_ne!(first, token());
    }
}
