//! Broadcasts over processes of this machine, by `gridctl bench bcast`.

use crate::programs::Programs;
use gridspan_studies::figures::{
    ComputedValue, Figure, FigureGoal, FigureRecord, FigureRun, FigureUnit, Interval,
};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// Goal: at most this ratio of the time to that of a binomial tree of messages.
const TREE_RATIO: f64 = 1.05;
const ROUNDS: &str = "100";

/// Runs the command, and returns a record for each size and number of processes.
pub(crate) fn measure(
    programs: &Programs,
    root: &Path,
    limit: Duration,
) -> Result<Vec<FigureRecord>, Box<dyn Error>> {
    let run = FigureRun::of_this_process();
    let words = ["bench", "bcast", "--json", "--rounds", ROUNDS];
    let text = programs.output("gridctl", &words, root, limit)?;
    Ok(text.lines().filter_map(|line| record(line, &run)).collect())
}

/// Returns the record of a line of output, if the line is the result of a size.
fn record(line: &str, run: &FigureRun) -> Option<FigureRecord> {
    let event: Value = serde_json::from_str(line).ok()?;
    let result: Value = serde_json::from_str(event.get("text")?.as_str()?).ok()?;
    let number = |name: &str| result.get(name)?.as_f64();
    let median = |name: &str| result.get(name)?.get("median_ns")?.as_f64();
    let (nodes, bytes) = (number("nodes")?, number("bytes")?);
    let ratio = Interval {
        median: number("ratio")?,
        low: number("ratio_low")?,
        high: number("ratio_high")?,
    };
    let (unit, goal) = (FigureUnit::Time, FigureGoal::Ratio(TREE_RATIO));
    let theirs = unit.show(median("binomial_of_messages")?);
    let mut value = ComputedValue::new(unit.show(median("runtime")?))
        .beside("binomial tree of messages", theirs)
        .ratio(ratio.to_string());
    value.goal = Some((goal.text(unit), goal.judge(unit, ratio)));
    let (title, figure) = (format!("{nodes} nodes, {bytes} B"), Figure::Value(value));
    Some(FigureRecord { run: run.clone(), suite: "bcast".to_owned(), title, figure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_the_job_is_a_record() {
        let text = r#"{"nodes":4,"rounds":3,"bytes":1000,"runtime":{"median_ns":2000},
            "binomial_of_messages":{"median_ns":4000},"ratio":0.5,"ratio_low":0.4,"ratio_high":1.1}"#;
        let line = serde_json::json!({ "event": "output", "text": text }).to_string();
        let record = record(&line, &FigureRun::default()).unwrap();
        assert_eq!(record.title, "4 nodes, 1000 B");
        let Figure::Value(value) = record.figure else { panic!("a value") };
        assert_eq!((value.ours.as_str(), value.others[0].1.as_str()), ("2.00 µs", "4.00 µs"));
        assert_eq!(value.ratio.as_deref(), Some("0.50 [0.40, 1.10]"));
        let (goal, verdict) = value.goal.unwrap();
        assert_eq!(format!("{goal}: {verdict}"), "at most 1.05: not decided");
    }
}
