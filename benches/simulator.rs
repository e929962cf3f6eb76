//! The simulator: events per second on few and on many PEs, and a step of molecular dynamics on 128
//! PEs.
//!
//! `cargo bench --bench simulator`; a word after `--` selects figures, as in `-- ring`.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;
#[path = "support/talk.rs"]
mod talk;

use gridspan_sim::{SimOptions, Simulation};
use gridspan_studies::figures::FigureUnit;
use gridspan_topology::{GridSpec, Layout};
use suite::{Sample, Suite};
use talk::Pattern;

fn main() {
    let mut suite = Suite::new("simulator");
    for pes in [128, 4096] {
        for pattern in [Pattern::Ring, Pattern::AllToAll] {
            events(&mut suite, pattern, pes);
        }
    }
    molecular_dynamics(&mut suite);
    suite.finish();
}

/// Returns a grid of four sites with nodes of 16 PEs.
fn grid(pes: u32) -> GridSpec {
    let nodes = vec![16; (pes / 4 / 16) as usize];
    let layout = (0..4).map(|site| (format!("s{site}"), nodes.clone())).collect();
    GridSpec::from_layout(&Layout::new(layout)).expect("the layout is small")
}

/// Measures the rate of events while actors, one on each PE, send messages.
fn events(suite: &mut Suite, pattern: Pattern, pes: u32) {
    let messages = suite.choose(1_000_000, 40_000);
    let title = format!("{} of {pes}", pattern.name());
    let run = || {
        let job = talk::job(pattern, pes, messages / u64::from(pes));
        let mut sample = Sample { elapsed: std::time::Duration::ZERO, operations: 0 };
        let simulation = Simulation::new(job, grid(pes), SimOptions::default());
        let simulation = simulation.expect("the job can run");
        let measured = Sample::of(1, || {
            let report = simulation.run();
            report.outcome.expect("all messages come");
            sample.operations = report.events;
        });
        sample.elapsed = measured.elapsed;
        sample
    };
    suite.single(&format!("events, {title}"), FigureUnit::Rate, None, run);
}

/// Measures a step of the standard droplet, with forces that are really computed.
fn molecular_dynamics(suite: &mut Suite) {
    let steps: u64 = suite.choose(10, 1);
    let options = suite.choose(&[][..], &["--atoms", "3000"][..]);
    let steps_text = steps.to_string();
    let arguments: Vec<String> = ["--quiet", "--steps", &steps_text]
        .iter()
        .chain(options)
        .map(|word| (*word).to_owned())
        .collect();
    let Some(entry) = gridspan_jobs::find("leanmd") else { return };
    let run = || {
        let job = (entry.build)(&arguments).expect("the arguments are right");
        let simulation = Simulation::new(job, grid(128), SimOptions::default());
        let simulation = simulation.expect("the job can run");
        Sample::of(steps, || simulation.run().outcome.expect("the atoms move"))
    };
    suite.single("leanmd on 128, real time of a step", FigureUnit::Time, None, run);
}
