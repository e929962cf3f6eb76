//! Compares the lab of `gridctl lab` with the emulation of `gridctl run`: the same jobs over the
//! same links in both.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example lab_agreement
//! ```
//!
//! Two nodes, at two sites, run each job in turns with `gridctl run --emulate`, which emulates
//! links below QUIC, and with `gridctl run --grid` on two hosts of `gridctl lab`, which emulates
//! links for any program. For each delay and rate:
//!
//! - `round trip` is that of a message of 32 bytes between two actors, as the mean over a run;
//! - `stream` is the rate of 64 messages from one rank to another, before the receiver answers;
//! - `step` is the median time of a step of molecular dynamics.
//!
//! Values are medians over the rounds; a ratio is the median of the ratios of the rounds, with its
//! interval of 95 %. A row is marked if its ratio differs from 1 by more than 5 %.
//!
//! For each probability of loss, the study sends datagrams one way: over a host's socket in a lab,
//! and through the emulator of `gridctl run` over a socket of this process. It marks the number of
//! lost datagrams if that is outside of the interval of 99.9 % of the binomial distribution.
//!
//! Where the system gives no namespaces or TUN devices, the study prints the reason and ends. Linux
//! only. Nothing else should run on the machine.

mod places;
mod probes;
mod quantities;

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_topology::{Bandwidth, Latency, Probability};
use places::{Place, Places};
use probes::BinomialInterval;
use quantities::QUANTITIES;
use std::error::Error;
use std::process::ExitCode;

/// Largest difference of a ratio from 1 that is not marked.
const DIFFERENCE_MAX: f64 = 0.05;
/// The delay and the rate of links that lose packets.
const LOSSY_LINK: &str = "wan=5ms,rate=50mbit";

#[derive(Parser)]
#[command(about = "The lab beside the emulation of `gridctl run`")]
struct Options {
    /// One-way delays between the sites.
    #[arg(long, value_delimiter = ',', default_value = "5ms,20ms,50ms")]
    delays: Vec<Latency>,
    /// Rates of the links.
    #[arg(long, value_delimiter = ',', default_value = "10mbit,50mbit,200mbit")]
    rates: Vec<Bandwidth>,
    /// Probabilities of losses.
    #[arg(long, value_delimiter = ',', default_value = "0.5%,2%,10%")]
    losses: Vec<Probability>,
    /// Number of rounds; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of datagrams for each loss.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    datagrams: u32,
    /// In a lab: send datagrams to this host, and print how many have arrived.
    #[arg(long, hide = true)]
    probe: Option<String>,
    /// In a lab: count datagrams.
    #[arg(long, hide = true)]
    count: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.probe {
        Some(host) => probes::send(host, options.datagrams),
        None if options.count => probes::count(),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let places = Places::new()?;
    if let Some(reason) = places.missing_lab()? {
        println!("skipped, since there can be no lab here: {reason}");
        return Ok(());
    }
    let mut outside = 0;
    println!(
        "{:>8}{:>10}{:>12}{:>14}{:>14}  lab / emulated",
        "delay", "rate", "", "emulated", "lab"
    );
    for delay in &options.delays {
        for rate in &options.rates {
            outside += cells(&places, options.rounds, *delay, *rate)?;
        }
    }
    let of = options.delays.len() * options.rates.len() * QUANTITIES.len();
    let percent = DIFFERENCE_MAX * 100.0;
    println!("{outside} of {of} median ratios differ from 1 by more than {percent:.0} %");
    losses(&places, options)
}

/// Measures all quantities over one link. Returns how many ratios are marked.
fn cells(
    places: &Places,
    rounds: u32,
    delay: Latency,
    rate: Bandwidth,
) -> Result<usize, Box<dyn Error>> {
    let link = format!("wan={delay},rate={rate}");
    let mut outside = 0;
    for quantity in QUANTITIES {
        let job = quantity.job(rate);
        let mut values: [Vec<f64>; 2] = Default::default();
        for round in 0..rounds {
            let mut turns = [Place::Emulated, Place::Lab];
            if round % 2 == 1 {
                turns.reverse();
            }
            for place in turns {
                let printed = places.run(place, &link, &job)?;
                let value = quantity.read(&printed).ok_or_else(|| {
                    format!("{job:?} has printed no {}:\n{printed}", quantity.name())
                })?;
                values[place as usize].push(value);
            }
        }
        let [emulated, lab] = &values;
        let ratio = MedianEstimate::of_paired_ratio(lab, emulated);
        let is_outside = (ratio.median - 1.0).abs() > DIFFERENCE_MAX;
        outside += usize::from(is_outside);
        let [emulated, lab] = [emulated, lab]
            .map(|values| quantity.unit(rate).show(MedianEstimate::of(values).median));
        let mark = if is_outside { "  outside" } else { "" };
        println!(
            "{:>8}{:>10}{:>12}{emulated:>14}{lab:>14}  {ratio}{mark}",
            delay.to_string(),
            rate.to_string(),
            quantity.name()
        );
    }
    Ok(outside)
}

fn losses(places: &Places, options: &Options) -> Result<(), Box<dyn Error>> {
    println!("\nlost of {} datagrams, {LOSSY_LINK}", options.datagrams);
    println!("{:>8}{:>16}{:>12}{:>8}", "loss", "99.9 %", "emulated", "lab");
    for loss in &options.losses {
        let link = format!("{LOSSY_LINK},loss={loss}");
        let interval = BinomialInterval::new(options.datagrams, loss.0);
        let lost = [
            probes::lost_in_emulation(&places.spec(&link), options.datagrams)?,
            places.lost_in_lab(&link, options.datagrams)?,
        ];
        let is_outside = lost.iter().any(|&lost| !interval.contains(lost));
        let mark = if is_outside { "  outside" } else { "" };
        let [emulated, lab] = lost;
        println!("{:>8}{:>16}{emulated:>12}{lab:>8}{mark}", loss.to_string(), interval.to_string());
    }
    Ok(())
}
