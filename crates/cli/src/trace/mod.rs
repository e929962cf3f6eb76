//! `gridctl trace`: a recording as a trace for Perfetto.
//!
//! | in the recording | in the trace |
//! | --- | --- |
//! | node | process, named by site and node |
//! | PE | thread |
//! | span | slice; its name is the type of the actor |
//! | message between spans | flow |
//! | bins of a PE: queue, idle, runtime, network, other threads | counters of the thread |
//! | bytes between two sites | counter |
//! | event of the job | instant on the track of the job |
//!
//! Recordings have the idle time and the network time of PEs per bin, not as intervals, so these
//! are counters in the trace. Times are nanoseconds since the start of the job.
//!
//! - `schema`: the messages of Perfetto. `writer`: writes them to a file.
//! - `slices`, `flows`, `counters`, `events`: the parts of a trace.

mod counters;
mod events;
mod flows;
mod schema;
mod slices;
mod writer;

use crate::args::TraceArgs;
use crate::error::CliError;
use crate::output;
use crate::progress::Progress;
use crate::quantity::{bytes, count, exact_percent};
use flows::Flows;
use gridspan_record::{Header, Recording};
use schema::{ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use writer::{Counts, PacketWriter};

/// The file in the folder of the recording, unless another one is named.
const FILE: &str = "trace.perfetto-trace";

/// Writes the trace of a recording, and prints the counts of its content.
pub(crate) fn run(args: &TraceArgs) -> Result<ExitCode, CliError> {
    let path = args.output.clone().unwrap_or_else(|| args.recording.join(FILE));
    let progress = Progress::begin("writing the trace".to_owned(), None);
    let written = write_to(&args.recording, &path);
    progress.end();
    let (recording, counts) = written?;
    if path == Path::new(output::STDOUT) {
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&text(&recording, counts, &path), "print what the trace has")
}

/// Reads a recording, and writes its trace into a file, or to standard output.
fn write_to(folder: &Path, path: &Path) -> Result<(Recording, Counts), CliError> {
    let recording = Recording::read(folder)?;
    let counts = if path == Path::new(output::STDOUT) {
        let stdout = BufWriter::new(io::stdout().lock());
        write(&recording, stdout).map_err(CliError::system("print the trace"))?
    } else {
        let failed = |error| CliError::Write { path: path.to_owned(), error };
        let file = File::create(path).map_err(failed)?;
        write(&recording, BufWriter::new(file)).map_err(failed)?
    };
    Ok((recording, counts))
}

/// Writes the trace of a recording.
fn write(recording: &Recording, to: impl Write) -> io::Result<Counts> {
    let mut out = PacketWriter::new(to, recording.end_ns());
    let header = &recording.header;
    let job = out.track(named(format!("job {}", header.job)))?;
    events::write(recording, job, &mut out)?;
    let links = out.track(named("between sites".to_owned()))?;
    counters::write_links(recording, links, &mut out)?;
    for number in 0..header.nodes.len() {
        let process =
            ProcessDescriptor { pid: id(number), process_name: node_name(header, number) };
        out.track(TrackDescriptor { process: Some(process), ..TrackDescriptor::default() })?;
    }
    let flows = Flows::new(recording);
    for (position, record) in recording.pes.iter().enumerate() {
        let node = header.pes.get(record.pe as usize).map_or(0, |pe| pe.node);
        let thread = ThreadDescriptor {
            pid: id(node as usize),
            // Perfetto takes a thread with the number of its process for the main thread.
            tid: id(header.nodes.len() + record.pe as usize).into(),
            thread_name: format!("pe{}", record.pe),
        };
        let thread = TrackDescriptor { thread: Some(thread), ..TrackDescriptor::default() };
        let track = out.track(thread)?;
        slices::write(record, position, &flows, track, &mut out)?;
        counters::write_pe(record, track, &mut out)?;
    }
    out.finish()
}

fn named(name: String) -> TrackDescriptor {
    TrackDescriptor { name: Some(name), ..TrackDescriptor::default() }
}

/// The number of a process or thread: from 1, since 0 is the idle process of Linux.
fn id(number: usize) -> i32 {
    i32::try_from(number.saturating_add(1)).unwrap_or(i32::MAX)
}

/// The name of a node, with its site.
fn node_name(header: &Header, number: usize) -> String {
    let node = &header.nodes[number];
    match header.sites.get(node.site as usize) {
        Some(site) if !node.name.contains('/') => format!("{site}/{}", node.name),
        _ => node.name.clone(),
    }
}

fn text(recording: &Recording, counts: Counts, path: &Path) -> String {
    let Counts { slices, instants, flows, bytes: size } = counts;
    let number = |number: u64, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let mut text = format!(
        "{}: {} of {}, {}, {}, {}\n",
        path.display(),
        number(slices, "slice"),
        count(recording.pes.len(), "PE"),
        number(flows, "flow"),
        number(instants, "event"),
        bytes(size),
    );
    let dropped = recording.dropped_share();
    if dropped > 0.0 {
        let share = exact_percent(dropped);
        text += &format!("{share} of the spans were dropped while recording\n");
    }
    let dropped = recording.dropped_events();
    if dropped > 0 {
        text += &format!("{} had no room in the recording\n", number(dropped, "event"));
    }
    if !recording.missing.is_empty() {
        text += &format!("{} left no record\n", count(recording.missing.len(), "node"));
    }
    text + "open it in https://ui.perfetto.dev\n"
}

#[cfg(test)]
mod tests;
