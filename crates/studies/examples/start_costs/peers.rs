//! The programs whose start and end are compared.

use crate::bounded::{Bounded, Cost};
use crate::daemons::Daemons;
use crate::job::Kind;
use gridspan_studies::mpi::{IMPLEMENTATIONS, Mpi};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that Slurm has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A way to start processes.
pub(crate) enum Peer {
    /// `gridctl run` with this program as a job.
    Gridctl { gridctl: PathBuf, program: PathBuf },
    /// An MPI with its empty program.
    Mpi { mpi: Mpi, program: PathBuf },
    /// `srun` with `true`; with its daemons, if they can be measured.
    Srun { is_in_allocation: bool, daemons: Option<Daemons> },
}

impl Peer {
    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Gridctl { .. } => "gridctl run",
            Self::Mpi { mpi, .. } => mpi.name,
            Self::Srun { .. } => "srun",
        }
    }

    /// The words of the command that starts this number of processes.
    pub(crate) fn command(&self, nodes: u32) -> Vec<String> {
        match self {
            Self::Gridctl { gridctl, program } => job_command(gridctl, program, Kind::Empty, nodes),
            Self::Mpi { mpi, program } => mpi.launch(nodes, program),
            Self::Srun { is_in_allocation, .. } => {
                let nodes = nodes.to_string();
                let mut words = vec!["srun", "--quiet", "--overcommit", "--ntasks", nodes.as_str()];
                words.extend(is_in_allocation.then_some("--overlap"));
                words.push("true");
                words.into_iter().map(str::to_owned).collect()
            }
        }
    }

    /// Runs the command of this peer by `run`, and completes its cost with that of processes which
    /// the command does not wait for. Fails as `run` does, or if such processes do not end.
    pub(crate) fn cost(
        &self,
        run: impl FnOnce() -> Result<Cost, Box<dyn Error>>,
    ) -> Result<Cost, Box<dyn Error>> {
        match self {
            Self::Srun { daemons: Some(daemons), .. } => daemons.added_to(run),
            _ => run(),
        }
    }

    /// Whether its costs have the processor time of all of its processes.
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self, Self::Srun { daemons: None, .. })
    }
}

/// The words of the command that runs a job of this study on this number of nodes.
pub(crate) fn job_command(gridctl: &Path, program: &Path, kind: Kind, nodes: u32) -> Vec<String> {
    let (gridctl, nodes) = (gridctl.display().to_string(), nodes.to_string());
    let program = program.display().to_string();
    let words = [gridctl.as_str(), "run", "-n", &nodes, &program, kind.word()];
    words.map(str::to_owned).to_vec()
}

/// The peers that are on this machine. Prints why the others are skipped.
pub(crate) fn found(folder: &Path, errors: &Path) -> Vec<Peer> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/start_costs/empty.c");
    let mut peers = Vec::new();
    for mpi in IMPLEMENTATIONS {
        match mpi.compile(&source, folder) {
            Ok(program) => peers.push(Peer::Mpi { mpi, program }),
            Err(reason) => println!("{} is skipped: {reason}", mpi.name),
        }
    }
    let is_in_allocation = std::env::var_os("SLURM_JOB_ID").is_some();
    let words = ["sinfo".to_owned(), "--noheader".to_owned()];
    let asked = Bounded { words: &words, variables: &[], limit: ANSWER_MAX, errors };
    match asked.run() {
        Ok(_) => peers.push(Peer::Srun { is_in_allocation, daemons: daemons() }),
        Err(reason) => println!("srun is skipped, since Slurm does not answer: {reason}"),
    }
    peers
}

/// Measures the daemons of Slurm, and prints what they use when idle, or why the processor time of
/// `srun` is not known.
fn daemons() -> Option<Daemons> {
    match Daemons::measured() {
        Ok(daemons) => {
            let idle_ms = daemons.idle_rate * 1e3;
            println!("srun: {idle_ms:.1} ms/s, which its idle daemons use, are subtracted");
            Some(daemons)
        }
        Err(reason) => {
            println!("srun has no processor time, since its daemons are not measured: {reason}");
            None
        }
    }
}
