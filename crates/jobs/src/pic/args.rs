//! The options of the job.

use clap::{Parser, ValueEnum};
use gridspan_kernels::pic::cloud::{Cloud, CloudShape};
use gridspan_kernels::pic::field::Field;
use gridspan_kernels::pic::particle::Velocity;
use gridspan_runtime::Placement;

pub(crate) const ABOUT: &str = "Particles in a field: an exact load imbalance that moves";

/// Options of the job.
#[derive(Clone, Debug, Parser)]
#[command(name = "pic", about = ABOUT)]
pub struct Options {
    /// Cells along an edge of the square; even.
    #[arg(long, default_value_t = 1000)]
    pub cells: u32,
    /// Approximate number of particles.
    #[arg(long, default_value_t = Cloud::REFERENCE.particles)]
    pub particles: u64,
    /// Speed to the right: 2k + 1 cells per step.
    #[arg(short, default_value_t = 1)]
    pub k: u32,
    /// Speed upwards: m cells per step.
    #[arg(short, default_value_t = 2, allow_negative_numbers = true)]
    pub m: i32,
    /// Initial distribution of the particles.
    #[arg(long, value_enum, default_value_t = Kind::Geometric)]
    pub shape: Kind,
    /// Geometric: each column has RHO times the particles of the one to its left.
    #[arg(long, default_value_t = 0.99)]
    pub rho: f64,
    /// Linear: the slope of BETA - ALPHA x.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub alpha: f64,
    /// Linear: the start of BETA - ALPHA x.
    #[arg(long, default_value_t = 2.0)]
    pub beta: f64,
    /// Patch: first and last column, first and last row [default: the middle quarter].
    #[arg(long, value_delimiter = ',', value_name = "LEFT,RIGHT,BOTTOM,TOP")]
    pub patch: Option<Vec<u32>>,
    /// Number of steps.
    #[arg(long, default_value_t = 50)]
    pub steps: u64,
    /// Blocks along an edge; at most one for each cell.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub blocks: u32,
    /// Initial placement of blocks. They are numbered along columns, so that `round-robin` gives
    /// each PE a part of every column if the number of PEs divides --blocks.
    #[arg(long, value_enum, default_value_t = BlockPlacement::Block)]
    pub placement: BlockPlacement,
    /// Steps between sync points, at which blocks may be balanced; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sync_every: u64,
    /// Steps between reports of the fullest block, after which main can also begin again from a
    /// checkpoint; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub report_every: u64,
}

/// [`CloudShape`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A constant factor from column to column.
    Geometric,
    /// The squared cosine over half a period.
    Sinusoidal,
    /// A straight line over the columns.
    Linear,
    /// A rectangle.
    Patch,
}

/// [`Placement`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BlockPlacement {
    /// Neighbouring columns on the same PE.
    Block,
    /// One block after the other, PE by PE.
    RoundRobin,
    /// Scattered evenly over all PEs.
    Scatter,
}

impl From<BlockPlacement> for Placement {
    fn from(spread: BlockPlacement) -> Self {
        match spread {
            BlockPlacement::Block => Self::Block,
            BlockPlacement::RoundRobin => Self::RoundRobin,
            BlockPlacement::Scatter => Self::Scatter,
        }
    }
}

impl Options {
    /// Creates the square and its cloud.
    ///
    /// # Errors
    /// If a parameter is out of bounds.
    pub fn prepare(&self) -> Result<(Field, Cloud), String> {
        if self.patch.is_some() && self.shape != Kind::Patch {
            return Err("--patch is for the shape of that name; add --shape patch".to_owned());
        }
        let field = Field::new(self.cells).map_err(|error| error.to_string())?;
        let shape = match self.shape {
            Kind::Geometric => CloudShape::Geometric { rho: self.rho },
            Kind::Sinusoidal => CloudShape::Sinusoidal,
            Kind::Linear => CloudShape::Linear { alpha: self.alpha, beta: self.beta },
            Kind::Patch => {
                let (low, high) = (self.cells / 4, (3 * self.cells / 4).max(1) - 1);
                match self.patch.as_deref() {
                    Some(&[left, right, bottom, top]) => {
                        CloudShape::Patch { left, right, bottom, top }
                    }
                    None => CloudShape::Patch { left: low, right: high, bottom: low, top: high },
                    Some(_) => return Err("a patch has four bounds, such as 0,9,0,9".to_owned()),
                }
            }
        };
        let speed = Velocity { k: self.k, m: self.m };
        let cloud = Cloud { particles: self.particles, shape, speed };
        cloud.check(&field).map_err(|error| error.to_string())?;
        Ok((field, cloud))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_reference_problem() {
        let (field, cloud) = prepare(&[]).unwrap();
        assert_eq!((field.cells(), cloud), (1000, Cloud::REFERENCE));
    }

    #[test]
    fn every_shape_can_be_selected() {
        let shape = |words: &[&str]| prepare(words).map(|(_, cloud)| cloud.shape);
        let quarter = CloudShape::Patch { left: 25, right: 74, bottom: 25, top: 74 };
        assert_eq!(shape(&["--cells", "100", "--shape", "patch"]), Ok(quarter));
        let given = CloudShape::Patch { left: 1, right: 2, bottom: 3, top: 4 };
        assert_eq!(shape(&["--shape", "patch", "--patch", "1,2,3,4"]), Ok(given));
        assert_eq!(shape(&["--shape", "sinusoidal"]), Ok(CloudShape::Sinusoidal));
        let line = CloudShape::Linear { alpha: -1.0, beta: 3.0 };
        assert_eq!(shape(&["--shape", "linear", "--alpha", "-1", "--beta", "3"]), Ok(line));
    }

    #[test]
    fn invalid_parameters_are_refused() {
        assert!(prepare(&["--cells", "7"]).is_err());
        assert!(prepare(&["--rho", "1"]).is_err());
        assert!(prepare(&["-k", "99999999"]).is_err());
        assert!(prepare(&["--particles", "0"]).is_err());
        assert!(prepare(&["--shape", "patch", "--patch", "1,2"]).is_err());
        let error = prepare(&["--patch", "1,2,3,4"]).unwrap_err();
        assert!(error.contains("add --shape patch"), "{error}");
    }

    fn prepare(words: &[&str]) -> Result<(Field, Cloud), String> {
        Options::try_parse_from(["pic"].iter().chain(words)).unwrap().prepare()
    }
}
