//! The advisor on a small grid of three sites.

use super::*;
use crate::advisor::ProbeRequest;
use crate::model::{NodeLink, Place, Sharing};
use crate::trees::Tree;
use gridspan_topology::Layout;

const MBIT: f64 = 125_000.0;
const ROOT: NodeId = NodeId(10);

/// Three sites of one cluster of three nodes; 100 Mbit/s inside and 30 between.
fn advisor() -> Advisor {
    advisor_of((10..19).map(NodeId).collect(), AdvisorConfig::default())
}

fn advisor_of(members: Vec<NodeId>, config: AdvisorConfig) -> Advisor {
    let places: Vec<Place> = (0..9).map(|n| Place { site: n / 3, cluster: n / 3 }).collect();
    let node = |place: &Place| NodeLink {
        cluster: place.cluster,
        out: 100.0 * MBIT,
        into: 100.0 * MBIT,
        initiation_s: 1e-4,
    };
    let nodes = places.iter().map(node).collect();
    let link = |from, to| if from == to { (1e-4, 100.0 * MBIT) } else { (0.02, 30.0 * MBIT) };
    let estimate = NetworkEstimate::new(&places, nodes, Sharing::SitePairs, link);
    Advisor::new(members, estimate, config)
}

fn at(second: u64) -> Time {
    Time(second * 1_000_000_000)
}

fn tell(advisor: &mut Advisor, now: Time, bytes: u64, edges: &[EdgeTiming]) {
    let plan = advisor.plan(now, ROOT, bytes).unwrap().id();
    advisor.observe(now, &Broadcast { root: ROOT, bytes, began: now, took: None, plan, edges });
}

/// Makes an edge ten times as slow.
fn slow_down(edge: &mut EdgeTiming) {
    edge.flowing_s *= 10.0;
    edge.later.1 *= 10.0;
}

fn published(commands: &[AdvisorCommand]) -> Vec<&BroadcastPlan> {
    let mut plans = Vec::new();
    for command in commands {
        if let AdvisorCommand::Publish { plan, .. } = command {
            plans.push(plan);
        }
    }
    plans
}

#[test]
fn the_first_broadcast_has_a_plan_at_once_and_later_ones_a_better_one() {
    let mut advisor = advisor();
    let first = advisor.plan(at(0), ROOT, 1_000_000).unwrap().clone();
    assert_eq!(first.stripes()[0].tree.node_count(), 9);

    tell(&mut advisor, at(0), 1_000_000, &[]);
    let commands = advisor.tick(at(1), &SearchBudget::evaluations(100_000));

    assert!(!published(&commands).is_empty());
    let second = advisor.plan(at(2), ROOT, 1_000_000).unwrap();
    assert!(second.id() > first.id());
    assert!(
        published(&advisor.tick(at(3), &SearchBudget::unlimited())).is_empty(),
        "nothing changed"
    );
}

#[test]
fn plans_for_the_next_size_are_made_ahead() {
    let mut advisor = advisor();
    for n in 0..12 {
        tell(&mut advisor, at(10 * n), 1_000_000 - 50_000 * n, &[]);
    }
    let commands = advisor.tick(at(111), &SearchBudget::evaluations(10_000));

    // Sizes fall by 50 kB each: 400 kB are next.
    let Some(AdvisorCommand::Publish { bytes, .. }) =
        commands.iter().find(|command| matches!(command, AdvisorCommand::Publish { .. }))
    else {
        panic!("{commands:?}")
    };
    assert!((*bytes as f64 / 400_000.0 - 1.0).abs() < 0.2, "{bytes}");
}

#[test]
fn the_root_that_broadcasts_next_is_planned_for_first() {
    let mut advisor = advisor();
    let other = NodeId(14);
    // `ROOT` broadcasts every ten seconds, the other every second.
    for n in 0..4 {
        observe(&mut advisor, ROOT, at(10 * n), 1_000_000);
        observe(&mut advisor, other, at(27 + n), 1_000_000);
    }

    let commands = advisor.tick(at(30), &SearchBudget::evaluations(1));

    let roots: Vec<NodeId> = published(&commands).iter().map(|plan| plan.id().root).collect();
    assert_eq!(roots, [other]);
}

#[test]
fn a_root_that_is_no_member_has_no_plan_and_does_not_delay_the_plans_of_others() {
    let mut advisor = advisor();
    let stranger = NodeId(99);
    for n in 0..4 {
        observe(&mut advisor, ROOT, at(10 * n), 1_000_000);
        observe(&mut advisor, stranger, at(27 + n), 1_000_000);
    }

    let commands = advisor.tick(at(30), &SearchBudget::evaluations(1));

    let roots: Vec<NodeId> = published(&commands).iter().map(|plan| plan.id().root).collect();
    assert_eq!(roots, [ROOT]);
    let error = BroadcastPlanError::NoMember { root: stranger };
    assert_eq!(advisor.plan(at(31), stranger, 8).err(), Some(error));
    assert!(!advisor.roots.contains_key(&stranger), "nothing is kept for it");
}

#[test]
fn a_root_with_an_invalid_default_plan_does_not_delay_the_plans_of_others() {
    let mut advisor = advisor();
    let (faulty, stranger) = (NodeId(14), NodeId(99));
    let tree = Tree::from_edges(faulty, &[(faulty, stranger)]).unwrap();
    advisor.introduce(BroadcastPlan::known_to_all(tree, 68 << 10));
    // `ROOT` broadcasts every ten seconds, the other every second.
    for n in 0..4 {
        observe(&mut advisor, ROOT, at(10 * n), 1_000_000);
        observe(&mut advisor, faulty, at(27 + n), 1_000_000);
    }

    let commands = advisor.tick(at(30), &SearchBudget::evaluations(1));

    let roots: Vec<NodeId> = published(&commands).iter().map(|plan| plan.id().root).collect();
    assert_eq!(roots, [ROOT]);
}

#[test]
fn reports_of_nodes_that_are_no_members_do_not_count() {
    let advisor = advisor();
    let report_times = [(13, 60), (99, 90)];
    let report_times =
        report_times.map(|(node, after)| (NodeId(node), Duration::from_millis(after)));

    // A report from another site takes 20 ms.
    assert_eq!(advisor.completion(ROOT, &report_times), Some(Duration::from_millis(40)));
    assert_eq!(advisor.completion(NodeId(99), &report_times), None);
}

#[test]
fn a_link_that_became_slow_is_noticed_probed_and_avoided() {
    let mut advisor = advisor();
    tell(&mut advisor, at(0), 1_000_000, &[]);
    advisor.tick(at(1), &SearchBudget::evaluations(100_000));
    let plan = advisor.plan(at(2), ROOT, 1_000_000).unwrap().id();
    let kept = advisor.find(plan).unwrap();
    let mut edges = kept.draft.simulate(&advisor.network, 1_000_000).edges;
    // Transfers from the root's site to the second take ten times as long.
    let is_hit = |edge: &EdgeTiming| edge.from / 3 == 0 && edge.to / 3 == 1;
    assert!(edges.iter().any(is_hit));
    edges.iter_mut().filter(|edge| is_hit(edge)).for_each(slow_down);

    tell(&mut advisor, at(2), 1_000_000, &edges);
    let commands = advisor.tick(at(3), &SearchBudget::evaluations(100_000));

    assert!(advisor.estimate().bandwidth(0, 1) < 4.0 * MBIT);
    assert!(commands.contains(&AdvisorCommand::Probe(ProbeRequest::Pair { from: 0, to: 1 })));
    assert!(!published(&commands).is_empty());
    let plan = advisor.plan(at(4), ROOT, 1_000_000).unwrap();
    let hit: u32 = plan
        .stripes()
        .iter()
        .filter(|stripe| {
            let mut edges = stripe.tree.edges();
            edges.any(|(from, to)| (10..13).contains(&from.0) && (13..16).contains(&to.0))
        })
        .map(|stripe| stripe.weight)
        .sum();
    let all: u32 = plan.stripes().iter().map(|stripe| stripe.weight).sum();
    assert!(hit * 4 < all, "little goes over the slow link: {hit} of {all}");
}

#[test]
fn the_rest_of_a_broadcast_gets_another_plan_only_if_a_link_became_slow() {
    let mut advisor = advisor();
    tell(&mut advisor, at(0), 1_000_000, &[]);
    advisor.tick(at(1), &SearchBudget::evaluations(100_000));
    let plan = advisor.plan(at(2), ROOT, 1_000_000).unwrap().id();
    let kept = advisor.find(plan).unwrap();
    let mut edges = kept.draft.simulate(&advisor.network, 250_000).edges;
    let budget = SearchBudget::evaluations(5_000);
    let mut rest = |edges: &[EdgeTiming]| {
        let part = Broadcast { root: ROOT, bytes: 250_000, began: at(2), took: None, plan, edges };
        advisor.midway(at(2), &part, 750_000, &budget).unwrap()
    };

    assert_eq!(rest(&edges), None);
    let is_hit = |edge: &EdgeTiming| edge.from / 3 == 0 && edge.to / 3 == 1;
    edges.iter_mut().filter(|edge| is_hit(edge)).for_each(slow_down);
    let other = rest(&edges).unwrap();

    assert!(other.id() > plan);
}

#[test]
fn a_pair_estimated_to_be_bad_is_probed_again_without_traffic() {
    let mut advisor = advisor();
    advisor.tick(at(1), &SearchBudget::unlimited());
    advisor.probed(at(2), 0, 1, 3.0 * MBIT);

    let probe_requests = |commands: &[AdvisorCommand]| {
        commands.contains(&AdvisorCommand::Probe(ProbeRequest::Pair { from: 0, to: 1 }))
    };
    // A pair that differed is probed along with its neighbours at once, then left alone for a
    // while.
    assert!(probe_requests(&advisor.tick(at(3), &SearchBudget::unlimited())));
    assert!(
        !probe_requests(&advisor.tick(at(7), &SearchBudget::unlimited())),
        "it was just asked for"
    );
    assert!(probe_requests(&advisor.tick(at(9), &SearchBudget::unlimited())));
    advisor.probed(at(10), 0, 1, 3.0 * MBIT);
    assert!(
        !probe_requests(&advisor.tick(at(12), &SearchBudget::unlimited())),
        "it was just measured"
    );
    assert!(probe_requests(&advisor.tick(at(15), &SearchBudget::unlimited())));
}

#[test]
fn a_small_gain_is_no_reason_to_switch() {
    let mut advisor = advisor();
    tell(&mut advisor, at(0), 1_000_000, &[]);
    advisor.tick(at(1), &SearchBudget::evaluations(100_000));
    let before = advisor.plan(at(2), ROOT, 1_000_000).unwrap().id();
    for (from, to) in [(0, 1), (0, 2), (1, 2), (2, 1)] {
        advisor.probed(at(2), from, to, 32.0 * MBIT);
    }

    advisor.tick(at(3), &SearchBudget::evaluations(100_000));

    assert_eq!(advisor.plan(at(4), ROOT, 1_000_000).unwrap().id(), before);
}

/// A broadcast by a plan that the advisor did not make.
fn observe(advisor: &mut Advisor, root: NodeId, now: Time, bytes: u64) {
    let plan = PlanId { root, version: 0 };
    advisor.observe(now, &Broadcast { root, bytes, began: now, took: None, plan, edges: &[] });
}

#[test]
fn a_broadcast_that_seems_to_take_no_time_does_not_count_for_its_plan() {
    let mut advisor = advisor();
    let bytes = 1_000_000;
    for (second, took) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
        let (began, took) = (at(second), Some(Duration::from_secs(took)));
        let plan = advisor.plan(began, ROOT, bytes).unwrap().id();
        advisor.observe(began, &Broadcast { root: ROOT, bytes, began, took, plan, edges: &[] });
    }

    let best_s = advisor.roots[&ROOT].contests[&bucket(bytes)].best_s();

    assert!(best_s > 0.1, "{best_s}");
}

#[test]
fn a_dropped_plan_is_retired() {
    let config = AdvisorConfig { plans_max: 4, ..AdvisorConfig::default() };
    let mut advisor = advisor_of((10..19).map(NodeId).collect(), config);
    let (mut in_use, mut retired) = (BTreeSet::new(), 0);
    for (second, bytes) in [(1, 10_000), (20, 1_000_000)] {
        for repeat in 0..8 {
            observe(&mut advisor, ROOT, at(second + repeat), bytes);
        }
        for command in advisor.tick(at(second + 9), &SearchBudget::evaluations(200_000)) {
            match command {
                AdvisorCommand::Publish { plan, .. } => assert!(in_use.insert(plan.id())),
                AdvisorCommand::Retire(plan) => retired += u32::from(in_use.remove(&plan)),
                AdvisorCommand::Probe(_) | AdvisorCommand::Take { .. } => {}
            }
        }
    }

    assert!(retired > 0);
    let contests = advisor.roots[&ROOT].contests.values();
    let kept: BTreeSet<PlanId> =
        contests.flat_map(|contest| contest.ways()).map(|way| way.plan.id()).collect();
    assert!(in_use.is_subset(&kept), "{in_use:?} {kept:?}");
}

#[test]
fn planning_ends_however_few_sizes_are_kept() {
    for plans_max in 1..=4 {
        let config = AdvisorConfig { plans_max, ..AdvisorConfig::default() };
        let mut advisor = advisor_of((10..19).map(NodeId).collect(), config);
        (0..4).for_each(|second| observe(&mut advisor, ROOT, at(second), 1_000_000));
        let budget = SearchBudget::evaluations(100_000);

        advisor.tick(at(5), &budget);

        assert!(budget.spent() > 0 && !budget.is_over(), "{plans_max}: {}", budget.spent());
        assert!(advisor.roots[&ROOT].contests.len() <= plans_max);
    }
}

#[test]
fn planning_ends_if_the_predicted_size_is_not_the_last_one() {
    for plans_max in 1..=4 {
        let config = AdvisorConfig { plans_max, ..AdvisorConfig::default() };
        let mut advisor = advisor_of((10..19).map(NodeId).collect(), config);
        for second in 0..12 {
            let bytes = if second % 2 == 0 { 300_000 } else { 1_000_000 };
            advisor.plan(at(second), ROOT, bytes).unwrap();
            observe(&mut advisor, ROOT, at(second), bytes);
        }
        let budget = SearchBudget::evaluations(100_000);

        // The last size was used at the time of planning.
        advisor.tick(at(11), &budget);

        assert!(budget.spent() > 0 && !budget.is_over(), "{plans_max}: {}", budget.spent());
        assert!(advisor.roots[&ROOT].contests.len() <= plans_max);
    }
}

#[test]
fn a_multicast_takes_the_part_of_a_plan_to_its_targets_if_that_is_faster() {
    let (root, bytes) = (NodeId(0), 1_000_000);
    let mut advisor = advisor_of((0..9).map(NodeId).collect(), AdvisorConfig::default());
    advisor.probed(at(0), 0, 2, MBIT);
    observe(&mut advisor, root, at(1), bytes);
    let commands = advisor.tick(at(2), &SearchBudget::evaluations(200_000));
    let plan = published(&commands)[0].id();
    let sites = ["a", "b", "c"].map(|name| (name.to_owned(), vec![1; 3]));
    let layout = Layout::new(sites.to_vec());
    let targets = BTreeSet::from([NodeId(7)]);
    let by_sites = SubPlan::by_sites(&layout, root, &targets, 50_000);

    let sub_plan = advisor.sub_plan(plan, &targets, bytes, by_sites.clone());

    assert_eq!(sub_plan.plan().id(), plan);
    let is_between = |relay: &NodeId| (3..6).contains(&relay.0);
    assert!(sub_plan.relays().iter().any(is_between), "{:?}", sub_plan.relays());
    let unknown = PlanId { root, version: 99 };
    assert_eq!(advisor.sub_plan(unknown, &targets, bytes, by_sites.clone()), by_sites);
}

#[test]
fn a_multicast_to_a_node_that_is_no_member_does_not_take_a_plan() {
    let (root, bytes) = (NodeId(0), 1_000_000);
    let mut advisor = advisor_of((0..9).map(NodeId).collect(), AdvisorConfig::default());
    advisor.probed(at(0), 0, 2, MBIT);
    observe(&mut advisor, root, at(1), bytes);
    let commands = advisor.tick(at(2), &SearchBudget::evaluations(200_000));
    let plan = published(&commands)[0].id();
    // The nodes of the last site are no members.
    let sites = ["a", "b", "c", "d"].map(|name| (name.to_owned(), vec![1; 3]));
    let targets = BTreeSet::from([NodeId(7), NodeId(10)]);
    let by_sites = SubPlan::by_sites(&Layout::new(sites.to_vec()), root, &targets, 50_000);

    assert_eq!(advisor.sub_plan(plan, &targets, bytes, by_sites.clone()), by_sites);
}

/// The layout's tree of the three sites: to the first node of each, and from there to the others.
fn default_plan() -> BroadcastPlan {
    let edges = [(0, 3), (0, 6), (0, 1), (0, 2), (3, 4), (3, 5), (6, 7), (6, 8)];
    let edges = edges.map(|(from, to)| (NodeId(from + 10), NodeId(to + 10)));
    BroadcastPlan::known_to_all(Tree::from_edges(ROOT, &edges).unwrap(), 68 << 10)
}

/// Broadcasts `rounds` times over a network where a plan takes `takes_s` seconds, with a tick after
/// each. Returns the plans used.
fn play(
    advisor: &mut Advisor,
    rounds: u64,
    bytes: u64,
    takes_s: impl Fn(&BroadcastPlan, &Draft) -> f64,
) -> Vec<PlanId> {
    let mut plans = Vec::new();
    for round in 0..rounds {
        let plan = advisor.plan(at(round), ROOT, bytes).unwrap().clone();
        let draft = &advisor.find(plan.id()).unwrap().draft;
        let took = Some(Duration::from_secs_f64(takes_s(&plan, draft)));
        let broadcast =
            Broadcast { root: ROOT, bytes, began: at(round), took, plan: plan.id(), edges: &[] };
        advisor.observe(at(round), &broadcast);
        advisor.tick(at(round), &SearchBudget::evaluations(20_000));
        plans.push(plan.id());
    }
    plans
}

#[test]
fn plans_slower_than_the_default_plan_are_given_up_after_few_trials() {
    let mut advisor = advisor();
    advisor.introduce(default_plan());

    // Every plan of the planner takes three times as long as the default tree.
    let plans = play(&mut advisor, 30, 1_000_000, |plan, _| match plan.id().version {
        0 => 0.4,
        _ => 1.2,
    });

    let others = plans.iter().filter(|plan| plan.version > 0).count();
    assert!((1..=6).contains(&others), "{plans:?}");
    assert!(plans[10..].iter().all(|plan| plan.version == 0), "{plans:?}");
}

#[test]
fn the_sharing_between_sites_is_learned_from_the_times_of_broadcasts() {
    let mut advisor = advisor();
    advisor.introduce(default_plan());
    (0..3).for_each(|cluster| advisor.probed_together(cluster, 300.0 * MBIT, 300.0 * MBIT));
    let truth = advisor.estimate().with_sharing(Sharing::SiteUplinks).network();
    let takes_s = |_: &BroadcastPlan, draft: &Draft| draft.simulate(&truth, 1_000_000).completion_s;

    let plans = play(&mut advisor, 12, 1_000_000, takes_s);

    assert_eq!(advisor.estimate().sharing(), Sharing::SiteUplinks);
    let last = &advisor.find(plans[11]).unwrap().draft;
    let best =
        plan_broadcast(&truth, 0, 1_000_000, PlannerConfig::default(), &SearchBudget::unlimited());
    let ratio = last.simulate(&truth, 1_000_000).completion_s / best.1;
    assert!(ratio < 1.05, "{ratio}");
}

#[test]
fn a_size_that_keeps_the_default_plan_gets_one_command_to_take_it() {
    let mut advisor = advisor();
    advisor.introduce(default_plan());
    let bytes = 8;
    let plan = default_plan().id();
    advisor.observe(
        at(0),
        &Broadcast { root: ROOT, bytes, began: at(0), took: None, plan, edges: &[] },
    );
    let kept = |commands: &[AdvisorCommand]| {
        let is_kept = |command: &&AdvisorCommand| matches!(command, AdvisorCommand::Take { plan: taken, bytes: 8 } if *taken == plan);
        commands.iter().filter(is_kept).count()
    };

    assert_eq!(kept(&advisor.tick(at(1), &SearchBudget::evaluations(100_000))), 1);
    assert_eq!(kept(&advisor.tick(at(2), &SearchBudget::evaluations(100_000))), 0, "once");
}
