//! Runs random groups and calls under random faults, seed by seed, and reports the outcomes.
//!
//! `cargo run --release -p gridspan-studies --example faults -- [SEEDS] [FIRST]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../rpc/tests/faults/world.rs"]
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};
use world::Counts;

/// Time after which no further seed starts.
const LIMIT: Duration = Duration::from_secs(540);

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Ok(seeds), Ok(first)) =
        (numbers.next().unwrap_or(Ok(500)), numbers.next().unwrap_or(Ok(0)))
    else {
        println!("write how many seeds, and the first");
        return ExitCode::from(2);
    };
    let (begun, mut all, mut failed, mut run) = (Instant::now(), Counts::default(), 0, 0);
    for seed in first..first.saturating_add(seeds) {
        if begun.elapsed() > LIMIT {
            println!("stopped before seed {seed}: it takes too long");
            break;
        }
        run += 1;
        // A failed assertion of the run is a panic with a message.
        let Ok((report, counts)) = std::panic::catch_unwind(|| world::run(seed)) else {
            println!("seed {seed}: see above");
            failed += 1;
            continue;
        };
        if let Err(error) = &report.outcome {
            println!("seed {seed}: {error}");
            failed += 1;
        }
        all.done += counts.done;
        all.reported += counts.reported;
        all.dropped += counts.dropped;
        all.left += counts.left;
        all.lost += counts.lost;
        all.restarted += counts.restarted;
        all.stuck += counts.stuck;
    }
    let Counts { done, reported, dropped, left, lost, restarted, stuck } = all;
    println!(
        "{run} seeds, {failed} failed; groups and rounds of calls: {done} done, {reported} reported as lost, {dropped} dropped; servers: {left} left, {lost} lost; the registry was restarted {restarted} times, and {stuck} times while a server was stuck; {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
