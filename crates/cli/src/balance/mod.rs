//! `gridctl balance`: shows the plans of strategies for the measurements of a job.
//!
//! - `measured`: reads and writes the measurements.

mod measured;

use crate::args::{BalanceVerb, ReplayArgs, SnapshotFormat};
use crate::error::CliError;
use crate::output::print;
use crate::progress::Progress;
use crate::quantity::{digits, time};
use crate::table::{Align, Table};
use gridspan_balance::{CostModel, Explanation, PlanReport, Prediction, Reason, Snapshot, by_name};
use serde::Serialize;
use std::io;
use std::process::ExitCode;

/// Strategies used if none is named.
const DEFAULT: [&str; 4] = ["greedy", "refine", "grid-cut", "auto"];

pub(crate) fn run(verb: &BalanceVerb) -> Result<ExitCode, CliError> {
    match verb {
        BalanceVerb::Replay(args) => replay(args),
        BalanceVerb::Export(args) => {
            let snapshot = measured::read(&args.file, SnapshotFormat::Dump, args.rebalance)?;
            measured::write(&snapshot, &args.to, args.format)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn replay(args: &ReplayArgs) -> Result<ExitCode, CliError> {
    let snapshot = measured::read(&args.file, args.format, args.rebalance)?;
    let names: Vec<&'static str> = match args.strategy.is_empty() {
        true => DEFAULT.into(),
        false => args.strategy.iter().map(|&name| name.into()).collect(),
    };
    let progress = Progress::begin("planning".to_owned(), Some(names.len() as u64));
    let report = |name| planned(args, &snapshot, name).map(|report| (name, report));
    let reports = names.into_iter().map(report);
    let reports = reports.inspect(|_| progress.advance()).collect::<Result<Vec<_>, CliError>>();
    progress.end();
    let reports = reports?;
    let text = match args.json {
        true => json(&snapshot, &reports)
            .map_err(|error| CliError::System { what: "print the plans", error })?,
        false => text(&snapshot, &reports, args.why),
    };
    print(&text, "print the plans")
}

/// Makes a plan with the strategy of this name.
fn planned(args: &ReplayArgs, snapshot: &Snapshot, name: &str) -> Result<PlanReport, CliError> {
    let strategy = by_name(name, args.seed).map_err(io::Error::other);
    let plan = strategy.map_err(CliError::system("plan"))?.plan(snapshot);
    let report = PlanReport::of(snapshot, &plan, &CostModel::default());
    // A plan that does not fit the snapshot is a fault of the strategy: the error names it.
    report.map_err(|error| measured::refuse(&args.file, format!("{name}: {error}")))
}

fn text(snapshot: &Snapshot, reports: &[(&str, PlanReport)], why: bool) -> String {
    let layout = &snapshot.layout;
    let mut text = format!(
        "{} actors and {} pairs that exchange messages, on {} PEs at {} sites\n\n",
        snapshot.actors.len(),
        snapshot.edges.len(),
        layout.pe_count(),
        layout.site_count()
    );
    let titles = [
        "STRATEGY",
        "MOVES",
        "TO OTHER SITES",
        "BYTES MOVED",
        "STEP",
        "MAX/MEAN",
        "WIDE-AREA MESSAGES",
        "BYTES",
    ];
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).into(), align);
    let mut row = |name: &str, moved: [u64; 3], prediction: &Prediction| {
        let mut cells = vec![name.to_owned()];
        cells.extend(moved.map(|number| number.to_string()));
        cells.push(time(prediction.step));
        cells.push(digits(prediction.imbalance()));
        cells.push(prediction.wide_area.messages.to_string());
        cells.push(prediction.wide_area.bytes.to_string());
        table.row(cells);
    };
    if let Some((_, report)) = reports.first() {
        row("as it is", [0; 3], &report.before);
    }
    for (name, report) in reports {
        let moved = [report.migrations, report.migrations_between_sites, report.bytes_moved];
        row(name, moved, &report.after);
    }
    text += &table.render(false);
    for (name, report) in reports.iter().filter(|_| why) {
        text += &format!("\n{name}\n");
        for explanation in &report.explanations {
            text += &format!("  {}\n", because(explanation));
        }
    }
    text
}

/// Returns the reason for an actor's move, in words.
fn because(explanation: &Explanation) -> String {
    let Explanation { actor, from, to, reason, .. } = explanation;
    let fullness = |share: f64| format!("{:.0} %", share * 100.0);
    let reason = match reason {
        Reason::ForeignLoad => "other programs slow its PE".to_owned(),
        Reason::FewerWideAreaMessages => {
            format!("saves {} messages between sites", explanation.wide_area_saved)
        }
        Reason::BusyPe => format!(
            "its PE has {} of its share, the other {}",
            fullness(explanation.from_fullness),
            fullness(explanation.to_fullness)
        ),
        Reason::FewerMessages => {
            format!("saves {} messages between PEs", explanation.between_pes_saved)
        }
        Reason::MakesRoom => "makes room".to_owned(),
    };
    format!("{actor} from {from} to {to}: {reason}")
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    actors: usize,
    edges: usize,
    pes: u32,
    plans: Vec<Planned<'a>>,
}

#[derive(Serialize)]
struct Planned<'a> {
    strategy: &'a str,
    report: &'a PlanReport,
}

fn json(snapshot: &Snapshot, reports: &[(&str, PlanReport)]) -> io::Result<String> {
    let plans = reports.iter().map(|(strategy, report)| Planned { strategy, report }).collect();
    let document = Document {
        version: 1,
        actors: snapshot.actors.len(),
        edges: snapshot.edges.len(),
        pes: snapshot.layout.pe_count(),
        plans,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_strategy_for_each_default_name() {
        for name in DEFAULT {
            assert!(by_name(name, 0).is_ok_and(|strategy| strategy.name() == name), "{name}");
        }
    }
}
