//! The job: the search of a UTS tree by tasks.

use crate::entry::{Entry, parse};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use gridspan_kernels::uts::{Node, SAMPLES, Sample, TreeCounts, UtsTree};
use gridspan_runtime::{Grid, Job, JobError, Merge, Search, SearchContext, StealStatistics};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str =
    "Unbalanced Tree Search: counts the nodes of a generated tree of unpredictable shape";

/// Virtual time to visit a node: about the time on a core with instructions for SHA-1.
const COST: Duration = Duration::from_nanos(100);

pub(crate) const ENTRY: Entry =
    Entry { name: "uts", about: ABOUT, build: |arguments| Ok(job(parse("uts", arguments)?)) };

fn names() -> PossibleValuesParser {
    SAMPLES.iter().map(|sample| sample.name).collect::<Vec<_>>().into()
}

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Name of the published sample tree.
    #[arg(long, default_value = "T1", value_parser = names())]
    tree: String,
}

/// A node to visit, and its tree.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Visit {
    /// Index of the sample tree.
    sample: u8,
    node: Node,
}

impl Visit {
    /// Returns the root of the sample tree of this name.
    pub fn root(name: &str) -> Option<(Self, &'static Sample)> {
        let position = SAMPLES.iter().position(|sample| sample.name == name)?;
        let sample = &SAMPLES[position];
        Some((Self { sample: position as u8, node: sample.tree.root() }, sample))
    }
}

/// The total of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisitedNodes(pub TreeCounts);

impl Merge for VisitedNodes {
    fn merge(&mut self, other: Self) {
        self.0.add(other.0);
    }
}

impl Search for Visit {
    type Total = VisitedNodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let Some(Sample { tree, .. }) = SAMPLES.get(usize::from(self.sample)) else {
            return cx.fail("received a node of an unknown tree; start all nodes from one build");
        };
        let tree: &UtsTree = tree;
        let children = tree.children(&self.node);
        cx.charge(COST);
        cx.total().0.count(&self.node, children);
        for child in 0..children {
            cx.spawn(Self { node: self.node.child(child), ..self });
        }
    }
}

fn job(options: Options) -> Job {
    Job::new("uts")
        .search::<Visit>()
        .restartable_main(async move |grid: Grid| run(&grid, options.clone()).await)
}

async fn run(grid: &Grid, options: Options) -> Result<(), JobError> {
    let (root, sample) = Visit::root(&options.tree).ok_or("there is no such tree")?;
    let pool = grid.search_pool().await?;
    let begin = grid.now().await?;
    let VisitedNodes(census) = pool.run(root).await?;
    let elapsed = grid.now().await?.since(begin);
    println!(
        "tree {} on {} PEs: {:.3} s, {:.2} million nodes a second",
        sample.name,
        grid.layout().pe_count(),
        elapsed.as_secs_f64(),
        census.nodes as f64 / elapsed.as_secs_f64() / 1e6
    );
    if grid.layout().node_count() > 1 {
        let StealStatistics { messages, far_messages, grants, far_grants, tasks, .. } =
            pool.statistics().await?;
        println!(
            "stolen: {tasks} tasks in {grants} packets ({far_grants} between sites), by {messages} messages \
             ({far_messages} between sites)"
        );
    }
    let TreeCounts { nodes, leaves, depth } = census;
    if census == sample.census {
        println!("verified: yes ({nodes} nodes, {leaves} leaves, depth {depth}, as published)");
        return Ok(());
    }
    Err(format!(
        "verified: no ({nodes} nodes, {leaves} leaves, depth {depth}; published are {:?})",
        sample.census
    )
    .into())
}
