//! Figures 3 to 5 of Brady et al. (2010), "SmartGridRPC", as a table and as a chart: the time of a
//! step of Hydropad over the size of the problem. The tasks are called one by one (plain GridRPC)
//! or mapped together as a group, and the client has a slow or a fast link.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example hydropad -- --out figure.svg
//! cargo run --release -p gridspan-studies --example hydropad -- --slower 8
//! cargo run --release -p gridspan-studies --example hydropad -- --real --edges 48,64,80
//! ```
//!
//! The client has 100 Mbit/s or 1 Gbit/s to two servers of 498 and 531 MFlops, which have 1 Gbit/s
//! between them, as in Brady et al. (2010), section 6; the client has 248 MFlops. The servers
//! really compute the results. In virtual time, a task takes the time that its performance model
//! gives, for cores of the 2020s or for cores slower by a factor (`--slower`). The second command
//! is closer to the machines of that paper, and the third runs in real time over QUIC and emulated
//! links.
//!
//! The time of a step is that of the whole run divided by its steps, including the first window
//! with its transfers; the *settled* time excludes that window. The table gives the maximum number
//! of bytes that the client of a group keeps in the first window, and in any later one. The size of
//! a problem is that of particles, gas, potential and density together. The client has the initial
//! state and sends it, unless `--made` makes servers create it.

mod run;

use clap::Parser;
use gridspan_studies::charts::{Curve, Panel, Scale, picture};
use run::{How, Measured, Setup, alone_s, measure, size_mb};
use std::path::PathBuf;
use std::process::ExitCode;

/// A step of Hydropad, plain and mapped collectively, over the size of the problem.
#[derive(Parser)]
struct Arguments {
    /// Cells and particles along an edge.
    #[arg(long, value_delimiter = ',', default_value = "32,48,64,80,96")]
    edges: Vec<u32>,
    /// Steps of each run.
    #[arg(long, default_value_t = 20)]
    steps: u32,
    /// Steps that are mapped together.
    #[arg(long, default_value_t = 10)]
    window: u32,
    /// Slow-down of the faster server relative to a core of the 2020s.
    #[arg(long, default_value_t = 1.0, conflicts_with = "real")]
    slower: f64,
    /// The heuristic that maps the groups.
    #[arg(long, default_value = "portfolio")]
    heuristic: String,
    /// Let servers, instead of the client, create the initial state of groups.
    #[arg(long)]
    made: bool,
    /// Run in real time.
    #[arg(long)]
    real: bool,
    /// Write the chart to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Bandwidths of the client's link to the servers, in Mbit/s.
const LINKS: [u32; 2] = [100, 1000];

fn main() -> ExitCode {
    match show(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The results of one size, by link: plain and as a group.
type Row = [[Measured; 2]; 2];

fn show(arguments: &Arguments) -> Result<(), String> {
    println!(
        "{:>5} {:>7} {:>7} {:>19} {:>19} {:>11} {:>21} {:>7} {:>19}",
        "edge",
        "MB",
        "client",
        "plain (settled) s",
        "group (settled) s",
        "plain/group",
        "client bytes per step",
        "fewer",
        "client keeps, later"
    );
    let mut rows = Vec::new();
    for &edge in &arguments.edges {
        let row: Row = [of(arguments, edge, LINKS[0])?, of(arguments, edge, LINKS[1])?];
        for ([plain, group], link) in row.iter().zip(LINKS) {
            println!("{}", line(edge, link, plain, group));
        }
        let [slow, fast] = [0, 1].map(|link: usize| row[link][1].settled_s);
        println!(
            "{:>21} the group's settled step differs by {:.1} % between the clients",
            "",
            100.0 * (slow / fast - 1.0)
        );
        rows.push((edge, row));
    }
    match &arguments.out {
        None => Ok(()),
        Some(path) => std::fs::write(path, drawn(arguments, &rows))
            .map_err(|error| format!("cannot write {}: {error}", path.display())),
    }
}

fn of(arguments: &Arguments, edge: u32, link: u32) -> Result<[Measured; 2], String> {
    let Arguments { steps, window, slower, made, real, ref heuristic, .. } = *arguments;
    let setup = Setup { edge, link, steps, window, slower, heuristic: heuristic.clone(), real };
    let grouped = if made { How::Made } else { How::Sent };
    let found = [measure(&setup, How::Plain)?, measure(&setup, grouped)?];
    match found[0].digests == found[1].digests {
        true => Ok(found),
        false => Err(format!("edge {edge}: plain and group do not agree bit for bit")),
    }
}

fn line(edge: u32, link: u32, plain: &Measured, group: &Measured) -> String {
    let time = |of: &Measured| format!("{:.3} ({:.3})", of.step_s, of.settled_s);
    let ratio = |one: f64, other: f64| format!("{:.1}", one / other);
    let [sent, few] = [plain, group].map(|of| of.client_bytes_per_step);
    let fewer = ratio(sent, few);
    format!(
        "{edge:>5} {:>7.1} {:>7} {:>19} {:>19} {:>11} {:>21} {fewer:>7} {:>19}",
        size_mb(edge),
        format!("{link}M"),
        time(plain),
        time(group),
        format!(
            "{} ({})",
            ratio(plain.step_s, group.step_s),
            ratio(plain.settled_s, group.settled_s)
        ),
        format!("{sent:.3e} / {few:.3e}"),
        format!("{:.1e} / {:.1e}", group.held_bytes[0] as f64, group.held_bytes[1] as f64),
    )
}

fn drawn(arguments: &Arguments, rows: &[(u32, Row)]) -> String {
    let panel = |link: usize| {
        let curve = |name: &str, time: &dyn Fn(&(u32, Row)) -> f64| Curve {
            name: name.to_owned(),
            points: rows.iter().map(|row| (size_mb(row.0), time(row))).collect(),
            is_bound: false,
        };
        let alone =
            curve("the client alone, by formula", &|(edge, _)| alone_s(*edge, arguments.slower));
        let curves = vec![
            curve("plain GridRPC", &|(_, row)| row[link][0].step_s),
            curve("group", &|(_, row)| row[link][1].step_s),
            curve("group, settled", &|(_, row)| row[link][1].settled_s),
            Curve { is_bound: true, ..alone },
        ];
        Panel {
            title: format!("a client with {} Mbit/s", LINKS[link]),
            axes: ["size of the problem in MB", "a step in s"],
            curves,
        }
    };
    let how = if arguments.real { "in real time" } else { "in virtual time" };
    let title = format!("Hydropad on two servers with 1 Gbit/s between them, {how}");
    picture(&title, Scale::Linear, &[vec![panel(0), panel(1)]])
}
