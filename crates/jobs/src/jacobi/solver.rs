//! The steps of a rank.
//!
//! Step `s + 1` of a subdomain needs the faces of its neighbours after step `s`, and nothing else.
//! With the blocking exchange a rank waits for each neighbour in turn, and then computes all
//! points. With the overlapped one it begins all sends and receives, computes the points that need
//! no ghosts, waits for the ghosts, and computes the others. With both, a PE with several ranks
//! runs those whose messages have arrived while others wait.
//!
//! The solver holds everything that a rank keeps from one step to the next, so that the rank may
//! move in between.

use super::tiles::Tiles;
use crate::emulated_work::emulate;
use crate::rank_clock::clock;
use clap::ValueEnum;
use gridspan_kernels::block_partition::BlockPartition;
use gridspan_kernels::jacobi::problem::Problem;
use gridspan_kernels::jacobi::subdomain::{Face, Region, Subdomain};
use gridspan_ranks::{Cartesian, Comm, RankError, ops, wait_all};
use gridspan_runtime::Time;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// How a rank gets the faces of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum Exchange {
    /// `sendrecv` with each neighbour in turn, then all points.
    Blocking,
    /// `irecv` and `isend` with all neighbours, the interior meanwhile, then the border.
    Overlap,
}

/// The parameters that all ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) problem: Problem,
    pub(super) steps: u64,
    /// Number of steps after which the largest change is computed again; 0 if it is computed after
    /// the last step only.
    pub(super) check: u64,
    pub(super) exchange: Exchange,
    /// Compute time of a point in one step, which is charged.
    pub(super) point_cost: Duration,
    /// Whether ranks also wait for the time that they charge.
    pub(super) waits: bool,
    /// Number of ranks of a PE, which divide a tile of the grid among them.
    pub(super) per_tile: u32,
    /// Steps between two migration points; 0 for none.
    pub(super) migrate_every: u64,
}

/// A rank among its neighbours, up to the next migration point.
pub(super) struct Neighbourhood {
    grid: Cartesian,
    neighbours: Vec<(u32, Face)>,
    /// The places of the inner points of this rank.
    places: [Range<u32>; 3],
}

impl Neighbourhood {
    /// Arranges the ranks in a grid. A collective operation.
    pub(super) async fn new(world: &Comm, plan: Plan) -> Result<Self, RankError> {
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
        // In two dimensions, the axis that is not used has one place.
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
        Ok(Self { grid, neighbours, places })
    }
}

/// The state of a rank between two steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Solver {
    plan: Plan,
    pub(super) subdomain: Subdomain,
    /// Number of steps that are done.
    done: u64,
    /// The steps after which the largest change of any point of any rank was computed, with this
    /// change.
    pub(super) changes: Vec<(u64, f64)>,
    /// When the steps began, in seconds.
    begin: f64,
    /// The times at which the last ghosts of the middle step and of the last step arrived.
    exchanged: [Time; 2],
}

impl Solver {
    /// The state before the first step. A collective operation.
    pub(super) async fn begin(
        world: &Comm,
        plan: Plan,
        around: &Neighbourhood,
    ) -> Result<Self, RankError> {
        let subdomain = Subdomain::new(plan.problem, &around.places);
        let (done, changes, exchanged) = (0, Vec::new(), [Time::default(); 2]);
        let begin = clock(world).await?;
        Ok(Self { plan, subdomain, done, changes, begin, exchanged })
    }

    /// The step in the middle, and the last one.
    fn marked(&self) -> [u64; 2] {
        let last = self.plan.steps.saturating_sub(1);
        [last / 2, last]
    }

    /// Does the steps up to the next migration point, or up to the last step. Returns whether it
    /// has stopped at a migration point.
    pub(super) async fn advance(
        &mut self,
        world: &Comm,
        around: &Neighbourhood,
    ) -> Result<bool, RankError> {
        self.subdomain.settle();
        let Plan { steps, check, migrate_every, .. } = self.plan;
        let marked = self.marked();
        while self.done < steps {
            let exchanged = self.step(world, around).await?;
            for (time, step) in self.exchanged.iter_mut().zip(marked) {
                if self.done == step {
                    *time = exchanged;
                }
            }
            self.done += 1;
            let is_last = self.done == steps;
            let is_due = check > 0 && self.done.is_multiple_of(check);
            if is_due || is_last {
                let change = world.allreduce(&[self.subdomain.change()], ops::max).await?[0];
                self.changes.push((self.done, change));
            }
            if !is_last && migrate_every > 0 && self.done.is_multiple_of(migrate_every) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The total time, and the mean time of a step in the second half, in which the pace of the
    /// ranks has settled. A collective operation.
    pub(super) async fn times(&self, world: &Comm) -> Result<[Duration; 2], RankError> {
        let time = Duration::from_secs_f64((clock(world).await? - self.begin).max(0.0));
        let mine = self.exchanged.map(|time| time.as_nanos());
        let latest = world.allreduce(&mine, ops::max).await?;
        let between = Duration::from_nanos(latest[1].saturating_sub(latest[0]));
        let [middle, last] = self.marked();
        Ok([time, between / ((last - middle).clamp(1, u32::MAX.into()) as u32)])
    }

    /// Does one step. Returns the time at which the last ghosts arrived.
    async fn step(&mut self, world: &Comm, around: &Neighbourhood) -> Result<Time, RankError> {
        let exchanged = match self.plan.exchange {
            Exchange::Blocking => self.blocking_step(world, around).await?,
            Exchange::Overlap => self.overlapped_step(world, around).await?,
        };
        self.subdomain.advance();
        Ok(exchanged)
    }

    async fn blocking_step(
        &mut self,
        world: &Comm,
        around: &Neighbourhood,
    ) -> Result<Time, RankError> {
        for &(rank, face) in &around.neighbours {
            let own = self.subdomain.face(face);
            let mut ghosts = vec![0.0; own.len()];
            let (there, back) = (face.tag(), face.opposite().tag());
            around.grid.sendrecv(&own, rank, there, &mut ghosts, rank, back).await?;
            self.subdomain.set_ghosts(face, &ghosts)?;
        }
        let exchanged = world.now();
        self.compute(world, self.subdomain.whole());
        Ok(exchanged)
    }

    async fn overlapped_step(
        &mut self,
        world: &Comm,
        around: &Neighbourhood,
    ) -> Result<Time, RankError> {
        let Neighbourhood { grid, neighbours, .. } = around;
        let (interior, border) = self.subdomain.divided(neighbours.iter().map(|(_, face)| *face));
        let (mut arriving, mut leaving) = (Vec::new(), Vec::new());
        for &(rank, face) in neighbours {
            arriving.push(grid.irecv::<f64>(rank, face.opposite().tag())?);
            leaving.push(grid.isend_vec(self.subdomain.face(face), rank, face.tag())?);
        }
        // Lets the PE send the messages before this rank computes.
        grid.yield_now().await;
        self.compute(world, interior);
        let arrived = wait_all(arriving).await?;
        for ((_, face), (ghosts, _)) in neighbours.iter().zip(arrived) {
            self.subdomain.set_ghosts(*face, &ghosts)?;
        }
        let exchanged = world.now();
        for region in border {
            self.compute(world, region);
        }
        wait_all(leaving).await?;
        Ok(exchanged)
    }

    /// Sweeps over a region, and charges its time.
    fn compute(&mut self, world: &Comm, region: Region) {
        let points: usize = region.iter().map(|range| range.len()).product();
        self.subdomain.sweep(region);
        let time = self.plan.point_cost.saturating_mul(points.try_into().unwrap_or(u32::MAX));
        world.charge(time);
        if self.plan.waits {
            emulate(time);
        }
    }
}
