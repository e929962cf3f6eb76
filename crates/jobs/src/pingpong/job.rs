//! The job: the first PE sends messages to the last one and back.
//!
//! Within a process messages are moved by reference, so that their size does not matter; between
//! nodes it does. The content is checked at both ends before each measurement, not during it.

use std::time::Duration;

use clap::Parser;
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, JobError, Numbers, Per, Reply};
use serde::{Deserialize, Serialize};

use super::ladder::{
    bytes_per_second, is_whole, next_repetitions, one_way_ns, payload, sizes_bytes,
};
use super::pairs::{self, Plan};
use crate::entry::{Entry, measurement_seconds, message_size, parse};

const ABOUT: &str = "Round trips of messages of 25 sizes between the first and the last PE";

pub(crate) const ENTRY: Entry = Entry {
    name: "pingpong",
    about: ABOUT,
    build: |arguments| Ok(job(parse("pingpong", arguments)?)),
};

/// Timeout of a measurement, whose repetitions are doubled until it takes long enough.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Largest size of a message of `--pairs` in bytes: the receiver may hold a window of them.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Minimum seconds of each measurement, at most 60; use 10 for published results.
    #[arg(long, default_value_t = 0.05, value_parser = measurement_seconds)]
    seconds: f64,
    /// Skip messages larger than this.
    #[arg(long, value_name = "BYTES", default_value_t = usize::MAX, hide_default_value = true)]
    max_bytes: usize,
    /// Instead measure on one PE, between two PEs of a node, between two nodes of each site, and
    /// between every two sites, and print medians with their confidence intervals.
    #[arg(long, conflicts_with = "max_bytes")]
    pairs: bool,
    /// With --pairs, sizes of the messages, of 1B to 4MiB.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size,
          requires = "pairs", default_value = "8B,1kB,64kB,1MB")]
    bytes: Vec<usize>,
    /// With --pairs, number of measurements of each size.
    #[arg(long, value_name = "N", requires = "pairs", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// With --pairs, print JSON objects instead of tables.
    #[arg(long, requires = "pairs")]
    json: bool,
}

fn size(text: &str) -> Result<usize, String> {
    message_size(text, BYTES_MAX)
}

/// The actor on every PE.
#[derive(Serialize, Deserialize)]
struct Player {
    game: Option<Game>,
}

/// The measurement in progress at the first player.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Game {
    partner: u32,
    bytes: usize,
    left: u64,
    begin_ns: u64,
    reply: Reply<Option<u64>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// To the first player: measure `repetitions` round trips. The answer is their total time in
    /// ns, or `None` if the content came back damaged.
    Measure {
        partner: u32,
        bytes: usize,
        repetitions: u64,
        reply: Reply<Option<u64>>,
    },
    Ball {
        payload: Numbers<f64>,
        flight: Flight,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Flight {
    /// On the way out, to be checked.
    Trial,
    /// On the way back, with the result of the check at the other end.
    Verdict { is_whole: bool },
    /// On the way out, in a measurement.
    Out,
    /// On the way back, in a measurement.
    Home,
}

impl Actor for Player {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { game: None }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Measure { partner, bytes, repetitions, reply } => {
                self.game = Some(Game { partner, bytes, left: repetitions, begin_ns: 0, reply });
                throw(partner, payload(bytes).into(), Flight::Trial, cx);
            }
            Message::Ball { payload, flight } => match flight {
                Flight::Out => throw(0, payload, Flight::Home, cx),
                Flight::Trial => {
                    let is_whole = is_whole(&payload, size_of_val::<[f64]>(&payload));
                    throw(0, payload, Flight::Verdict { is_whole }, cx);
                }
                Flight::Verdict { .. } | Flight::Home => self.catch(payload, flight, cx),
            },
        }
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Measure { .. } => 0,
            Message::Ball { payload, .. } => size_of_val::<[f64]>(payload),
        }
    }
}

impl Player {
    /// Handles a message that returns to the first player.
    fn catch(&mut self, payload: Numbers<f64>, flight: Flight, cx: &mut Context<'_, Self>) {
        let now_ns = cx.now().as_nanos();
        let Some(game) = &mut self.game else { return };
        let is_fine = match flight {
            Flight::Verdict { is_whole: there } => there && is_whole(&payload, game.bytes),
            _ => size_of_val::<[f64]>(&payload) == game.bytes,
        };
        if let Flight::Verdict { .. } = flight {
            game.begin_ns = now_ns;
        } else {
            game.left -= 1;
        }
        if is_fine && game.left > 0 {
            return throw(game.partner, payload, Flight::Out, cx);
        }
        let elapsed_ns = now_ns - game.begin_ns;
        cx.reply(game.reply, is_fine.then_some(elapsed_ns));
    }
}

fn throw(to: u32, payload: Numbers<f64>, flight: Flight, cx: &mut Context<'_, Player>) {
    let to = cx.collection().at(Ix1(to as i32));
    cx.send(&to, Message::Ball { payload, flight });
}

fn job(options: Options) -> Job {
    let Options { seconds, max_bytes, rounds, json, .. } = options;
    let enough_ns = (seconds * 1e9) as u64;
    if options.pairs {
        return pairs::job(Plan { sizes: options.bytes, rounds, enough_ns, json });
    }
    Job::new("pingpong")
        .actor::<Player>()
        .main(async move |grid| run(&grid, enough_ns, max_bytes).await)
}

async fn run(grid: &Grid, enough_ns: u64, max_bytes: usize) -> Result<(), JobError> {
    let smallest = sizes_bytes()[0];
    if max_bytes < smallest {
        let reason = format!("no message has at most {max_bytes} bytes");
        return Err(format!("{reason}; `--max-bytes` takes {smallest} or more").into());
    }
    let players = grid.create_group::<Player>(Per::Pe, |_| ()).await?;
    let partner = grid.layout().pe_count() - 1;
    println!("   bytes    one way us         MB/s  round trips");
    let mut measured = 0;
    for bytes in sizes_bytes().into_iter().filter(|&bytes| bytes <= max_bytes) {
        let mut repetitions = 1;
        let elapsed_ns = loop {
            let question = move |reply| Message::Measure { partner, bytes, repetitions, reply };
            let answer: Option<u64> = players.member(Ix1(0)).ask(PATIENCE, question).await?;
            let Some(elapsed_ns) = answer else {
                return Err(
                    format!("verified: no (a message of {bytes} bytes arrived damaged)").into()
                );
            };
            match next_repetitions(repetitions, elapsed_ns, enough_ns) {
                Some(more) => repetitions = more,
                None => break elapsed_ns,
            }
        };
        println!(
            "{bytes:8} {:13.3} {:12.1} {repetitions:12}",
            one_way_ns(repetitions, elapsed_ns) / 1e3,
            bytes_per_second(bytes, repetitions, elapsed_ns) / 1e6
        );
        measured += 1;
    }
    println!("verified: yes (messages of {measured} sizes arrived whole at pe {partner} and back)");
    Ok(())
}
