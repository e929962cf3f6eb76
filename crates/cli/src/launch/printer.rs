//! Prints reports: for people, whole lines with the prefix `site/node│`; for scripts, JSON.

use super::ending_summary::EndingSummary;
use super::event::Event;
use super::node_logs::NodeLogs;
use super::queue::Queue;
use super::report::{AddedNode, FirstFailure, Report, Stream};
use crate::log_file::LogLimit;
use crate::output::write_all;
use crate::progress::{Progress, SIMULATING};
use crate::roster::Roster;
use crate::signals;
use anstream::{AutoStream, ColorChoice};
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Colours of the sites, in turn. All are legible on dark and on light backgrounds.
const COLOURS: [&str; 6] =
    ["\u{1b}[36m", "\u{1b}[33m", "\u{1b}[35m", "\u{1b}[32m", "\u{1b}[34m", "\u{1b}[31m"];
/// Name before the launcher's own lines.
const OWN_NAME: &str = "gridctl";
const RED: &str = "\u{1b}[1;31m";
const RESET: &str = "\u{1b}[0m";

/// Prints reports.
pub(super) struct Printer {
    /// Form of the output.
    pub(super) style: Style,
    /// The limit of the file to which a detached job prints.
    pub(super) log: Option<LogLimit>,
    /// The files for what each node prints, if there are any.
    pub(super) logs: Option<NodeLogs>,
    /// The nodes whose output is printed; `None` for all.
    pub(super) shown: Option<BTreeSet<NodeId>>,
    /// The counts for the last line of the job, if that line is a summary.
    pub(super) ending: Option<EndingSummary>,
    /// The progress that the terminal shows at the same time. That of a simulation begins with the
    /// first report of it.
    pub(super) progress: Option<Progress>,
}

/// Form of the output.
pub(super) enum Style {
    /// A line of JSON for each report, on standard output.
    Json,
    /// The lines of the nodes, each with the prefix of its node.
    Text(Prefixes),
}

/// Prefixes of the lines of each node.
pub(super) struct Prefixes {
    names: Vec<String>,
    colours: Vec<&'static str>,
    plain: Vec<String>,
    coloured: Vec<String>,
    /// Whether standard output is coloured, and whether standard error is.
    is_coloured: [bool; 2],
    /// Prefix of the launcher's own lines.
    own: String,
}

impl Prefixes {
    /// Creates the prefixes for these nodes, of equal width. They are coloured on a terminal,
    /// unless the environment forbids it (NO_COLOR).
    pub(super) fn new(roster: &Roster) -> Self {
        let is_coloured = [
            AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            AutoStream::choice(&io::stderr()) != ColorChoice::Never,
        ];
        let colours = roster.nodes().map(|node| colour(roster.site(node).index())).collect();
        Self { is_coloured, ..Self::of(roster.names(), colours) }
    }

    fn of(names: Vec<String>, colours: Vec<&'static str>) -> Self {
        let width = names.iter().map(String::len).max().unwrap_or(0);
        let coloured =
            |(name, colour): (&String, &&str)| format!("{colour}{name:>width$}│{RESET} ");
        Self {
            coloured: names.iter().zip(&colours).map(coloured).collect(),
            plain: names.iter().map(|name| format!("{name:>width$}│ ")).collect(),
            own: format!("{OWN_NAME:>width$}│ "),
            names,
            colours,
            is_coloured: [false; 2],
        }
    }

    /// Adds the prefixes of further nodes. All get wider if the new names are longer.
    fn add(&mut self, nodes: &[AddedNode]) {
        let (mut names, mut colours) =
            (std::mem::take(&mut self.names), std::mem::take(&mut self.colours));
        names.extend(nodes.iter().map(AddedNode::name));
        colours.extend(nodes.iter().map(|node| colour(node.site_number)));
        *self = Self { is_coloured: self.is_coloured, ..Self::of(names, colours) };
    }

    /// Creates an empty prefix for the lines of the only process.
    pub(super) fn none() -> Self {
        let none = || vec![String::new()];
        Self {
            names: vec![],
            colours: vec![],
            plain: none(),
            coloured: none(),
            is_coloured: [false; 2],
            own: format!("{OWN_NAME}│ "),
        }
    }

    fn is_coloured(&self, stream: Stream) -> bool {
        self.is_coloured[usize::from(stream == Stream::Stderr)]
    }

    /// Describes a failure, with the node's last lines and a hint.
    fn explain(&self, failure: &FirstFailure) -> String {
        let (red, reset) = if self.is_coloured(Stream::Stderr) { (RED, RESET) } else { ("", "") };
        let mut text = String::new();
        if !failure.stderr.is_empty() {
            let name = self.names.get(failure.node.index()).map_or("the job", String::as_str);
            text += &format!("the last lines of {name} on standard error:\n");
            for line in failure.stderr.iter().skip_while(|line| line.is_empty()) {
                text += &format!("    {line}\n");
            }
        }
        // The message is last, so that a long trace does not hide it.
        text += &format!("{red}error:{reset} {}\n", failure.message);
        if let Some(hint) = &failure.hint {
            text += &format!("hint: {hint}\n");
        }
        text
    }

    fn append(&self, node: NodeId, stream: Stream, text: &[u8], to: &mut Vec<u8>) {
        let is_coloured = self.is_coloured(stream);
        let prefixes = if is_coloured { &self.coloured } else { &self.plain };
        to.extend_from_slice(prefixes[node.index()].as_bytes());
        to.extend_from_slice(text);
        if is_coloured && text.contains(&0x1b) {
            // The program's own colours must not run into the next line.
            to.extend_from_slice(RESET.as_bytes());
        }
        to.push(b'\n');
    }
}

/// Returns the colour of the nodes of a site.
fn colour(site: usize) -> &'static str {
    COLOURS[site % COLOURS.len()]
}

impl Style {
    /// Appends a report to the text to print, and returns its stream.
    fn append(&mut self, report: &Report, bytes: &mut Vec<u8>) -> Stream {
        let prefixes = match self {
            Self::Json => {
                bytes.extend_from_slice(report.to_json_line().as_bytes());
                return Stream::Stdout;
            }
            Self::Text(prefixes) => prefixes,
        };
        match report {
            Report::Added { nodes } => prefixes.add(nodes),
            Report::Output { node, stream, text } => {
                prefixes.append(*node, *stream, text, bytes);
                return *stream;
            }
            Report::Link { from, to, both_ways, before, after } => {
                let place = match (from == to, both_ways) {
                    (true, _) => format!("inside {from}"),
                    (false, true) => format!("{from}-{to}"),
                    (false, false) => format!("{from}>{to}"),
                };
                let change = before.change(after);
                let line = format!("{}link {place}: {change}\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Balanced(report) => {
                let line = format!("{}balance {report}\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Guest(event) => {
                let line = format!("{}{event}\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Warning { text } => {
                let line = format!("{}warning: {text}\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Metrics { address } => {
                let line = format!("{}metrics: {address}\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Loss { text } => {
                let line = format!("{}{text}; the job ends\n", prefixes.own);
                bytes.extend_from_slice(line.as_bytes());
            }
            Report::Recovery { text } | Report::Summary { text } => {
                bytes.extend_from_slice(format!("{}{text}\n", prefixes.own).as_bytes());
            }
            Report::Stopping => {
                bytes.extend_from_slice(b"stopping all nodes; press Ctrl-C again to kill them\n");
            }
            Report::Simulated(summary) => {
                bytes.extend_from_slice(format!("{summary}\n").as_bytes())
            }
            Report::Recorded { folder, missing, partial, dropped_events, events } => {
                let mut line = format!("{}recorded in {folder}", prefixes.own);
                let name = |node: &NodeId| prefixes.names.get(node.index()).cloned();
                let name = |node: &NodeId| name(node).unwrap_or_else(|| node.to_string());
                let names =
                    |nodes: &[NodeId]| nodes.iter().map(name).collect::<Vec<_>>().join(", ");
                if !missing.is_empty() {
                    line += &format!(", without {}", names(missing));
                }
                if !partial.is_empty() {
                    line += &format!(", with only a part of {}", names(partial));
                }
                if *dropped_events > 0 {
                    line += &format!(", without {dropped_events} of {events} events");
                }
                bytes.extend_from_slice(format!("{line}\n").as_bytes());
            }
            Report::Finished { failure: Some(failure), .. } => {
                bytes.extend_from_slice(prefixes.explain(failure).as_bytes());
            }
            // The printer shows this by itself.
            Report::Simulating { .. } => {}
            // These reports are for scripts only.
            Report::Started { .. }
            | Report::Listening { .. }
            | Report::Exited { .. }
            | Report::Finished { failure: None, .. } => {}
        }
        Stream::Stderr
    }
}

impl Printer {
    /// Prints the reports of the queue until it is closed, then sends [`Event::Printed`]. If the
    /// reader has closed the output, the job is interrupted, as by SIGPIPE.
    pub(super) fn run(mut self, queue: &Arc<Queue<Report>>, events: &Sender<Event>) {
        let (mut reports, mut text, mut has_failed) = (vec![], vec![], false);
        while queue.take(&mut reports) {
            // What was queued before the first failure often fails, too.
            if let Err(error) = self.print(&mut reports, &mut text)
                && !std::mem::replace(&mut has_failed, true)
            {
                queue.close();
                // The launcher may have ended already.
                let _ = events.send(failed(&error));
            }
        }
        self.progress.iter().for_each(Progress::end);
        let _ = events.send(Event::Printed);
    }

    fn print(&mut self, reports: &mut Vec<Report>, text: &mut Vec<u8>) -> io::Result<()> {
        self.show_simulation(reports);
        if reports.is_empty() {
            return Ok(());
        }
        self.write_logs(reports);
        if let Some(shown) = &self.shown {
            reports.retain(|report| is_shown(report, shown));
        }
        self.ending.iter_mut().for_each(|ending| ending.add_to(reports));
        let style = &mut self.style;
        let printed = match &self.progress {
            Some(progress) => progress.hidden(|| print(style, reports, text)),
            None => print(style, reports, text),
        };
        printed?;
        self.log.iter_mut().for_each(LogLimit::note_all);
        Ok(())
    }

    /// Takes out the reports on the progress of a simulation, and shows them.
    fn show_simulation(&mut self, reports: &mut Vec<Report>) {
        let shown = &mut self.progress;
        reports.retain(|report| {
            let Report::Simulating { virtual_ns, events } = report else { return true };
            let begin = || Progress::begin(SIMULATING.to_owned(), None);
            shown.get_or_insert_with(begin).say_simulated(Time(*virtual_ns), *events);
            false
        });
    }

    /// Writes to the files of nodes. An error is only a warning, since the job does not need the
    /// files.
    fn write_logs(&mut self, reports: &mut Vec<Report>) {
        let Some(logs) = &mut self.logs else { return };
        if let Err(error) = logs.take(reports) {
            let folder = logs.folder().display();
            let text = format!("the output in {folder} is not complete: {error}");
            // First, since the end of the job may be among these reports.
            reports.insert(0, Report::Warning { text });
            self.logs = None;
        }
    }
}

/// Waits until all reports of a closed queue are printed, or the user interrupts this launcher: the
/// reader of its output may have stopped reading. Waits for at most `patience` after each event. If
/// the user wants the job to stop, stops only this launcher, because all processes have ended.
pub(super) fn await_printed(incoming: &Receiver<Event>, patience: Duration) {
    loop {
        match incoming.recv_timeout(patience) {
            Ok(Event::Printed | Event::Interrupted { .. }) | Err(_) => return,
            Ok(Event::StopWanted) => signals::stop(),
            Ok(_) => {}
        }
    }
}

/// Whether to print a report if the user wants the output of these nodes only.
fn is_shown(report: &Report, shown: &BTreeSet<NodeId>) -> bool {
    match report {
        Report::Output { node, .. } => shown.contains(node),
        _ => true,
    }
}

/// Returns the event that follows if reports cannot be printed.
fn failed(error: &io::Error) -> Event {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Event::Interrupted { signal: signal_hook::consts::SIGPIPE };
    }
    // Standard error may still be writable.
    let hint = "make room, or send the output elsewhere";
    let _ = writeln!(io::stderr(), "error: cannot write the output: {error}\nhint: {hint}");
    Event::OutputFailed
}

/// Prints reports, and writes consecutive ones for the same stream together.
fn print(style: &mut Style, reports: &mut Vec<Report>, text: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    let mut stream = Stream::Stdout;
    for report in reports.drain(..) {
        let begin = text.len();
        let wanted = style.append(&report, text);
        if wanted != stream {
            write(stream, &text[..begin])?;
            text.drain(..begin);
            stream = wanted;
        }
    }
    write(stream, text)
}

fn write(stream: Stream, text: &[u8]) -> io::Result<()> {
    match stream {
        _ if text.is_empty() => Ok(()),
        Stream::Stdout => write_all(&mut io::stdout().lock(), text),
        Stream::Stderr => write_all(&mut io::stderr().lock(), text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::NewNode;
    use gridspan_topology::{GridSpec, HostSpec};

    fn text(colours: bool, reports: &[Report]) -> String {
        let mut prefixes = Prefixes::new(&GridSpec::from_emulate("2x1").unwrap().into());
        prefixes.is_coloured = [colours; 2];
        let mut style = Style::Text(prefixes);
        let mut text = vec![];
        for report in reports {
            style.append(report, &mut text);
        }
        String::from_utf8(text).unwrap()
    }

    fn output(node: u32, text: &str) -> Report {
        Report::Output { node: NodeId(node), stream: Stream::Stdout, text: text.into() }
    }

    fn printer(logs: Option<NodeLogs>, ending: Option<EndingSummary>) -> Printer {
        let (log, shown, progress) = (None, None, None);
        Printer { style: Style::Json, log, logs, shown, ending, progress }
    }

    #[test]
    fn the_progress_of_a_simulation_is_shown_and_is_not_among_the_objects() {
        let mut printer = printer(None, None);
        let simulating = |events| Report::Simulating { virtual_ns: 1_500_000_000, events };
        let mut reports = vec![simulating(64), output(0, "hello"), simulating(128)];

        printer.show_simulation(&mut reports);

        assert!(matches!(&reports[..], [Report::Output { .. }]), "{reports:?}");
        let mut reports = vec![simulating(192)];
        let mut text = vec![];
        printer.print(&mut reports, &mut text).unwrap();
        assert!(reports.is_empty() && text.is_empty(), "{reports:?}");
        let progress = printer.progress.unwrap();
        assert_eq!(progress.text(), "simulating: 1.500s of virtual time, 192 events");
        progress.end();
    }

    #[test]
    fn lines_follow_the_name_of_their_node() {
        assert_eq!(text(false, &[output(0, "hello"), output(1, "")]), "a/0│ hello\nb/1│ \n");
    }

    #[test]
    fn sites_have_different_colours_and_a_line_resets_its_own_colours() {
        let text = text(true, &[output(0, "hello"), output(1, "\u{1b}[1mbold")]);
        let expected =
            "\u{1b}[36ma/0│\u{1b}[0m hello\n\u{1b}[33mb/1│\u{1b}[0m \u{1b}[1mbold\u{1b}[0m\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn added_nodes_have_prefixes_and_the_colours_of_their_sites() {
        let mut roster = Roster::from(GridSpec::from_emulate("2x1").unwrap());
        let more =
            ["b", "c"].map(|site| NewNode { site: site.to_owned(), host: HostSpec::new("x", 1) });
        let nodes = roster.add(&more).unwrap();
        let nodes = nodes.into_iter().map(|node| AddedNode::new(&roster, node)).collect();
        let text = text(true, &[Report::Added { nodes }, output(2, "one"), output(3, "two")]);
        let expected = "\u{1b}[33mb/2│\u{1b}[0m one\n\u{1b}[35mc/3│\u{1b}[0m two\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_recording_names_the_nodes_that_are_missing() {
        let recorded = |missing, partial, dropped_events| {
            let folder = "rec".to_owned();
            Report::Recorded { folder, missing, partial, dropped_events, events: 400 }
        };
        assert_eq!(text(false, &[recorded(vec![], vec![], 0)]), "gridctl│ recorded in rec\n");
        let expected = "gridctl│ recorded in rec, without 12 of 400 events\n";
        assert_eq!(text(false, &[recorded(vec![], vec![], 12)]), expected);
        let expected = "gridctl│ recorded in rec, without b/1, node9, with only a part of a/0\n";
        let report = recorded(vec![NodeId(1), NodeId(9)], vec![NodeId(0)], 0);
        assert_eq!(text(false, &[report]), expected);
    }

    #[test]
    fn a_failure_shows_the_last_lines_and_a_hint() {
        let failure = FirstFailure {
            node: NodeId(1),
            message: "b/1 was killed by SIGKILL (9)".to_owned(),
            hint: Some("look at dmesg".to_owned()),
            stderr: vec!["out of luck".to_owned()],
        };
        let failure = Some(failure);
        let report = Report::Finished { exit_code: 1, seconds: 1.0, failure, lost_nodes: 0 };
        let expected = "\
the last lines of b/1 on standard error:
    out of luck
error: b/1 was killed by SIGKILL (9)
hint: look at dmesg
";
        assert_eq!(text(false, &[report]), expected);
    }

    #[test]
    fn files_that_cannot_be_written_are_a_warning_before_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("logs");
        let logs = Some(NodeLogs::create(&folder, vec!["a/0".to_owned()]).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        let mut printer = printer(logs, Some(EndingSummary::default()));
        let end = Report::Finished { exit_code: 0, seconds: 1.0, failure: None, lost_nodes: 0 };
        let mut reports = vec![output(0, "last"), end];

        printer.write_logs(&mut reports);

        printer.ending.iter_mut().for_each(|ending| ending.add_to(&mut reports));
        let [Report::Warning { .. }, _, Report::Summary { text }, Report::Finished { .. }] =
            &reports[..]
        else {
            panic!("{reports:?}")
        };
        assert!(text.ends_with(": 1 warning"), "{text}");
        assert!(printer.logs.is_none(), "there is one warning");
    }
}
