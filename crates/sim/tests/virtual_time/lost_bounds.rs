//! Pools whose tasks share a bound lose nodes that have spread the best value: the tasks that run
//! again find that value again.

use crate::common::leaves::{Leaves, Upper};
use crate::common::losses::{Case, Outcomes, Purpose, draw, four_nodes};
use gridspan_balance::stealing::StealingPolicyName;
use gridspan_runtime::{
    Goal, GuestEvent, Job, JobError, Merge, NodeId, Search, SearchContext, SiteId,
};
use gridspan_sim::{Departure, GuestPlan, LostNode, SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_best_leaf_is_found_whatever_nodes_but_mains_are_lost_while_a_pool_runs() {
    let mut outcomes = Outcomes::default();
    for seed in 0..150 {
        let purpose = match seed % 2 {
            0 => Purpose::BestBySearch,
            _ => Purpose::BestByTasks,
        };
        outcomes.lose(&Case { purpose, ..draw(seed) });
    }
    println!("{outcomes:?}");
    let Outcomes { tolerated, mistaken, several, ended, .. } = outcomes;
    assert!(tolerated > 80 && mistaken > 10, "{tolerated}, {mistaken}");
    assert!(several > 10 && ended < 40, "{several}, {ended}");
}

/// One or two nodes, and two to five guests. Each guest is killed, or declared lost by mistake,
/// while the job runs.
#[derive(Debug)]
struct Guests {
    policy: &'static str,
    is_search: bool,
    sites: u32,
    wan: Duration,
    tree: Leaves,
    /// Site and number of PEs of each guest; when it is lost, as a part of the time that the job
    /// takes without losses; and how.
    guests: Vec<(u32, u32, f64, Departure)>,
}

impl Guests {
    fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let sites = 1 + dice.below(2_u32);
        let guests = (0..2 + dice.below(4_u32))
            .map(|_| {
                let is_mistaken = dice.below(4_u32) == 0;
                let how = if is_mistaken { Departure::Mistaken } else { Departure::Killed };
                (dice.below(sites), 1 + dice.below(3_u32), dice.between(0.1, 0.9), how)
            })
            .collect();
        let cost = Duration::from_micros(50 + dice.below(200_u64));
        let values = if dice.below(3_u32) == 0 { 500 } else { 1 << 40 };
        Self {
            policy: ["directory", "cluster-aware"][dice.below(2_usize)],
            is_search: dice.below(2_u32) == 0,
            sites,
            wan: Duration::from_micros(500 + dice.below(5_000_u64)),
            tree: Leaves::new(seed, 11, values, cost),
            guests,
        }
    }

    /// Finds the best leaf. Guests are lost if `took`, the time of the job without losses, is
    /// given. Returns the time of the job, and the number of lost guests.
    fn run(&self, took: Option<Duration>) -> (Duration, usize) {
        let (is_search, tree) = (self.is_search, self.tree);
        let lost = Arc::new(AtomicUsize::new(0));
        let told = lost.clone();
        let job = Job::new("leaves")
            .search::<Leaves>()
            .tasks::<Leaves>()
            .stealing(self.policy.parse::<StealingPolicyName>().unwrap())
            .tolerate_lost_guests(true)
            .on_guests(move |event| {
                if matches!(event, GuestEvent::Lost { .. }) {
                    told.fetch_add(1, Ordering::Relaxed);
                }
            });
        let job = job.main(async move |grid| {
            let found = match is_search {
                true => grid.run_search(tree).await?,
                false => grid.run_tasks(tree).await?,
            };
            tree.check(found)
        });
        let layout = Layout::new((0..self.sites).map(|at| (format!("s{at}"), vec![1])).collect());
        let wan = Link::wan().with_latency(Latency::from_micros(self.wan.as_micros() as u64));
        let spec = GridSpec::from_layout(&layout).unwrap().with_wan(wan);
        let plan = |&(site, pes, part, how): &(u32, u32, f64, Departure)| {
            let departs = took.map(|took| (took.mul_f64(part), how));
            GuestPlan::new(SiteId(site), pes, MS).with_departure(departs)
        };
        let guests = self.guests.iter().map(plan).collect();
        let options = SimOptions::default().with_guests(guests).with_silence(5 * MS);
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "{self:?}");
        (Duration::from_nanos(report.virtual_time.0), lost.load(Ordering::Relaxed))
    }
}

#[test]
fn the_best_leaf_is_found_though_all_guests_are_lost() {
    let mut lost = 0;
    for seed in 0..120 {
        let case = Guests::draw(seed);
        let (took, _) = case.run(None);
        lost += case.run(Some(took)).1;
    }
    // Each run has two to five guests.
    assert!(lost > 150, "{lost} guests were lost");
}

#[test]
fn the_best_leaf_of_a_pool_that_tasks_of_another_call_is_found_without_a_lost_node() {
    let grid = GridSpec::from_layout(&four_nodes(Purpose::BestByTasks).layout()).unwrap();
    let mut went_on = 0;
    for at in (4..72_u32).step_by(2) {
        let node = NodeId(1 + at / 2 % 3);
        let tree = Leaves::new(at.into(), 11, 1 << 40, Duration::from_micros(150));
        let job = Job::new("calls").tasks::<Upper>().tasks::<Leaves>().recover_tasks_locally(true);
        let job = job.main(async move |grid| {
            let pool = grid.task_pool::<Leaves>().await?;
            let uppers = grid.task_pool::<Upper>().await?;
            tree.check(uppers.run(Upper { lower: pool.reference(), tree, levels: 5 }).await?)
        });
        let lost = LostNode::new(node, at * MS);
        let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(MS);
        match Simulation::new(job, grid.clone(), options).unwrap().run().outcome {
            Ok(()) => went_on += 1,
            Err(JobError::NodeLost { node: lost, .. }) if lost == node => {}
            Err(other) => panic!("{node} at {at} ms: {other}"),
        }
    }
    println!("{went_on} of 34 went on");
    assert!(went_on > 0, "the last losses are after the end");
}

#[derive(Default, Serialize, Deserialize)]
struct Best(i64);

impl Merge for Best {
    fn merge(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

/// A path. Only the longest path, when it is complete, improves the bound.
#[derive(Serialize, Deserialize)]
struct Longest {
    length: i64,
    rest: u32,
}

impl Longest {
    const STEPS: u32 = 11;
    /// The length of a path of 11 steps of 3.
    const BEST: i64 = 33;
}

impl Search for Longest {
    type Total = Best;

    const GOAL: Goal = Goal::Maximise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(Duration::from_micros(100));
        if self.rest == 0 {
            cx.total().merge(Best(self.length));
            if self.length == Self::BEST {
                cx.improve(self.length);
            }
            return;
        }
        let most = self.length + 3 * i64::from(self.rest);
        if cx.bound().is_none_or(|best| most > best) {
            // The longest path is below the oldest tasks, which other nodes steal.
            for step in [3, 1] {
                cx.spawn(Self { length: self.length + step, rest: self.rest - 1 });
            }
        }
    }
}

#[test]
fn the_best_value_is_in_the_total_though_its_finder_works_for_a_lost_node() {
    let case = four_nodes(Purpose::BestBySearch);
    let tolerated = Arc::new(AtomicUsize::new(0));
    for (seed, node, at) in (0..2_u64)
        .flat_map(|seed| (1..4_u32).map(move |node| (seed, node)))
        .flat_map(|(seed, node)| (4..64_u32).step_by(2).map(move |at| (seed, node, at)))
    {
        let told = tolerated.clone();
        let job = Job::new("paths")
            .search::<Longest>()
            .seed(seed)
            .recover_tasks_locally(true)
            .on_tolerated_loss(move |_| _ = told.fetch_add(1, Ordering::Relaxed));
        let job = job.main(async |grid| {
            let best = grid.run_search(Longest { length: 0, rest: Longest::STEPS }).await?;
            match best.0 {
                Longest::BEST => Ok(()),
                other => Err(format!("{other} is not {}", Longest::BEST).into()),
            }
        });
        let spec = GridSpec::from_layout(&case.layout()).unwrap();
        let lost = LostNode::new(NodeId(node), at * MS);
        let options = SimOptions::with_seed(seed).with_lost_nodes(vec![lost]).with_silence(MS);
        match Simulation::new(job, spec, options).unwrap().run().outcome {
            Ok(()) => {}
            Err(JobError::NodeLost { node: lost, .. }) if lost == NodeId(node) => {}
            Err(other) => panic!("seed {seed}, node {node} at {at} ms: {other}"),
        }
    }
    let tolerated = tolerated.load(Ordering::Relaxed);
    assert!(tolerated > 15, "{tolerated} losses of 180 were tolerated");
}
