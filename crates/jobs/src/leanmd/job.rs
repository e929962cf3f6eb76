//! The job: creates cells and pairs, prints their progress, and verifies their results.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use gridspan_kernels::leanmd::atoms::Atom;
use gridspan_kernels::leanmd::decomposition::Cells;
use gridspan_kernels::leanmd::fingerprint::StateFingerprint;
use gridspan_kernels::leanmd::force::PairSums;
use gridspan_kernels::leanmd::integrate::Motion;
use gridspan_kernels::leanmd::io::trajectory::{FrameInfo, write_frame};
use gridspan_kernels::leanmd::packing::unpack;
use gridspan_kernels::leanmd::serial::Observation;
use gridspan_kernels::leanmd::system::System;
use gridspan_runtime::{
    Collection, CollectionRef, Grid, GridError, Ix3, Job, JobError, Op, Placement,
};
use serde::{Deserialize, Serialize};

use super::args::{ABOUT, Options};
use super::index::{BESIDE_A_CELL, PairIx};
use super::outcome::MdOutcome;
use super::protocol::{Cell, CellInit, CellMessage, Pair, PairInit};
use super::schedule::Schedule;
use crate::entry::{Entry, parse};

pub(crate) const ENTRY: Entry =
    Entry { name: "leanmd", about: ABOUT, build: |arguments| Ok(job(parse("leanmd", arguments)?)) };

/// Builds the job with these options.
pub fn job(options: Options) -> Job {
    let main = async move |grid: Grid| run(&grid, &options).await.map(drop);
    definition().restartable_main(main)
}

/// Builds the job, which passes its verified outcome to `then`; for tests and studies.
pub fn job_with(
    options: Options,
    then: impl FnOnce(&Schedule, &MdOutcome) -> Result<(), JobError> + Send + 'static,
) -> Job {
    definition().main(async move |grid| {
        let (schedule, outcome) = run(&grid, &options).await?;
        then(&schedule, &outcome)
    })
}

fn definition() -> Job {
    Job::new("leanmd").actor::<Cell>().deterministic::<Pair>().placement(BESIDE_A_CELL)
}

/// Runs the job, and verifies its outcome.
async fn run(grid: &Grid, options: &Options) -> Result<(Schedule, MdOutcome), JobError> {
    let (system, schedule) = options.prepare()?;
    let outcome = simulate(grid, options, &system, &schedule).await?;
    if !options.silent {
        summarise(grid, &schedule, &outcome);
    }
    verify(options, &system, &schedule, &outcome)?;
    Ok((schedule, outcome))
}

/// The state of main at a progress point.
#[derive(Clone, Serialize, Deserialize)]
struct Progress {
    schedule: Schedule,
    /// The next step to be observed.
    step: u64,
    cells: CollectionRef<Cell>,
    pairs: CollectionRef<Pair>,
    outcome: MdOutcome,
    /// Number of bytes in the trajectory file.
    trajectory_bytes: u64,
}

/// Executes the schedule, or the rest of it after the checkpoint from which the job continues.
async fn simulate(
    grid: &Grid,
    options: &Options,
    system: &System,
    schedule: &Schedule,
) -> Result<MdOutcome, JobError> {
    let restored: Option<Progress> = grid.restored().await?;
    // The options are compared first, because the trajectory file is truncated when it is opened.
    if restored.as_ref().is_some_and(|progress| progress.schedule != *schedule) {
        return Err("the checkpoint was made with other options; start with those".into());
    }
    let kept = restored.as_ref().map(|progress| progress.trajectory_bytes);
    let mut frames = match &options.trajectory {
        Some(path) => Some(Frames::open(path, system, kept.unwrap_or(0))?),
        None => None,
    };
    let mut progress = match restored {
        Some(progress) => progress,
        None => begin(grid, system, schedule).await?,
    };
    let (cells, pairs) = (grid.collection(progress.cells), grid.collection(progress.pairs));
    if !options.quiet && kept.is_none() {
        println!("    step  ms/step     potential       kinetic         total");
    }
    let mut fits = true;
    for step in progress.step..=schedule.steps {
        if schedule.reports_at(step) {
            observe(step, &cells, &pairs, &mut progress.outcome).await?;
            if !options.quiet {
                print_line(&progress.outcome);
            }
        }
        if let Some(frames) = frames.as_mut().filter(|_| schedule.frames_at(step)) {
            let atoms: Vec<f64> = cells.reduction(Op::Concat).await?;
            progress.trajectory_bytes = frames.write(&atoms, step, schedule.dt)?;
        }
        progress.step = step + 1;
        if fits {
            fits = mark(grid, &progress).await?;
            if !fits && !options.silent {
                eprintln!("{NO_MORE_CHECKPOINTS}");
            }
        }
    }
    let prints: Vec<u64> = cells.reduction(Op::Concat).await?;
    let mut outcome = progress.outcome;
    outcome.fingerprints = prints.into_iter().map(StateFingerprint).collect();
    frames.map_or(Ok(()), Frames::finish)?;
    Ok(outcome)
}

/// The warning if what main has observed no longer fits into a checkpoint.
const NO_MORE_CHECKPOINTS: &str = "warning: the times and reports of all steps no longer fit into \
    a checkpoint, so no more are made; a larger --report-every postpones this";

/// Marks a progress point. If `progress` is too large, marks none and returns false. This happens
/// after some hundred thousand steps, because main keeps their times and reports.
async fn mark(grid: &Grid, progress: &impl Serialize) -> Result<bool, JobError> {
    match grid.progress(progress).await {
        Ok(_) => Ok(true),
        Err(GridError::TooLarge { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Creates the actors, and starts them.
async fn begin(grid: &Grid, system: &System, schedule: &Schedule) -> Result<Progress, JobError> {
    let (cells, pairs) = create(grid, system, schedule).await?;
    let outcome = MdOutcome {
        observations: Vec::new(),
        done_ns: Vec::new(),
        begin_ns: grid.now().await?.as_nanos() as f64,
        pairs_computed: 0,
        fingerprints: Vec::new(),
    };
    cells.broadcast(CellMessage::Start { pairs: pairs.reference() });
    let (cells, pairs) = (cells.reference(), pairs.reference());
    let schedule = *schedule;
    Ok(Progress { schedule, step: 0, cells, pairs, outcome, trajectory_bytes: 0 })
}

async fn create(
    grid: &Grid,
    system: &System,
    schedule: &Schedule,
) -> Result<(Collection<Cell>, Collection<Pair>), JobError> {
    let published = grid.publish(schedule).await?;
    let geometry = schedule.cells;
    let mut atoms = system.distribute(&geometry);
    let [x, y, z] = geometry.dims();
    let cells = grid.create::<Cell>(Ix3::grid(x, y, z), |Ix3(x, y, z)| CellInit {
        schedule: published,
        atoms: std::mem::take(&mut atoms[geometry.number([x, y, z])]),
    });
    let cells = cells.await?;
    let mut units = geometry.pairs();
    let indices: Vec<_> = units.iter().map(|unit| index(&geometry, [unit.a, unit.b])).collect();
    units.sort_by_key(|unit| index(&geometry, [unit.a, unit.b]));
    let members = cells.reference();
    let placement = Placement::Custom(BESIDE_A_CELL);
    let pairs = grid.create_placed::<Pair>(placement, indices, |wanted| {
        let found = units.binary_search_by_key(&wanted, |unit| index(&geometry, [unit.a, unit.b]));
        let unit = units[found.expect("indices are those of the units")].clone();
        PairInit { schedule: published, cells: members, unit }
    });
    Ok((cells, pairs.await?))
}

fn index(cells: &Cells, unit: [[i32; 3]; 2]) -> PairIx {
    let [a, b] = unit.map(|cell| cells.number(cell) as u32);
    PairIx { cells: cells.count() as u32, a, b }
}

/// Awaits the reports of cells and pairs after `step`, and sums them in order.
async fn observe(
    step: u64,
    cells: &Collection<Cell>,
    pairs: &Collection<Pair>,
    outcome: &mut MdOutcome,
) -> Result<(), JobError> {
    let done_ns: Vec<f64> = cells.reduction(Op::Max).await?;
    let motions: Vec<f64> = cells.reduction(Op::Concat).await?;
    let reports: Vec<f64> = pairs.reduction(Op::Concat).await?;
    let mut motion = Motion::default();
    for &[atoms, kinetic, x, y, z] in motions.as_chunks().0 {
        motion.add(Motion { atoms: atoms as u64, kinetic, momentum: [x, y, z] });
    }
    let mut sums = PairSums::default();
    outcome.pairs_computed = 0;
    for &[energy, virial, pairs, computed] in reports.as_chunks().0 {
        sums.add(PairSums { energy, virial, pairs: pairs as u64 });
        outcome.pairs_computed += computed as u64;
    }
    outcome.done_ns.extend(done_ns);
    outcome.observations.push(Observation { step, sums, motion });
    Ok(())
}

/// The trajectory file.
struct Frames {
    name: String,
    to: BufWriter<File>,
    system: System,
}

impl Frames {
    /// Opens the file, and truncates it to its first `kept` bytes, the number that it had at the
    /// checkpoint. Fails without a change if it has fewer.
    fn open(path: &Path, system: &System, kept: u64) -> Result<Self, JobError> {
        let name = path.display().to_string();
        let failed = |error: io::Error| format!("cannot open {name}: {error}");
        let mut to_open = OpenOptions::new();
        // Only a run from the start creates the file.
        to_open.create(kept == 0).truncate(false).write(true);
        let mut file = to_open.open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes < kept {
            return Err(format!(
                "{name} has {bytes} bytes, but had {kept} at the checkpoint; restore the file, or \
                 run the job from the start"
            )
            .into());
        }
        file.set_len(kept).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Self { name, to: BufWriter::new(file), system: system.clone() })
    }

    /// Writes a frame. Returns the number of bytes in the file.
    fn write(&mut self, atoms: &[f64], step: u64, dt: f64) -> Result<u64, JobError> {
        place(&mut self.system, atoms)?;
        let info = FrameInfo { step, time: step as f64 * dt, energy: None };
        write_frame(&mut self.to, &self.system, info)
            .and_then(|()| self.to.flush())
            .and_then(|()| self.to.stream_position())
            .map_err(|error| self.failed(&error))
    }

    fn finish(mut self) -> Result<(), JobError> {
        self.to.flush().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> JobError {
        format!("cannot write {}: {error}", self.name).into()
    }
}

/// Overwrites atoms of a system with these, which are [packed](unpack). Fails if the system does
/// not have one of them.
fn place(system: &mut System, atoms: &[f64]) -> Result<(), JobError> {
    let count = system.len();
    for Atom { id, species, position, velocity } in unpack(atoms) {
        let at = id as usize;
        if at >= count || usize::from(species) >= system.names.len() {
            return Err(format!(
                "received atom {id} of species {species}, but the system has {count} atoms of {} \
                 species; start all nodes from one build",
                system.names.len()
            )
            .into());
        }
        system.species[at] = species;
        system.positions[at] = position;
        system.velocities[at] = velocity;
    }
    Ok(())
}

fn print_line(outcome: &MdOutcome) {
    let Some(state) = outcome.observations.last() else { return };
    // The time since the preceding line, divided by the steps in between.
    let lines = &outcome.observations;
    let before = lines.len().checked_sub(2).map_or(0, |line| lines[line].step);
    let done = |step: u64| outcome.done_ns.get(step as usize).copied().unwrap_or_default();
    let steps = (state.step - before).max(1) as f64;
    let begin = if state.step == 0 { outcome.begin_ns } else { done(before) };
    println!(
        "{:8} {:8.3} {:13.4} {:13.4} {:13.4}",
        state.step,
        (done(state.step) - begin) / steps / 1e6,
        state.sums.energy,
        state.motion.kinetic,
        state.energy()
    );
}

fn summarise(grid: &Grid, schedule: &Schedule, outcome: &MdOutcome) {
    let Some(end) = outcome.observations.last() else { return };
    let layout = grid.layout();
    println!(
        "{} atoms in {} cells and {} pair actors on {} PEs at {} sites",
        end.motion.atoms,
        schedule.cells.count(),
        schedule.cells.pairs().len(),
        layout.pe_count(),
        layout.sites().count(),
    );
    println!(
        "temperature {:.4}, pressure {:.4}, trajectory {:016x}",
        end.motion.temperature(),
        end.pressure(schedule.cells.lengths().iter().product()),
        StateFingerprint::of_all(outcome.fingerprints.iter().copied()).0
    );
    println!(
        "{} steps in {:.3} s: median {:.3} ms a step, {:.1} million pairs of atoms a second",
        end.step,
        outcome.elapsed().as_secs_f64(),
        milliseconds(outcome.median_step()),
        outcome.pairs_per_second() / 1e6
    );
}

fn verify(
    options: &Options,
    system: &System,
    schedule: &Schedule,
    outcome: &MdOutcome,
) -> Result<(), JobError> {
    let conservation = outcome.conservation(schedule);
    if !conservation.is_fine() {
        let advice = "check the starting positions, or reduce --dt";
        return Err(format!("verified: no ({conservation}); {advice}").into());
    }
    let mut compared = "";
    if options.check_serial {
        let same = outcome.compare_with_serial(system, schedule);
        same.map_err(|difference| format!("verified: no ({difference})"))?;
        compared = ", every bit as on one thread";
    }
    if !options.silent {
        println!("verified: yes ({conservation}{compared})");
    }
    Ok(())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_kernels::leanmd::packing::pack;
    use gridspan_runtime::driver::embedded;

    #[test]
    fn a_run_goes_on_when_its_reports_no_longer_fit_into_a_checkpoint() {
        let job = Job::new("marks").main(async |grid: Grid| {
            assert!(mark(&grid, &vec![0.5_f64; 1000]).await?);
            assert!(!mark(&grid, &vec![0.5_f64; 1 << 20]).await?);
            Ok(())
        });
        embedded::run(job, 2).unwrap();
    }

    #[test]
    fn atoms_that_the_system_does_not_have_are_refused() {
        let mut system = System::at_rest(vec![[0.0; 3]; 2], [9.0; 3]);
        let atom = Atom { id: 1, species: 0, position: [1.0; 3], velocity: [2.0; 3] };

        place(&mut system, &pack(&[atom])).unwrap();

        assert_eq!((system.positions[1], system.velocities[1]), ([1.0; 3], [2.0; 3]));
        for wrong in [Atom { id: 2, ..atom }, Atom { species: 1, ..atom }] {
            let error = place(&mut system, &pack(&[wrong])).unwrap_err().to_string();
            assert!(error.contains("but the system has 2 atoms of 1 species"), "{error}");
        }
    }
}
