//! The cost of losing a guest: no node continues with tasks that came through it, and few tasks run
//! twice.

use crate::common::comb::{Comb, Run, take_runs};
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{Job, PeId, SiteId};
use gridspan_sim::{Departure, GuestPlan, SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use std::collections::BTreeMap;
use std::time::Duration;

/// A grid with guests, and a tree to count there.
#[derive(Clone, Debug)]
struct Case {
    policy: &'static str,
    is_search: bool,
    sites: Vec<Vec<u32>>,
    wan: Duration,
    /// Site and number of PEs of each guest.
    guests: Vec<(u32, u32)>,
    teeth: u32,
    cost: Duration,
    silence: Duration,
}

impl Case {
    /// Counts the tree; if `dies` is given, that guest dies at that time. Returns the runs and the
    /// total time.
    fn run(&self, dies: Option<(usize, Duration)>) -> (Vec<Run>, Duration) {
        let (is_search, teeth) = (self.is_search, self.teeth);
        let root = Comb::new(teeth, self.cost);
        let job = Job::new("comb")
            .search::<Comb>()
            .tasks::<Comb>()
            .stealing(self.policy.parse::<StealingPolicyName>().expect("it is a name"));
        let job = job.tolerate_lost_guests(true).main(async move |grid| {
            let nodes = match is_search {
                true => grid.run_search(root).await?.0,
                false => grid.run_tasks(root).await?,
            };
            assert_eq!(nodes, 1 << teeth);
            Ok(())
        });
        let sites = self.sites.iter().enumerate();
        let layout =
            Layout::new(sites.map(|(at, site)| (format!("s{at}"), site.clone())).collect());
        let wan = Latency::from_micros(self.wan.as_micros() as u64);
        let spec = GridSpec::from_layout(&layout).unwrap().with_wan(Link::wan().with_latency(wan));
        let plan = |(at, &(site, pes)): (usize, &(u32, u32))| {
            let departs = dies.filter(|dies| dies.0 == at).map(|dies| (dies.1, Departure::Killed));
            GuestPlan::new(SiteId(site), pes, Duration::from_millis(2)).with_departure(departs)
        };
        let guests = self.guests.iter().enumerate().map(plan).collect();
        let options = SimOptions::default().with_guests(guests).with_silence(self.silence);
        take_runs();
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "{self:?}");
        (take_runs(), Duration::from_nanos(report.virtual_time.0))
    }

    /// Kills a guest at half time. Returns the number of nodes of the tree that all others ran, as
    /// a fraction of the number that all ran without the loss.
    fn lose(&self, victim: usize) -> f64 {
        let (calm, took) = self.run(None);
        let dies = took / 2;
        let (runs, _) = self.run(Some((victim, dies)));
        // Under the default policy, a site also works on copies of the tasks that it has lent to
        // another site. So a task that runs twice need not be an orphan.
        if self.policy != "directory" || self.sites.len() == 1 {
            self.check_orphans(&runs, dies + self.silence);
        }
        let own = |run: &&Run| self.is_of(run.pe, victim);
        (runs.len() - runs.iter().filter(own).count()) as f64 / calm.len() as f64
    }

    fn is_of(&self, pe: PeId, guest: usize) -> bool {
        let sites = self.sites.iter().enumerate();
        let layout =
            Layout::new(sites.map(|(at, site)| (format!("s{at}"), site.clone())).collect());
        let site = self.guests[guest].0;
        let number = self.guests[..guest].iter().filter(|guest| guest.0 == site).count() as u32;
        layout.guest(SiteId(site), number) == Some(layout.node_of(pe))
    }

    /// Checks that two latencies after the news of the loss, no task runs twice any more, except in
    /// the slice that was running when the news arrived.
    fn check_orphans(&self, runs: &[Run], news: Duration) {
        let slice = Duration::from_micros(200) + self.cost;
        let end = (news + 2 * self.wan + Duration::from_millis(1) + slice).as_nanos() as u64;
        let mut late = BTreeMap::new();
        for run in runs.iter().filter(|run| run.ns > end) {
            *late.entry(run.path).or_insert(0) += 1;
        }
        let twice = late.values().filter(|&&times| times > 1).count();
        assert_eq!(twice, 0, "{self:?}: tasks of {} that ran twice after {end} ns", late.len());
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn under_every_policy_orphans_stop_within_two_latencies_of_the_news() {
    for policy in STEALING_POLICIES {
        for (is_search, is_one_site) in [(true, false), (false, false), (true, true), (false, true)]
        {
            let (sites, site) =
                if is_one_site { (vec![vec![1, 2]], 0) } else { (vec![vec![1], vec![2]], 1) };
            let case = Case {
                policy,
                is_search,
                sites,
                wan: 3 * MS,
                guests: vec![(0, 2), (site, 1), (0, 1), (site, 2)],
                teeth: 11,
                cost: Duration::from_micros(200),
                silence: 10 * MS,
            };
            case.lose(0);
        }
    }
}

/// Draws a random case and the guest to kill, under the default policy and another one in turn.
fn draw(seed: u64) -> (Case, usize) {
    let mut dice = Dice::new(seed);
    let mut below = |bound: u64| dice.below(bound) as u32;
    let sites: Vec<Vec<u32>> =
        (0..=below(3)).map(|_| (0..=below(2)).map(|_| 1 + below(2)).collect()).collect();
    let guests: Vec<_> =
        (0..=below(8)).map(|_| (below(sites.len() as u64), 1 + below(3))).collect();
    let case = Case {
        policy: ["directory", "cluster-aware"][(seed % 2) as usize],
        is_search: below(2) == 0,
        wan: Duration::from_micros(500 + u64::from(below(10_000))),
        teeth: 13,
        cost: Duration::from_micros(20 + u64::from(below(200))),
        silence: 5 * MS,
        sites,
        guests,
    };
    let victim = below(case.guests.len() as u64) as usize;
    (case, victim)
}

#[test]
fn few_tasks_run_again_after_a_guest_is_lost_at_half_time() {
    // Results that were finished on the guest's behalf are computed again: half of all work, if all
    // of it came through the guest.
    let costs: Vec<f64> = (0..8).map(draw).map(|(case, victim)| case.lose(victim)).collect();
    assert!(costs.iter().all(|&cost| cost < 1.5), "{costs:?}");
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    assert!(mean < 1.1, "{costs:?}");
}
