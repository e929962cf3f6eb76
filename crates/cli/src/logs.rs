//! `gridctl logs`: prints the output of a detached job, or that of one of its nodes.

use crate::args::LogsArgs;
use crate::attach;
use crate::error::{CliError, DetachedJobError};
use crate::job_folder::JobFolder;
use crate::launch::LineSplitter;
use crate::log_file::LogReader;
use crate::output::{tell_dropped, write_all};
use gridspan::control::{Control, MARK, OutputDemux, OutputItem};
use gridspan_runtime::net::bootstrap::listening_address;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between reads of the files of the job.
const LOOK: Duration = Duration::from_millis(20);
/// Time for which a followed job may be without a launcher, while another one starts.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the output, and with `--follow` waits for more.
pub(crate) fn run(args: &LogsArgs) -> Result<ExitCode, CliError> {
    let folder = attach::find(args.job.as_deref())?;
    let mut logs = match &args.node {
        None => Logs::of_job(&folder),
        Some(node) => Logs::of_node(&folder, node)?,
    };
    let failed = CliError::system("print the output of the job");
    let mut attended = Instant::now();
    loop {
        // All output precedes the exit code.
        let has_ended = folder.exit_code().is_some();
        logs.print_new().map_err(&failed)?;
        if has_ended || !args.follow {
            logs.finish().map_err(&failed)?;
            return Ok(ExitCode::SUCCESS);
        }
        if folder.is_attended().map_err(CliError::system("follow the job"))? {
            attended = Instant::now();
        } else if attended.elapsed() > PATIENCE {
            logs.finish().map_err(&failed)?;
            let (job, path) = (folder.id.clone(), folder.path().to_owned());
            return Err(DetachedJobError::Unattended { job, path }.into());
        }
        thread::sleep(LOOK);
    }
}

/// The files that are printed.
enum Logs {
    /// The output of the launcher.
    Job(LogReader),
    /// The standard output and the standard error of a node.
    Node { out: LogReader, lines: PlainLines<io::Stdout>, err: LogReader },
}

impl Logs {
    fn of_job(folder: &JobFolder) -> Self {
        Self::Job(LogReader::new(folder.output()))
    }

    fn of_node(folder: &JobFolder, wanted: &str) -> Result<Self, CliError> {
        let nodes = folder.roster().map_err(CliError::system("look for the job"))?.names();
        if !nodes.iter().any(|node| node == wanted) {
            return Err(CliError::UnknownNode { what: "node", name: wanted.to_owned(), nodes });
        }
        let [out, err] =
            folder.streams(wanted).map(|stream| LogReader::new(stream.path().to_owned()));
        let lines = PlainLines::new(io::stdout());
        Ok(Self::Node { out, lines, err })
    }

    /// Prints the output since the last call.
    fn print_new(&mut self) -> io::Result<()> {
        match self {
            Self::Job(output) => output.copy_new(&mut io::stdout().lock(), tell_dropped),
            Self::Node { out, lines, err } => {
                out.copy_new(lines, tell_dropped)?;
                err.copy_new(&mut io::stderr().lock(), tell_dropped)
            }
        }
    }

    /// Prints an unfinished last line.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Job(_) => Ok(()),
            Self::Node { lines, .. } => lines.finish(),
        }
    }
}

/// Passes on lines without the control lines of nodes.
struct PlainLines<W> {
    splitter: LineSplitter,
    demux: OutputDemux,
    to: W,
}

impl<W: Write> PlainLines<W> {
    fn new(to: W) -> Self {
        Self { splitter: LineSplitter::default(), demux: OutputDemux::default(), to }
    }

    fn finish(&mut self) -> io::Result<()> {
        let Self { splitter, demux, to } = self;
        let mut text = vec![];
        let mut on_item = |item: OutputItem<'_>| append(item, &mut text);
        splitter.finish(&mut |line| demux.line(line, &mut on_item));
        demux.pass_on(&mut on_item);
        write_all(to, &text)
    }
}

impl<W: Write> Write for PlainLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { splitter, demux, to } = self;
        let mut text = vec![];
        let mut on_item = |item: OutputItem<'_>| append(item, &mut text);
        splitter.push(bytes, &mut |line| demux.line(line, &mut on_item));
        write_all(to, &text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Appends a line of the program, or a malformed control line, which launchers print as well.
fn append(item: OutputItem<'_>, text: &mut Vec<u8>) {
    let line = match item {
        OutputItem::Control(line) if is_sound(line) => return,
        OutputItem::Control(line) | OutputItem::Line(line) => line,
    };
    text.extend_from_slice(line);
    text.push(b'\n');
}

/// Whether a launcher acts on this control line.
fn is_sound(line: &[u8]) -> bool {
    let is_address = str::from_utf8(line).ok().and_then(listening_address).is_some();
    is_address || Control::parse(&line[MARK.len()..]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_lines_are_left_out() {
        let mut lines = PlainLines::new(vec![]);
        let printed =
            format!("one\n{MARK}\"done\"\n\ntw{MARK}listening 127.0.0.1:1\no\nth{MARK}<\"re\nre");
        let rest = format!("e\n{MARK}>covers\"\nend");
        for piece in printed.as_bytes().chunks(3) {
            lines.write_all(piece).unwrap();
        }
        assert_eq!(lines.to, b"one\n\ntwo\n");
        lines.write_all(rest.as_bytes()).unwrap();
        assert_eq!(lines.to, b"one\n\ntwo\nthree\n");
        lines.finish().unwrap();
        assert_eq!(lines.to, b"one\n\ntwo\nthree\nend\n");
    }

    /// A non-blocking output that is full at every second attempt.
    #[derive(Default)]
    struct Full {
        taken: Vec<u8>,
        is_full: bool,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_full = !self.is_full;
            if self.is_full {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                self.taken.write(bytes)
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_printed_once_to_an_output_that_is_full_for_a_moment() {
        let mut lines = PlainLines::new(Full::default());
        lines.write_all(b"one\ntwo\nth").unwrap();
        lines.finish().unwrap();
        assert_eq!(lines.to.taken, b"one\ntwo\nth\n");
    }

    #[test]
    fn malformed_control_lines_are_printed() {
        let mut lines = PlainLines::new(vec![]);
        let printed = format!("{MARK}nonsense\n{MARK}listening nowhere\n{MARK}\n");
        lines.write_all(printed.as_bytes()).unwrap();
        lines.finish().unwrap();
        assert_eq!(String::from_utf8(lines.to).unwrap(), printed);
    }
}
