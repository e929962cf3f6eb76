//! The steps of a rank.
//!
//! Step `s + 1` of a subdomain needs the faces of its neighbours after step `s`, and nothing else.
//! With the blocking exchange a rank waits for each neighbour in turn, and then computes all
//! points. With the overlapped one it begins all sends and receives, computes the points that need
//! no ghosts, waits for the ghosts, and computes the others. In both, a PE with several ranks runs
//! those whose messages are there while others wait.

use super::problem::Problem;
use super::subdomain::{Face, Region, Subdomain};
use super::tiles::Tiles;
use crate::block_partition::BlockPartition;
use crate::emulated_work::emulate;
use crate::rank_clock::clock;
use clap::ValueEnum;
use gridspan_ranks::{Cartesian, Comm, RankError, ops, wait_all};
use gridspan_runtime::Time;
use std::time::Duration;

/// How a rank gets the faces of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Exchange {
    /// `sendrecv` with each neighbour in turn, then all points.
    Blocking,
    /// `irecv` and `isend` with all neighbours, the interior meanwhile, then the border.
    Overlap,
}

/// What all ranks do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) problem: Problem,
    pub(super) steps: u64,
    /// Steps between two values of the largest change; 0 for none but that of the last step.
    pub(super) check: u64,
    pub(super) exchange: Exchange,
    /// Compute time of a point in one step, which is charged.
    pub(super) point_cost: Duration,
    /// Whether ranks also wait for the time that they charge.
    pub(super) waits: bool,
    /// Ranks of a PE, which have a tile of the grid.
    pub(super) per_tile: u32,
}

/// What a rank knows at the end.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    pub(super) subdomain: Subdomain,
    /// The largest change of a point of all ranks in some steps.
    pub(super) changes: Vec<(u64, f64)>,
    /// Total time.
    pub(super) time: Duration,
    /// Time of a step in the later half.
    pub(super) step: Duration,
}

/// A rank with its neighbours.
struct Solver {
    plan: Plan,
    grid: Cartesian,
    neighbours: Vec<(u32, Face)>,
    interior: Region,
    border: Vec<Region>,
    subdomain: Subdomain,
}

/// Does all steps of one rank.
pub(super) async fn solve(world: &Comm, plan: Plan) -> Result<Solved, RankError> {
    let mut solver = Solver::new(world, plan).await?;
    let (middle, last) = (plan.steps.saturating_sub(1) / 2, plan.steps.saturating_sub(1));
    let mut at = [Time::default(); 2];
    let mut changes = Vec::new();
    let begin = clock(world).await?;
    for step in 0..plan.steps {
        let exchanged = solver.step(world).await?;
        if step == middle {
            at[0] = exchanged;
        }
        if step == last {
            at[1] = exchanged;
        }
        let is_due = plan.check > 0 && (step + 1).is_multiple_of(plan.check);
        if is_due || step == last {
            let change = world.allreduce(&[solver.subdomain.change()], ops::max).await?[0];
            changes.push((step + 1, change));
        }
    }
    let time = Duration::from_secs_f64((clock(world).await? - begin).max(0.0));
    let latest = world.allreduce(&at.map(|time| time.as_nanos()), ops::max).await?;
    let between = Duration::from_nanos(latest[1].saturating_sub(latest[0]));
    let step = between / ((last - middle).clamp(1, u32::MAX.into()) as u32);
    Ok(Solved { subdomain: solver.subdomain, changes, time, step })
}

impl Solver {
    async fn new(world: &Comm, plan: Plan) -> Result<Self, RankError> {
        let Problem { axes, size, .. } = plan.problem;
        let tiles = Tiles::new(axes, world.size(), plan.per_tile)?;
        let dims = tiles.dims();
        if dims.iter().any(|&extent| extent > size) {
            let ranks = world.size();
            let reason = format!(
                "{ranks} ranks are {dims:?} along the axes, which have {size} points; use more \
                 points, or another number of ranks"
            );
            return Err(reason.into());
        }
        let number = i64::from(tiles.subdomain_of(world.rank()));
        let ordered = world.split(Some(0), number).await?.ok_or("a rank is in no part")?;
        let grid = ordered.cartesian(&dims, &vec![false; axes]).await?;
        let grid = grid.ok_or("a rank has no subdomain")?;
        let coordinates = grid.coords(grid.rank())?;
        // The axis that two dimensions do not use has one place.
        let first_axis = plan.problem.first_axis();
        let mut places = [1..2, 1..2, 1..2];
        let mut neighbours = Vec::new();
        for (axis, (&extent, &coordinate)) in dims.iter().zip(&coordinates).enumerate() {
            let own = BlockPartition::new(size, extent).range(coordinate);
            places[first_axis + axis] = own.start + 1..own.end + 1;
            let (below, above) = grid.shift(axis, 1)?;
            let face = |is_upper| Face { axis: first_axis + axis, is_upper };
            neighbours.extend(below.map(|rank| (rank, face(false))));
            neighbours.extend(above.map(|rank| (rank, face(true))));
        }
        let subdomain = Subdomain::new(plan.problem, &places);
        let (interior, border) = subdomain.divided(neighbours.iter().map(|(_, face)| *face));
        Ok(Self { plan, grid, neighbours, interior, border, subdomain })
    }

    /// Does one step. Returns the time at which the last ghosts were there.
    async fn step(&mut self, world: &Comm) -> Result<Time, RankError> {
        let exchanged = match self.plan.exchange {
            Exchange::Blocking => self.blocking_step(world).await?,
            Exchange::Overlap => self.overlapped_step(world).await?,
        };
        self.subdomain.advance();
        Ok(exchanged)
    }

    async fn blocking_step(&mut self, world: &Comm) -> Result<Time, RankError> {
        for &(rank, face) in &self.neighbours {
            let own = self.subdomain.face(face);
            let mut ghosts = vec![0.0; own.len()];
            let (there, back) = (face.tag(), face.opposite().tag());
            self.grid.sendrecv(&own, rank, there, &mut ghosts, rank, back).await?;
            self.subdomain.set_ghosts(face, &ghosts)?;
        }
        let exchanged = world.now();
        self.compute(self.subdomain.whole());
        Ok(exchanged)
    }

    async fn overlapped_step(&mut self, world: &Comm) -> Result<Time, RankError> {
        let (mut arriving, mut leaving) = (Vec::new(), Vec::new());
        for &(rank, face) in &self.neighbours {
            arriving.push(self.grid.irecv::<f64>(rank, face.opposite().tag())?);
            leaving.push(self.grid.isend_vec(self.subdomain.face(face), rank, face.tag())?);
        }
        // The messages leave before the PE computes.
        self.grid.yield_now().await;
        self.compute(self.interior.clone());
        let arrived = wait_all(arriving).await?;
        for ((_, face), (ghosts, _)) in self.neighbours.iter().zip(arrived) {
            self.subdomain.set_ghosts(*face, &ghosts)?;
        }
        let exchanged = world.now();
        for region in self.border.clone() {
            self.compute(region);
        }
        wait_all(leaving).await?;
        Ok(exchanged)
    }

    /// Sweeps over a region, and charges its time.
    fn compute(&mut self, region: Region) {
        let points: usize = region.iter().map(|range| range.len()).product();
        self.subdomain.sweep(region);
        let time = self.plan.point_cost.saturating_mul(points.try_into().unwrap_or(u32::MAX));
        self.grid.charge(time);
        if self.plan.waits {
            emulate(time);
        }
    }
}
