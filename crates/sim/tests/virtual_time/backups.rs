//! Backup tasks: a site that has lent tasks to another one and runs out of tasks works on copies of
//! them, and the first output counts.

use crate::common::comb::{Comb, take_runs};
use gridspan_runtime::Job;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
/// Time that main waits after its result, so that tasks that still run are noticed.
const AFTER: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
struct Case {
    is_search: bool,
    /// Nodes of one PE at each site.
    sites: Vec<usize>,
    wan: Duration,
    loss: f64,
    teeth: u32,
    cost: Duration,
}

impl Case {
    /// Counts the tree. Returns the time that this takes, and the number of nodes that ran twice.
    fn run(&self) -> (Duration, usize) {
        let &Self { is_search, wan, teeth, cost, .. } = self;
        let root = Comb::new(teeth, cost);
        let (out, result) = std::sync::mpsc::channel();
        let job = Job::new("comb").search::<Comb>().tasks::<Comb>().main(async move |grid| {
            let (searches, tasks) = (grid.search_pool().await?, grid.task_pool().await?);
            let began = grid.now().await?;
            let nodes = match is_search {
                true => searches.run(root).await?.0,
                false => tasks.run(root).await?,
            };
            let ended = grid.now().await?;
            assert_eq!(nodes, 1 << teeth);
            grid.sleep(AFTER).await?;
            out.send((began, ended)).map_err(|_| "the test has ended")?;
            Ok(())
        });
        let sites = self.sites.iter().enumerate();
        let sites = sites.map(|(at, &nodes)| (format!("s{at}"), vec![1; nodes])).collect();
        let link = Link::wan().with_latency(Latency::from_micros(wan.as_micros() as u64));
        let spec = GridSpec::from_layout(&Layout::new(sites)).unwrap();
        let spec = spec.with_wan(link.with_loss(self.loss));
        take_runs();
        let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "{self:?}");
        let (began, ended) = result.recv().unwrap();
        let runs = take_runs();
        // News of the first output may take two latencies: one to the worker on the other copy, and
        // one to nodes that have stolen from it.
        let last = (ended + 2 * wan + MS + cost).0;
        let late = runs.iter().filter(|run| run.ns > last).count();
        // Messages that were lost and sent again arrive later.
        assert!(
            late == 0 || self.loss > 0.0,
            "{self:?}: {late} nodes ran although no task waited for them"
        );
        (ended.since(began), runs.len() - (1 << teeth))
    }
}

#[test]
fn a_site_that_lends_tasks_takes_no_longer_than_alone() {
    let mut twice = 0;
    for is_search in [true, false] {
        for teeth in 7..=11 {
            let near = Case {
                is_search,
                sites: vec![8],
                wan: 5 * MS,
                loss: 0.0,
                teeth,
                cost: 100 * MS / 1000,
            };
            let alone = near.run().0;
            for others in [1, 4, 8] {
                let (took, more) = Case { sites: vec![8, others], ..near.clone() }.run();
                twice += more;
                assert!(
                    took <= alone.mul_f64(1.05) + MS,
                    "{teeth} teeth, {others} more nodes: {took:?}, {alone:?} without them"
                );
            }
        }
    }
    assert!(twice > 0, "no copy was ever worked on");
}

#[test]
fn every_node_of_the_tree_counts_once_whichever_copy_ends_first() {
    let mut twice = 0;
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let mut below = |bound: u64| dice.below(bound);
        let case = Case {
            is_search: below(2) == 0,
            sites: (0..2 + below(3)).map(|_| 1 + below(6) as usize).collect(),
            wan: Duration::from_micros(300 + below(20_000)),
            loss: [0.0, 0.01, 0.1][below(3) as usize],
            teeth: 6 + below(7) as u32,
            cost: Duration::from_micros(5 + below(300)),
        };
        twice += case.run().1;
    }
    assert!(twice > 0, "no copy was ever worked on");
}
