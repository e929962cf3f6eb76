//! The job: blocks exchange edges and sweep, and main compares the result with the exact solution.
//!
//! A block sends its edges, and sweeps once it has received those of all neighbours. A neighbour
//! can be one sweep ahead, but never two, as it also needs this block's edges; edges that arrive
//! early are held.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser;
use gridspan_kernels::block_partition::BlockPartition;
use gridspan_kernels::stencil::block::{Block, POINTS_MAX, Side};
use gridspan_kernels::stencil::eigenmode;
use gridspan_runtime::{Actor, CollectionRef, Context, Grid, Ix2, Job, JobError, Numbers, Op, To};
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, parse};
use crate::step_timer::{StepTimer, median_and_total};

const ABOUT: &str = "Jacobi sweeps over a square in blocks, verified after any number of sweeps";

pub(crate) const ENTRY: Entry = Entry {
    name: "stencil",
    about: ABOUT,
    build: |arguments| Ok(job(parse("stencil", arguments)?)),
};

/// Virtual time of a sweep for each point, in ns, as measured on one core of a 2020s server.
const POINT_NS: f64 = 0.9;

/// Maximum number of points along an edge: with this number, the square in one block just fits the
/// limit.
const EDGE_MAX: i64 = 11_583;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Parser, Serialize, Deserialize)]
#[command(about = ABOUT)]
struct Options {
    /// Points along an edge of the square.
    #[arg(long, short, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=EDGE_MAX))]
    n: u32,
    /// Blocks along an edge; at most one for each point.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Number of sweeps.
    #[arg(long, default_value_t = 200)]
    iterations: u64,
    /// Sweeps between sync points, at which blocks may be balanced; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    sync_every: u64,
    /// Sweeps between reports of the largest change of a point, after which main can also begin
    /// again from a checkpoint; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 50)]
    report_every: u64,
}

impl Options {
    fn partition(&self) -> BlockPartition {
        BlockPartition::new(self.n, self.blocks)
    }

    /// Whether main receives the largest change of a point in the last of `sweeps` sweeps.
    fn reports_after(&self, sweeps: u64) -> bool {
        let Self { iterations, report_every, .. } = *self;
        sweeps < iterations && report_every > 0 && sweeps.is_multiple_of(report_every)
    }
}

/// A block of the square.
#[derive(Serialize, Deserialize)]
struct Patch {
    options: Options,
    block: Option<Block>,
    sweeps: u64,
    /// Whether the edges for this sweep have been sent. The edges of a neighbour may arrive before,
    /// if it left the sync point earlier.
    is_exchanging: bool,
    /// Edges of neighbours, for this sweep and the next.
    edges: BTreeMap<(u64, Side), Numbers<f64>>,
    timer: StepTimer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    Start,
    /// Continue after a sweep; sent by the only block to itself.
    GoOn,
    /// The edge of the neighbour on `side` before a sweep.
    Edge {
        sweep: u64,
        side: Side,
        points: Numbers<f64>,
    },
}

impl Actor for Patch {
    type Index = Ix2;
    type Init = Options;
    type Message = Message;

    fn create(options: Options, cx: &mut Context<'_, Self>) -> Self {
        let (rows, cols) = ranges(&options, cx.index());
        let (first_row, first_col) = (rows.start as usize, cols.start as usize);
        let n = options.n as usize;
        let block = eigenmode::block(n, first_row, first_col, rows.len(), cols.len());
        if let Err(error) = &block {
            cx.fail(error.to_string());
        }
        let timer = StepTimer::new(options.iterations);
        let (block, edges) = (block.ok(), BTreeMap::new());
        Self { options, block, sweeps: 0, is_exchanging: false, edges, timer }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Start => {
                self.timer.note(0, cx.now());
                self.go_on(cx);
            }
            Message::GoOn => self.go_on(cx),
            Message::Edge { sweep, side, points } => {
                self.edges.insert((sweep, side), points);
                self.try_sweep(cx);
            }
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.send_edges(cx);
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Start | Message::GoOn => 0,
            Message::Edge { points, .. } => size_of_val::<[f64]>(points),
        }
    }
}

impl Patch {
    fn neighbours(&self, Ix2(row, col): Ix2) -> impl Iterator<Item = (Side, Ix2)> + use<> {
        let count = self.options.partition().count() as i32;
        let all = Side::ALL.map(|side| match side {
            Side::Up => (side, Ix2(row - 1, col)),
            Side::Down => (side, Ix2(row + 1, col)),
            Side::Left => (side, Ix2(row, col - 1)),
            Side::Right => (side, Ix2(row, col + 1)),
        });
        let is_inside = move |index: i32| (0..count).contains(&index);
        all.into_iter().filter(move |(_, Ix2(row, col))| is_inside(*row) && is_inside(*col))
    }

    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let Options { iterations, sync_every, .. } = self.options;
        if self.sweeps == iterations {
            self.report(cx);
        } else if self.sweeps > 0 && sync_every > 0 && self.sweeps.is_multiple_of(sync_every) {
            cx.at_sync();
        } else {
            self.send_edges(cx);
        }
    }

    fn send_edges(&mut self, cx: &mut Context<'_, Self>) {
        let Some(block) = &self.block else { return };
        for (side, to) in self.neighbours(cx.index()) {
            let (sweep, points) = (self.sweeps, block.edge(side).into());
            let edge = Message::Edge { sweep, side: side.opposite(), points };
            cx.send(&cx.collection().at(to), edge);
        }
        self.is_exchanging = true;
        self.try_sweep(cx);
    }

    fn try_sweep(&mut self, cx: &mut Context<'_, Self>) {
        let neighbours: Vec<_> = self.neighbours(cx.index()).collect();
        let sweep = self.sweeps;
        let has_come = |&(side, _): &(Side, Ix2)| self.edges.contains_key(&(sweep, side));
        if !(self.is_exchanging && neighbours.iter().all(has_come)) {
            return;
        }
        self.is_exchanging = false;
        let is_alone = neighbours.is_empty();
        for (side, _) in neighbours {
            let points = self.edges.remove(&(sweep, side)).unwrap_or_default();
            let Some(block) = &mut self.block else { return };
            if let Err(error) = block.set_ghost(side, &points) {
                return cx.fail(error.to_string());
            }
        }
        self.sweep(cx);
        if is_alone {
            // No other message arrives, and continuing at once would be a recursion.
            cx.send(&cx.me(), Message::GoOn);
        } else {
            self.go_on(cx);
        }
    }

    fn sweep(&mut self, cx: &mut Context<'_, Self>) {
        let Some(block) = &mut self.block else { return };
        let change = block.sweep();
        cx.charge(Duration::from_nanos((POINT_NS * (block.rows() * block.cols()) as f64) as u64));
        self.sweeps += 1;
        self.timer.note(self.sweeps, cx.now());
        if self.options.reports_after(self.sweeps) {
            cx.contribute(Op::Max, change, To::main());
        }
    }

    fn report(&mut self, cx: &mut Context<'_, Self>) {
        let (rows, cols) = ranges(&self.options, cx.index());
        let (first_row, first_col) = (rows.start as usize, cols.start as usize);
        let error = self.block.as_ref().map_or(f64::INFINITY, |block| {
            eigenmode::error(block, self.options.n as usize, first_row, first_col, self.sweeps)
        });
        cx.contribute(Op::Max, error, To::main());
        cx.contribute(Op::Max, self.timer.take(), To::main());
    }
}

/// Returns the rows and columns of a block.
fn ranges(options: &Options, Ix2(row, col): Ix2) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
    let partition = options.partition();
    (partition.range(row as u32), partition.range(col as u32))
}

fn job(options: Options) -> Job {
    Job::new("stencil")
        .actor::<Patch>()
        .restartable_main(async move |grid: Grid| run(&grid, options).await)
}

/// The state of main at a progress point.
#[derive(Serialize, Deserialize)]
struct Progress {
    options: Options,
    patches: CollectionRef<Patch>,
    /// The last sweep that was reported.
    sweeps: u64,
}

async fn begin(grid: &Grid, options: Options) -> Result<Progress, JobError> {
    let blocks = options.partition().count();
    let patches = grid.create::<Patch>(Ix2::grid(blocks, blocks), |_| options).await?;
    patches.broadcast(Message::Start);
    Ok(Progress { options, patches: patches.reference(), sweeps: 0 })
}

async fn run(grid: &Grid, options: Options) -> Result<(), JobError> {
    let Options { n, iterations, .. } = options;
    let blocks = options.partition().count();
    let mut progress: Progress = match grid.restored().await? {
        Some(Progress { options: then, .. }) if then != options => {
            return Err("the checkpoint was made with other options; start with those".into());
        }
        Some(progress) => progress,
        None => begin(grid, options).await?,
    };
    let patches = grid.collection(progress.patches);
    for sweeps in (progress.sweeps + 1..iterations).filter(|&sweeps| options.reports_after(sweeps))
    {
        grid.progress(&progress).await?;
        let change: f64 = patches.reduction(Op::Max).await?;
        println!("sweep {sweeps}: largest change {change:.3e}");
        progress.sweeps = sweeps;
    }
    grid.progress(&progress).await?;
    let error: f64 = patches.reduction(Op::Max).await?;
    let done_ns: Vec<f64> = patches.reduction(Op::Max).await?;
    let (median, total) = median_and_total(iterations, &done_ns);
    let points = f64::from(n) * f64::from(n);
    println!(
        "{iterations} sweeps over {n} x {n} points in {blocks} x {blocks} blocks on {} PEs: \
         {:.3} s, median {:.3} ms a sweep, {:.0} million points a second",
        grid.layout().pe_count(),
        total.as_secs_f64(),
        median.as_secs_f64() * 1e3,
        points * iterations as f64 / total.as_secs_f64().max(1e-9) / 1e6
    );
    let most = eigenmode::error_max(iterations);
    if error <= most {
        println!("verified: yes (largest error {error:.1e} of at most {most:.1e})");
        Ok(())
    } else {
        Err(format!("verified: no (largest error {error:.1e}, more than {most:.1e})").into())
    }
}

const _: () = assert!((EDGE_MAX as usize + 2).pow(2) <= POINTS_MAX);
