//! Compares the last policy with each of the others.

use crate::experiment::Found;
use gridspan_studies::stealing::LoadSpread;

/// The result of each policy with one load on a number of nodes.
pub(crate) struct Row {
    pub(crate) nodes: u32,
    pub(crate) spread: LoadSpread,
    pub(crate) found: Vec<Found>,
}

/// Divides the measures of the last policy by those of each other policy, and prints the geometric
/// mean of the ratios over all rows. Also prints the load and the number of nodes at which the
/// ratio of makespans is largest.
pub(crate) fn compare(rows: &[Row], policies: &[String]) {
    let Some((last, others)) = policies.split_last().filter(|_| !rows.is_empty()) else { return };
    let all: Vec<&Row> = rows.iter().collect();
    let is_binomial =
        |row: &&Row| matches!(row.spread, LoadSpread::BinomialThird | LoadSpread::BinomialEighth);
    let binomial: Vec<&Row> = rows.iter().filter(is_binomial).collect();
    for (at, other) in others.iter().enumerate() {
        let ratio = |row: &Row, of: Measure| of(&row.found[others.len()]) / of(&row.found[at]);
        let mean = |rows: &[&Row], of: Measure| {
            let logs = rows.iter().map(|row| ratio(row, of).ln()).sum::<f64>();
            (logs / rows.len() as f64).exp()
        };
        let part = match binomial.len() {
            0 => String::new(),
            _ => format!(" (on binomial loads {:.3})", mean(&binomial, attempts)),
        };
        println!(
            "{last} over {other}: {:.3} of its attempts{part}, {:.3} of its messages, {:.3} of its time",
            mean(&all, attempts),
            mean(&all, messages),
            mean(&all, time),
        );
        let by_time = |one: &&&Row, other: &&&Row| ratio(one, time).total_cmp(&ratio(other, time));
        if let Some(worst) = all.iter().max_by(by_time) {
            let Row { nodes, spread, .. } = worst;
            let ratio = ratio(worst, time);
            println!("  at most {ratio:.3} of its time: load {}, {nodes} nodes", spread.name());
        }
    }
}

/// A positive quantity of an experiment by which policies are compared.
pub(crate) type Measure = fn(&Found) -> f64;

pub(crate) fn attempts(found: &Found) -> f64 {
    found.statistics.attempts.max(1) as f64
}

pub(crate) fn messages(found: &Found) -> f64 {
    found.statistics.messages.max(1) as f64
}

/// Returns the makespan in milliseconds.
pub(crate) fn time(found: &Found) -> f64 {
    found.makespan.as_secs_f64() * 1e3
}
