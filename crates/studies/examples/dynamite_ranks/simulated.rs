//! Runs of a program in virtual time.

use crate::programs::{Cluster, Program, printed_seconds};
use clap::Parser;
use gridspan_balance::StrategyName;
use gridspan_jobs::fem::job::{FemOptions, job_with};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::error::Error;
use std::path::Path;
use std::process::{self, Command};
use std::sync::mpsc;
use std::{env, fs};

/// Speed of processors, as a fraction of the speed that the programs' charges assume.
const SPEED: &str = "1/100";
/// Duration of the load, as a multiple of the program's time without load.
const CYCLES: f64 = 4.0;

/// A setting of the runs.
pub(crate) struct Simulated<'a> {
    pub(crate) gridctl: &'a Path,
    pub(crate) program: &'a Program,
    /// Bandwidth of the links.
    pub(crate) lan: &'a str,
}

impl Simulated<'_> {
    /// The time of a program in virtual seconds, under a load that stays on each node for `stay`
    /// seconds.
    pub(crate) fn seconds(
        &self,
        strategy: &str,
        stay: Option<f64>,
        repeat: u32,
    ) -> Result<f64, Box<dyn Error>> {
        let words = self.program.words(self.program.cluster.ranks, repeat);
        let grid = grid(&self.program.cluster, self.lan, stay);
        match words[0].as_str() {
            "fem" => fem_seconds(&words, &grid, strategy),
            _ => self.printed(&words, &grid, strategy),
        }
    }

    /// Runs `gridctl sim`, and returns the seconds that the program prints.
    fn printed(&self, words: &[String], grid: &str, strategy: &str) -> Result<f64, Box<dyn Error>> {
        let file = env::temp_dir().join(format!("dynamite_ranks-{}.toml", process::id()));
        fs::write(&file, grid)?;
        let mut command = Command::new(self.gridctl);
        command.args(["sim", "--balance", strategy, "--grid"]).arg(&file).args(words);
        let output = command.output();
        fs::remove_file(&file)?;
        let output = output?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{words:?} ended with {}:\n{errors}", output.status).into());
        }
        printed_seconds(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Runs `fem` in this process, since `gridctl sim` has no nodes whose PEs share a processor.
fn fem_seconds(words: &[String], grid: &str, strategy: &str) -> Result<f64, Box<dyn Error>> {
    let (tell, told) = mpsc::channel();
    let job = job_with(FemOptions::try_parse_from(words)?, move |outcome| {
        tell.send(outcome.time).map_err(|error| error.to_string().into())
    });
    let job = job.strategy(strategy.parse::<StrategyName>()?);
    let options = SimOptions::default().with_processors(1);
    let simulation = Simulation::new(job, GridSpec::from_toml(grid)?, options);
    let outcome = simulation.map_err(|error| error.to_string())?.run().outcome;
    outcome.map_err(|error| error.to_string())?;
    Ok(told.recv()?.as_secs_f64())
}

/// The grid file: one site, and the load that goes around.
fn grid(cluster: &Cluster, lan: &str, stay: Option<f64>) -> String {
    let Cluster { nodes, pes, distance, stay: share, .. } = *cluster;
    let mut changes = Vec::new();
    let turns = stay.map_or(0, |_| (CYCLES / share) as usize);
    for turn in 0..turns {
        let node = turn * distance % nodes;
        for (at, load) in [(turn, 1), (turn + 1, 0)] {
            let ms = at as f64 * stay.unwrap_or_default() * 1e3;
            changes.push(format!("  \"at {ms:.0}ms node n{node} load={load}\",\n"));
        }
    }
    let (changes, last) = (changes.concat(), nodes - 1);
    let lan = format!("[lan]\nlatency = \"50us\"\nbandwidth = \"{lan}\"\n");
    let site = format!("hosts = [\"n[0-{last}]\"]\npes = {pes}\nspeed = \"{SPEED}\"\n");
    format!("timeline = [\n{changes}]\n{lan}[site.a]\n{site}")
}
