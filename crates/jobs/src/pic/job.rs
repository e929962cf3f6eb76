//! The job: blocks move their particles, and main checks the position of each particle.

use gridspan_kernels::block_partition::BlockPartition;
use gridspan_kernels::pic::blocks::first_ids;
use gridspan_runtime::{CollectionRef, Grid, Ix2, Job, JobError, Op};
use serde::{Deserialize, Serialize};

use super::args::{ABOUT, Options};
use super::block_actor::{CloudPlan, Message, PicBlock};
use crate::entry::{Entry, parse};
use crate::step_timer::median_and_total;

pub(crate) const ENTRY: Entry =
    Entry { name: "pic", about: ABOUT, build: |arguments| Ok(job(parse("pic", arguments)?)) };

/// Maximum number of blocks along an edge. The square then has 16 million blocks, which is also the
/// maximum number of members of `ring`.
const EDGE_BLOCKS_MAX: u32 = 1 << 12;

/// Builds the job with these options.
pub fn job(options: Options) -> Job {
    Job::new("pic")
        .actor::<PicBlock>()
        .restartable_main(async move |grid: Grid| run(&grid, &options).await)
}

/// The state of main at a progress point.
#[derive(Serialize, Deserialize)]
struct Progress {
    plan: CloudPlan,
    blocks: CollectionRef<PicBlock>,
    placed: u64,
    /// The number of particles in the fullest block at the start; `None` until it was received.
    fullest_before: Option<u64>,
    /// The last step that was reported.
    step: u64,
}

/// Creates the blocks, and starts them.
async fn begin(grid: &Grid, options: &Options, plan: CloudPlan) -> Result<Progress, JobError> {
    let (first_ids, placed) = first_ids(&plan.cloud, &plan.field, &plan.partition);
    let edge = plan.partition.count();
    let first_id = |Ix2(column, row): Ix2| first_ids[&(column as u32, row as u32)];
    let indices = Ix2::grid(edge, edge);
    let placement = options.placement.into();
    let init = |index| (plan, first_id(index));
    let blocks = grid.create_placed::<PicBlock>(placement, indices, init).await?;
    blocks.broadcast(Message::Start);
    Ok(Progress { plan, blocks: blocks.reference(), placed, fullest_before: None, step: 0 })
}

async fn run(grid: &Grid, options: &Options) -> Result<(), JobError> {
    let (field, cloud) = options.prepare()?;
    let partition = BlockPartition::new(field.cells(), options.blocks);
    let Options { steps, sync_every, report_every, .. } = *options;
    let plan = CloudPlan { field, cloud, partition, steps, sync_every, report_every };
    let edge = partition.count();
    if edge > EDGE_BLOCKS_MAX {
        let most = EDGE_BLOCKS_MAX;
        return Err(format!("{edge} x {edge} blocks; --blocks takes 1 to {most}").into());
    }
    let mut progress: Progress = match grid.restored().await? {
        Some(Progress { plan: then, .. }) if then != plan => {
            return Err("the checkpoint was made with other options; start with those".into());
        }
        Some(progress) => progress,
        None => begin(grid, options, plan).await?,
    };
    let (placed, blocks) = (progress.placed, grid.collection(progress.blocks));
    let mean = placed as f64 / f64::from(edge * edge);
    let fullest_before = match progress.fullest_before {
        Some(fullest) => fullest,
        None => {
            grid.progress(&progress).await?;
            blocks.reduction(Op::Max).await?
        }
    };
    progress.fullest_before = Some(fullest_before);
    for step in (progress.step + 1..steps).filter(|&step| plan.reports_after(step)) {
        grid.progress(&progress).await?;
        let fullest: u64 = blocks.reduction(Op::Max).await?;
        println!("step {step}: the fullest block has {:.1} times the mean", fullest as f64 / mean);
        progress.step = step;
    }
    grid.progress(&progress).await?;
    let sums: Vec<u64> = blocks.reduction(Op::Sum).await?;
    let fullest_after: u64 = blocks.reduction(Op::Max).await?;
    let done_ns: Vec<f64> = blocks.reduction(Op::Max).await?;
    let (median, total) = median_and_total(steps, &done_ns);
    println!(
        "{placed} particles in {edge} x {edge} blocks on {} PEs; the fullest block has {:.1} times the mean, at the end {:.1} times",
        grid.layout().pe_count(),
        fullest_before as f64 / mean,
        fullest_after as f64 / mean
    );
    println!(
        "{steps} steps in {:.3} s: median {:.3} ms a step, {:.1} million particles a second",
        total.as_secs_f64(),
        median.as_secs_f64() * 1e3,
        placed as f64 * steps as f64 / total.as_secs_f64().max(1e-9) / 1e6
    );
    // The sum of the ids, which count from 0, detects a lost particle and a duplicate that would
    // cancel in the count.
    let ids = placed * placed.saturating_sub(1) / 2;
    if sums == [placed, ids, 0] {
        println!("verified: yes ({placed} particles, each where it must be)");
        return Ok(());
    }
    let [count, found, wrong] = sums.try_into().unwrap_or_default();
    Err(format!(
        "verified: no ({count} of {placed} particles, ids add up to {found} instead of {ids}, {wrong} misplaced)"
    )
    .into())
}
