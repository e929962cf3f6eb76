//! Measures the speed of the simulator: neighbours on a ring send messages, on a given number of
//! PEs.
//!
//! `cargo run --release -p gridspan-studies --example speed -- 4096`

use gridspan_runtime::{Actor, Context, Ix1, Job, Layout, Op, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;

const ROUNDS: u32 = 100;

#[derive(Serialize, Deserialize)]
struct Cell {
    size: i32,
    heard: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Start,
    Hop(u32),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = i32;
    type Message = Msg;

    fn create(size: i32, _cx: &mut Context<'_, Self>) -> Self {
        Self { size, heard: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        let rounds = match message {
            Msg::Start => ROUNDS,
            Msg::Hop(left) => {
                self.heard += 1;
                if self.heard == 2 * ROUNDS {
                    cx.contribute(Op::Sum, u64::from(self.heard), To::main());
                }
                left
            }
        };
        if rounds > 0 {
            let me = cx.index().0;
            let sides: &[i32] = if rounds == ROUNDS { &[1, self.size - 1] } else { &[1] };
            for side in sides {
                let next = cx.collection().at(Ix1((me + side) % self.size));
                cx.send(&next, Msg::Hop(rounds - 1));
            }
        }
    }
}

fn main() -> ExitCode {
    let pes: u32 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(4096);
    let (sites, nodes) = (4, (pes / 4 / 16).max(1));
    let layout = (0..sites).map(|site| (format!("s{site}"), vec![16; nodes as usize])).collect();
    let Ok(spec) = GridSpec::from_layout(&Layout::new(layout)) else { return ExitCode::FAILURE };
    let size = spec.layout().pe_count() * 4;
    let job = Job::new("ring").actor::<Cell>().main(async move |grid| {
        let cells = grid.create::<Cell>(Ix1::range(size), |_| size as i32).await?;
        cells.broadcast(Msg::Start);
        let heard: u64 = cells.reduction(Op::Sum).await?;
        let expected = u64::from(size) * u64::from(2 * ROUNDS);
        if heard == expected { Ok(()) } else { Err(format!("{heard} of {expected}").into()) }
    });
    let begin = Instant::now();
    let simulation = match Simulation::new(job, spec, SimOptions::default()) {
        Ok(simulation) => simulation,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let report = simulation.run();
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} PEs: {} events and {} messages in {seconds:.2} s, {:.0} events/s; virtual time {}; {:?}",
        size / 4,
        report.events,
        report.messages,
        report.events as f64 / seconds,
        report.virtual_time,
        report.outcome,
    );
    if report.outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
