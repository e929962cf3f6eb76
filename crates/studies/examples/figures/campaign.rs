//! The fault campaign, with a fixed number of seeds.

use gridspan_sim::campaign::{Campaign, CampaignReport};
use gridspan_studies::figures::{ComputedValue, Figure, FigureRecord, FigureRun};
use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Number of seeds, which take two minutes on two cores.
const SEEDS: u64 = 100;

/// Runs the campaign, and returns a record for each count. Fails if a seed fails, or if the
/// campaign takes longer than the limit; it then continues until this process ends.
pub(crate) fn measure(limit: Duration) -> Result<Vec<FigureRecord>, Box<dyn Error>> {
    let run = FigureRun::of_this_process();
    let mut campaign = Campaign::new(0..SEEDS);
    campaign.threads = thread::available_parallelism().map_or(1, usize::from);
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        // Fails if the limit has passed.
        let _ = send.send(campaign.run());
    });
    let report = receive.recv_timeout(limit);
    let report = report.map_err(|_| format!("it has not ended after {} s", limit.as_secs()))?;
    if let Some(failure) = &report.failure {
        return Err(failure.to_string().into());
    }
    let record = |(title, count): (&str, String)| {
        let (run, suite, title) = (run.clone(), "campaign".to_owned(), title.to_owned());
        FigureRecord { run, suite, title, figure: Figure::Value(ComputedValue::new(count)) }
    };
    Ok(counts(&report).into_iter().map(record).collect())
}

fn counts(report: &CampaignReport) -> Vec<(&'static str, String)> {
    let CampaignReport { runs, quic_runs, virtual_time, actions, faults, quic, .. } = report;
    let hours = virtual_time.as_secs_f64() / 3600.0;
    vec![
        ("seeds", runs.to_string()),
        ("virtual hours", format!("{hours:.1}")),
        ("migrations", thousands(actions.migrations)),
        ("dropped connections", thousands(faults.disconnects)),
        ("partitions of up to 15 s", thousands(faults.partitions)),
        ("guests that joined, left or died", thousands(actions.guests)),
        ("seeds over QUIC", quic_runs.to_string()),
        ("datagrams in those", thousands(quic.datagrams)),
        ("QUIC connections in those", thousands(quic.connections)),
    ]
}

/// Formats a count with commas between thousands.
fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        let texts = [0, 999, 1000, 1_153_993].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "1,153,993"]);
    }
}
