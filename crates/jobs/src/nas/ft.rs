//! FT: solves a diffusion equation in Fourier space (RNR-94-007, section 2.2.4).
//!
//! In space a rank has planes of equal `z`. In Fourier space it has planes of equal `x`, so that
//! the transforms along `z` are local, too. A transpose is an all-to-all exchange.

use super::class::{Check, ProblemClass};
use super::kernel::Kernel;
use gridspan_kernels::nas::ft::{ComplexNumber, RankTransforms, evolve, from_pairs, to_pairs};
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const TOLERANCE: f64 = 1e-12;
/// Virtual time of a point in the transform along one axis, with the copies around it: about that
/// of a core at 3 GHz.
const POINT_COST: Duration = Duration::from_nanos(20);

const EXTENTS: [[u32; 3]; 4] = [[64, 64, 64], [128, 128, 32], [256, 256, 128], [512, 256, 256]];

/// The published checksums, one for each iteration.
const CHECKSUMS: [&[[f64; 2]]; 4] = [
    &[
        [5.546087004964e2, 4.845363331978e2],
        [5.546385409189e2, 4.865304269511e2],
        [5.546148406171e2, 4.883910722336e2],
        [5.545423607415e2, 4.901273169046e2],
        [5.544255039624e2, 4.917475857993e2],
        [5.542683411902e2, 4.932597244941e2],
    ],
    &[
        [5.673612178944e2, 5.293246849175e2],
        [5.631436885271e2, 5.282149986629e2],
        [5.594024089970e2, 5.270996558037e2],
        [5.560698047020e2, 5.260027904925e2],
        [5.530898991250e2, 5.249400845633e2],
        [5.504159734538e2, 5.239212247086e2],
    ],
    &[
        [5.046735008193e2, 5.114047905510e2],
        [5.059412319734e2, 5.098809666433e2],
        [5.069376896287e2, 5.098144042213e2],
        [5.077892868474e2, 5.101336130759e2],
        [5.085233095391e2, 5.104914655194e2],
        [5.091487099959e2, 5.107917842803e2],
    ],
    &[
        [5.177643571579e2, 5.077803458597e2],
        [5.154521291263e2, 5.088249431599e2],
        [5.146409228649e2, 5.096208912659e2],
        [5.142378756213e2, 5.101023387619e2],
        [5.139626667737e2, 5.103976610617e2],
        [5.137423460082e2, 5.105948019802e2],
        [5.135547056878e2, 5.107404165783e2],
        [5.133910925466e2, 5.108576573661e2],
        [5.132470705390e2, 5.109577278523e2],
        [5.131197729984e2, 5.110460304483e2],
        [5.130070319283e2, 5.111252433800e2],
        [5.129070537032e2, 5.111968077718e2],
        [5.128182883502e2, 5.112616233064e2],
        [5.127393733383e2, 5.113203605551e2],
        [5.126691062020e2, 5.113735928093e2],
        [5.126064276004e2, 5.114218460548e2],
        [5.125504076570e2, 5.114656139760e2],
        [5.125002331720e2, 5.115053595966e2],
        [5.124551951846e2, 5.115415130407e2],
        [5.124146770029e2, 5.115744692211e2],
    ],
];

/// The transforms of a rank, and the exchanges between them.
struct Solver<'a> {
    world: &'a Comm,
    transforms: RankTransforms,
}

impl<'a> Solver<'a> {
    fn new(world: &'a Comm, extents: [u32; 3]) -> Self {
        Self { world, transforms: RankTransforms::new(extents, world.size(), world.rank()) }
    }

    /// Transforms a field to Fourier space, by `x`, `y` and `z`.
    async fn to_spectrum(
        &self,
        field: Vec<ComplexNumber>,
    ) -> Result<Vec<ComplexNumber>, RankError> {
        let points = field.len();
        let blocks = self.transforms.blocks_of_field(field);
        self.charge(2 * points);
        let received = self.world.alltoallv(blocks).await?;
        let spectrum = self.transforms.spectrum_of(&received);
        self.charge(spectrum.len());
        Ok(spectrum)
    }

    /// Transforms back, without division by the number of points.
    async fn to_space(
        &self,
        spectrum: Vec<ComplexNumber>,
    ) -> Result<Vec<ComplexNumber>, RankError> {
        let points = spectrum.len();
        let blocks = self.transforms.blocks_of_spectrum(spectrum);
        self.charge(points);
        let received = self.world.alltoallv(blocks).await?;
        let field = self.transforms.field_of(&received);
        self.charge(2 * field.len());
        Ok(field)
    }

    /// Charges the time of transforms along one axis. Called where a transform ends, so that the
    /// exchange that follows begins at that time.
    fn charge(&self, points: usize) {
        self.world.charge(POINT_COST * points as u32);
    }

    /// The sum of some elements of the field, divided by the number of points.
    async fn checksum(&self, field: &[ComplexNumber]) -> Result<[f64; 2], RankError> {
        let mine = self.transforms.checksum(field);
        let sums = self.world.allreduce(&mine, ops::sum).await?;
        let points = self.transforms.points() as f64;
        Ok([sums[0] / points, sums[1] / points])
    }
}

/// The state of a rank.
#[derive(Serialize, Deserialize)]
pub(super) struct Ft {
    class: ProblemClass,
    spectrum: Vec<[f64; 2]>,
    /// The changes of the spectrum in one step. A rank that has moved computes them again.
    #[serde(skip)]
    factors: Vec<f64>,
    checksums: Vec<[f64; 2]>,
}

impl Kernel for Ft {
    const NAME: &'static str = "ft";

    fn iterations(class: ProblemClass) -> u32 {
        class.of(CHECKSUMS).len() as u32
    }

    fn mega_operations(class: ProblemClass) -> f64 {
        let points: f64 = class.of(EXTENTS).iter().map(|extent| f64::from(*extent)).product();
        let steps = f64::from(Self::iterations(class));
        let per_point = 14.8157 + 7.19641 * points.ln() + (5.23518 + 7.21113 * points.ln()) * steps;
        points * per_point / 1e6
    }

    async fn prepare(world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        let extents = class.of(EXTENTS);
        if world.size() > extents[0].min(extents[2]) {
            return Err(format!("{} ranks for a grid of {extents:?}", world.size()).into());
        }
        let (spectrum, factors, checksums) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { class, spectrum, factors, checksums })
    }

    async fn start(&mut self, world: &Comm) -> Result<(), RankError> {
        let solver = Solver::new(world, self.class.of(EXTENTS));
        self.factors = solver.transforms.factors();
        let spectrum = solver.to_spectrum(solver.transforms.initial()).await?;
        self.spectrum = to_pairs(&spectrum);
        Ok(())
    }

    async fn iterate(&mut self, world: &Comm, _iteration: u32) -> Result<(), RankError> {
        let solver = Solver::new(world, self.class.of(EXTENTS));
        if self.factors.is_empty() {
            self.factors = solver.transforms.factors();
        }
        evolve(&mut self.spectrum, &self.factors);
        let field = solver.to_space(from_pairs(&self.spectrum)).await?;
        self.checksums.push(solver.checksum(&field).await?);
        Ok(())
    }

    fn reset(&mut self, _world: &Comm) {
        self.checksums.clear();
    }

    async fn checks(&mut self, _world: &Comm) -> Result<Vec<Check>, RankError> {
        let mut checks = Vec::new();
        let steps = self.checksums.iter().zip(self.class.of(CHECKSUMS));
        for (step, (found, published)) in steps.enumerate() {
            for (part, (found, published)) in ["re", "im"].iter().zip(found.iter().zip(published)) {
                let name = format!("checksum {} {part}", step + 1);
                checks.push(Check::new(name, *found, *published, TOLERANCE));
            }
        }
        Ok(checks)
    }
}
