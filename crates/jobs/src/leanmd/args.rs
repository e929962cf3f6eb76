//! The options of the job, and the system and the schedule that they define.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use gridspan_kernels::leanmd::decomposition::Cells;
use gridspan_kernels::leanmd::droplet::{Droplet, STANDARD_CUTOFF, STANDARD_DT};
use gridspan_kernels::leanmd::io;
use gridspan_kernels::leanmd::potential::{LennardJones, Truncation};
use gridspan_kernels::leanmd::system::{System, VELOCITY_SEED};

use super::schedule::{HandlingOrder, Schedule, WorkMode};

pub(crate) const ABOUT: &str =
    "Molecular dynamics of a Lennard-Jones droplet in 3,024 pairs of cells";

/// Minimum width of cells relative to the cutoff if the number of cells is not given and the box is
/// wide enough. Such cells form few pairs, and leave room for atoms to stray, so that atoms need
/// not change cells in every step. This width gives the standard droplet 6 x 6 x 6 cells.
const CELL_EDGE_PER_CUTOFF: f64 = 1.6;

/// Maximum number of steps between changes of cells if the interval is not given, as in the
/// original LeanMD.
const MIGRATE_EVERY_MAX: f64 = 20.0;

/// Assumed maximum speed of an atom during the run, relative to the largest speed at the start, or
/// to 1 if that is larger.
const SPEED_MARGIN: f64 = 3.0;

/// Density of the uniform system in atoms / sigma^3.
const UNIFORM_DENSITY: f64 = 0.8442;
/// Temperature of the uniform system in epsilon / k.
const UNIFORM_TEMPERATURE: f64 = 1.44;

const EXAMPLES: &str = "Units are reduced: lengths in sigma, energies in epsilon, masses 1.

Examples:
  leanmd                                      the standard droplet, 30,000 atoms
  leanmd --system uniform --size 12           a crystal of 4 * 12^3 atoms that melts
  leanmd --input water.pdb --sigma 3.4        a file in angstrom
  leanmd --atoms 2000 --check-serial          compare every bit with a serial run
  leanmd --trajectory run.xyz --every 10      write what OVITO and VMD read";

/// Options of the job.
#[derive(Clone, Debug, Parser)]
#[command(name = "leanmd", about = ABOUT, after_help = EXAMPLES)]
pub struct Options {
    /// System to start from.
    #[arg(long, value_enum, default_value_t = Built::Droplet)]
    pub system: Built,
    /// Approximate number of atoms.
    #[arg(long, default_value_t = Droplet::STANDARD.atoms, conflicts_with = "size")]
    pub atoms: u32,
    /// Uniform system: a crystal of SIZE^3 cells with four atoms each.
    #[arg(long)]
    pub size: Option<u32>,
    /// Uniform system: compress it smoothly until its highest density is RATIO times its lowest.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = at_least_one)]
    pub contrast: f64,
    /// Start from this file instead: XYZ, extended XYZ, LAMMPS data or PDB.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system", "atoms", "size", "contrast"])]
    pub input: Option<PathBuf>,
    /// Lengths of the box, if the file does not contain them.
    #[arg(long = "box", value_name = "X,Y,Z", value_parser = triple::<f64>, requires = "input")]
    pub lengths: Option<[f64; 3]>,
    /// Length unit of the file, by which all lengths are divided.
    #[arg(long, default_value_t = 1.0, requires = "input", value_parser = positive)]
    pub sigma: f64,
    /// Draw velocities of this temperature [default: 0.7 for the droplet, 1.44 for uniform; a file
    /// keeps its velocities].
    #[arg(long, value_parser = positive)]
    pub temperature: Option<f64>,
    /// Number of steps.
    #[arg(long, default_value_t = 100)]
    pub steps: u64,
    /// Time step.
    #[arg(long, default_value_t = STANDARD_DT, value_parser = positive)]
    pub dt: f64,
    /// Cutoff distance of the forces [default: 5 for the droplet, else 2.5].
    #[arg(long, value_parser = positive)]
    pub cutoff: Option<f64>,
    /// Form of the potential at the cutoff.
    #[arg(long, value_enum, default_value_t = TruncationName::ForceShift)]
    pub truncation: TruncationName,
    /// Cells per axis [default: as many as fit with a width of 1.6 times the cutoff].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple::<u32>)]
    pub cells: Option<[u32; 3]>,
    /// Steps between changes of cells [default: up to 20, fewer where atoms could stray too far].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub migrate_every: Option<u64>,
    /// Steps between lines of the report.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub report_every: u64,
    /// Write the atoms to this file, as extended XYZ.
    #[arg(long, value_name = "FILE")]
    pub trajectory: Option<PathBuf>,
    /// Steps between frames of the trajectory.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "trajectory",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// Steps between sync points, at which actors may be balanced; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sync_every: u64,
    /// Milliseconds of waiting after each step, to try commands on a job that lasts long but
    /// computes little.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub pause: u64,
    /// Let actors move at random, as a test.
    #[arg(long)]
    pub migrate_randomly: bool,
    /// Seed of the velocities and the random moves.
    #[arg(long, default_value_t = VELOCITY_SEED)]
    pub seed: u64,
    /// Virtual time of computation, relative to the machine on which the costs were measured.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub cost: f64,
    /// Form of the computation; all but `compute` are for studies of load balancing.
    #[arg(long, value_enum, default_value_t = WorkMode::Compute)]
    pub work: WorkMode,
    /// Order in which a PE handles the messages that are ready.
    #[arg(long, value_enum, default_value_t = HandlingOrder::Steps)]
    pub order: HandlingOrder,
    /// Repeat the run on one thread afterwards, and compare every bit.
    #[arg(long)]
    pub check_serial: bool,
    /// Print only the result.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print nothing, for studies.
    #[arg(skip)]
    pub silent: bool,
}

/// The built-in systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Built {
    /// A crystal that fills the box.
    Uniform,
    /// A liquid droplet in its vapour.
    Droplet,
}

/// [`Truncation`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TruncationName {
    /// Energy and force are discontinuous; the energy is not conserved.
    Truncated,
    /// The force is discontinuous.
    EnergyShift,
    /// Energy and force are continuous.
    ForceShift,
}

impl From<TruncationName> for Truncation {
    fn from(name: TruncationName) -> Self {
        match name {
            TruncationName::Truncated => Self::Truncated,
            TruncationName::EnergyShift => Self::EnergyShift,
            TruncationName::ForceShift => Self::LinearForceShift,
        }
    }
}

impl Options {
    /// Builds or reads the system, and creates the schedule.
    ///
    /// # Errors
    /// If the file cannot be read, or the options do not fit together; the message gives the
    /// remedy.
    pub fn prepare(&self) -> Result<(System, Schedule), String> {
        if self.check_serial && self.work != WorkMode::Compute {
            return Err("--check-serial compares what was computed; leave out --work".to_owned());
        }
        if self.system != Built::Uniform {
            if self.size.is_some() {
                let advice = "add --system uniform, or give --atoms";
                return Err(format!("--size is for the uniform system; {advice}"));
            }
            if self.contrast > 1.0 {
                return Err("--contrast is for the uniform system; add --system uniform".to_owned());
            }
        }
        let system = self.build()?;
        let is_droplet = self.input.is_none() && self.system == Built::Droplet;
        let cutoff = self.cutoff.unwrap_or(if is_droplet { STANDARD_CUTOFF } else { 2.5 });
        let law = LennardJones::new(cutoff, self.truncation.into()).map_err(text)?;
        let cells = match self.cells {
            Some(dims) => Cells::with_dims(system.lengths, dims, cutoff),
            None => Cells::for_cutoff(system.lengths, CELL_EDGE_PER_CUTOFF * cutoff)
                .or_else(|_| Cells::for_cutoff(system.lengths, cutoff)),
        };
        let cells = cells.map_err(text)?;
        let schedule = Schedule {
            cells,
            law,
            dt: self.dt,
            steps: self.steps,
            migrate_every: self
                .migrate_every
                .unwrap_or_else(|| safe_interval(&system, cells.stray_max(cutoff), self.dt)),
            report_every: self.report_every,
            frame_every: self.trajectory.as_ref().map_or(0, |_| self.every),
            sync_every: self.sync_every,
            pause_ms: self.pause,
            migrate_randomly: self.migrate_randomly,
            seed: self.seed,
            cost: self.cost,
            work: self.work,
            order: self.order,
        };
        Ok((system, schedule))
    }

    fn build(&self) -> Result<System, String> {
        let (mut system, default) = match (&self.input, self.system) {
            (Some(path), _) => (self.read(path)?, None),
            (None, Built::Droplet) => {
                let droplet = Droplet::of_size(self.atoms);
                (droplet.build().map_err(text)?, Some(droplet.temperature))
            }
            (None, Built::Uniform) => {
                let side = (f64::from(self.atoms) / 4.0).cbrt().round().max(1.0);
                let size = self.size.unwrap_or(side as u32);
                let built = System::uniform_fcc(size, UNIFORM_DENSITY, UNIFORM_TEMPERATURE);
                (built.map_err(text)?.pressed(self.contrast), Some(UNIFORM_TEMPERATURE))
            }
        };
        if let Some(temperature) = self.temperature.or(default) {
            system.draw_velocities_from(self.seed, temperature).map_err(text)?;
        }
        Ok(system)
    }

    fn read(&self, path: &std::path::Path) -> Result<System, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(|error| named(&error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let snapshot = io::read(&bytes, name.as_deref()).map_err(|error| named(&error))?;
        let mut system = snapshot.into_system(self.lengths).map_err(|error| named(&error))?;
        system.scale_lengths(self.sigma).map_err(text)?;
        Ok(system)
    }
}

/// Returns the number of steps between changes of cells in which atoms of the assumed maximum speed
/// stray at most `most` sigma from their cell: at least 1, at most [`MIGRATE_EVERY_MAX`].
fn safe_interval(system: &System, most: f64, dt: f64) -> u64 {
    let squared = |velocity: &[f64; 3]| velocity.iter().map(|axis| axis * axis).sum::<f64>();
    let fastest = system.velocities.iter().map(squared).fold(1.0, f64::max).sqrt();
    (most / (SPEED_MARGIN * fastest * dt)).floor().clamp(1.0, MIGRATE_EVERY_MAX) as u64
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn positive(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a positive number".to_owned()),
    }
}

fn at_least_one(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 1.0 => Ok(number),
        _ => Err("must be a number of at least 1".to_owned()),
    }
}

/// Parses three numbers separated by commas, or one for all three.
fn triple<T: std::str::FromStr + Copy>(word: &str) -> Result<[T; 3], String> {
    let numbers: Result<Vec<T>, _> = word.split(',').map(str::parse).collect();
    match numbers.ok().as_deref() {
        Some(&[all]) => Ok([all; 3]),
        Some(&[x, y, z]) => Ok([x, y, z]),
        _ => Err("must be three numbers such as 6,6,6, or one for all axes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_standard_droplet_with_3024_pairs() {
        let (system, schedule) = prepare(&[]).unwrap();
        assert_eq!(system, Droplet::STANDARD.build().unwrap());
        assert_eq!((schedule.cells.dims(), schedule.cells.pairs().len()), ([6; 3], 3024));
        assert_eq!((schedule.migrate_every, schedule.law.cutoff()), (20, 5.0));
    }

    #[test]
    fn atoms_change_cells_more_often_where_cells_are_narrower() {
        let (system, schedule) =
            prepare(&["--system", "uniform", "--size", "5", "--cells", "3"]).unwrap();
        assert_eq!((system.len(), schedule.cells.dims()), (500, [3; 3]));
        let (_, wide) = prepare(&["--system", "uniform", "--size", "5", "--cells", "1"]).unwrap();
        assert!(schedule.migrate_every < wide.migrate_every && wide.migrate_every == 20);
    }

    #[test]
    fn another_seed_draws_other_velocities_of_the_same_temperature() {
        let kinetic = |system: &System| -> f64 {
            system.velocities.iter().flatten().map(|axis| axis * axis / 2.0).sum()
        };
        let (one, _) = prepare(&["--atoms", "1000"]).unwrap();
        let (other, _) = prepare(&["--atoms", "1000", "--seed", "5"]).unwrap();
        assert_eq!(one.positions, other.positions);
        assert_ne!(one.velocities, other.velocities);
        assert!((kinetic(&one) - kinetic(&other)).abs() < 1e-9);
    }

    #[test]
    fn invalid_options_are_refused_with_advice() {
        for (words, expected) in [
            (&["--atoms", "2000", "--cells", "9"][..], "use fewer cells or a larger box"),
            (&["--input", "no-such-file.xyz"][..], "no-such-file.xyz: "),
            (&["--cutoff", "30", "--atoms", "2000"][..], "less than the cutoff 30"),
            (&["--size", "5"][..], "--size is for the uniform system; add --system uniform"),
            (&["--contrast", "2"][..], "--contrast is for the uniform system; add --system"),
        ] {
            let error = prepare(words).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse(&["--cells", "6,6"]).is_err());
        assert!(parse(&["--dt", "0"]).is_err());
        assert!(parse(&["--cutoff", "NaN"]).is_err());
        assert!(parse(&["--input", "a.xyz", "--atoms", "5"]).is_err());
        assert!(parse(&["--input", "a.xyz", "--contrast", "2"]).is_err());
        assert!(parse(&["--every", "2"]).is_err());
        assert!(parse(&["--every", "2", "--trajectory", "a.xyz"]).is_ok());
    }

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(["leanmd"].iter().chain(words))
    }

    fn prepare(words: &[&str]) -> Result<(System, Schedule), String> {
        parse(words).unwrap().prepare()
    }
}
