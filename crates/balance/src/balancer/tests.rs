//! Tests of the balancer.

use super::disturbance::DISTURBED_MAX;
use super::undo::work_of_message;
use super::*;
use crate::cost::figures::Figures;
use crate::fixtures::{actor, snapshot};
use crate::gate::Refusal;
use crate::plan::{Move, Plan};
use crate::snapshot::PeLoad;
use crate::strategies::random::Random;
use crate::strategies::refine::Refine;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Duration of the moves; messages handled during that time do not count as steps.
const MOVING: Duration = Duration::from_millis(2);

fn at(second: u32) -> Time {
    Time::ZERO + SECOND * second
}

/// Four actors on one of four PEs, for a window of one step; the step takes as long as their work.
fn lopsided() -> Snapshot {
    let mut snapshot = snapshot(&[0, 0, 0, 0]);
    snapshot.edges.clear();
    snapshot.actors.iter_mut().for_each(|actor| actor.migratable = true);
    snapshot
}

fn window(snapshot: &Snapshot, second: u32) -> Window<'_> {
    let time = snapshot.load_per_pe().into_iter().max().unwrap();
    Window {
        now: at(second),
        cause: Cause::Period,
        snapshot,
        time,
        handled: 100,
        takes_time: false,
    }
}

/// Returns a balancer that has carried out a plan, and the plan.
fn carried_out() -> (Balancer, Plan) {
    let mut balancer = Balancer::new(Box::new(Refine), true);
    let plan = balancer.decide(&window(&lopsided(), 100));
    assert!(!plan.is_empty());
    balancer.carried_out(at(101), plan.moves.len() as u64, MOVING);
    balancer.progress(at(101), MOVING, 20);
    (balancer, plan)
}

#[test]
fn a_plan_that_pays_is_judged_by_the_messages_that_follow() {
    let (mut balancer, plan) = carried_out();
    assert!(balancer.is_judging() && !balancer.may_begin(at(102)));

    // 100 messages took 10 ms before the plan, and take 6 ms after it.
    balancer.progress(at(102), Duration::from_millis(60), 1000);

    let report = balancer.take_report().unwrap();
    assert_eq!(report.moved, plan.moves.len() as u64);
    assert!((report.realised.unwrap() - 0.4).abs() < 1e-9, "{report:?}");
    assert!(report.predicted.unwrap() > 0.3 && !balancer.wants_undo());
    assert!(report.to_string().ends_with("% predicted, 40.0 % realised"), "{report}");
}

#[test]
fn a_rebalance_without_moves_does_not_end_the_judging_of_an_earlier_plan() {
    let (mut balancer, plan) = carried_out();

    assert!(balancer.decide(&window(&lopsided(), 102)).is_empty());
    balancer.carried_out(at(102), 0, Duration::ZERO);

    assert!(balancer.is_judging());
    balancer.progress(at(103), Duration::from_millis(60), 1000);
    assert_eq!(balancer.take_report().unwrap().moved, plan.moves.len() as u64);
}

#[test]
fn a_plan_is_no_longer_judged_once_other_programs_slow_its_pes() {
    let (mut balancer, plan) = carried_out();
    let mut now = lopsided();
    for step in &plan.moves {
        now.actors.iter_mut().find(|actor| actor.id == step.actor).unwrap().pe = step.to;
    }
    let slowed = plan.moves[0].to;
    now.pes[slowed.index()].available = 0.1;

    let next = balancer.decide(&window(&now, 110));

    let report = balancer.take_report().unwrap();
    assert_eq!((report.moved, report.realised), (plan.moves.len() as u64, None));
    assert!(next.moves.iter().any(|step| step.from == slowed), "{next:?}");
}

#[test]
fn plans_that_slow_their_own_pes_are_judged_after_two_in_a_row() {
    let (mut balancer, _) = carried_out();
    let mut now = lopsided();
    for round in 1..=DISTURBED_MAX {
        // All work is on a PE that gets less processor time in each round.
        now.pes[0].available = 1.0 - 0.3 * f64::from(round);
        let second = 100 + 10 * round;
        let next = balancer.decide(&window(&now, second));
        assert!(!next.is_empty(), "plan {round}");
        assert_eq!(balancer.take_report().unwrap().realised, None);
        balancer.carried_out(at(second + 1), next.moves.len() as u64, MOVING);
        balancer.progress(at(second + 1), MOVING, 20);
    }
    now.pes[0].available = 0.1;

    assert!(balancer.decide(&window(&now, 150)).is_empty() && balancer.is_judging());

    balancer.progress(at(151), Duration::from_millis(600), 1000);
    assert!(balancer.take_report().unwrap().realised.is_some_and(|part| part < 0.0));
    assert!(balancer.wants_undo());
}

#[test]
fn load_on_a_pe_without_work_does_not_end_the_judgement() {
    let (mut balancer, plan) = carried_out();
    let mut now = lopsided();
    now.actors.iter_mut().for_each(|actor| actor.pe = plan.moves[0].from);
    now.pes[plan.moves[0].to.index()].available = 0.5;

    assert!(balancer.decide(&window(&now, 110)).is_empty() && balancer.is_judging());
}

#[test]
fn an_undo_waits_until_actors_can_move() {
    let (mut balancer, plan) = carried_out();
    balancer.progress(at(102), Duration::from_millis(200), 1000);
    balancer.take_report();
    let mut now = lopsided();
    for step in &plan.moves {
        now.actors.iter_mut().find(|actor| actor.id == step.actor).unwrap().pe = step.to;
    }
    let mut fixed = now.clone();
    fixed.actors.iter_mut().for_each(|actor| actor.migratable = false);

    assert!(balancer.decide(&window(&fixed, 103)).is_empty());

    assert!(balancer.wants_undo() && balancer.may_begin(at(104)));
    assert_eq!(balancer.decide(&window(&now, 105)).moves.len(), plan.moves.len());
}

#[test]
fn an_undo_waits_for_each_of_its_actors_while_others_can_move() {
    let (mut balancer, plan) = carried_out();
    balancer.progress(at(102), Duration::from_millis(200), 1000);
    balancer.take_report();
    let mut now = lopsided();
    for step in &plan.moves {
        now.actors.iter_mut().find(|actor| actor.id == step.actor).unwrap().pe = step.to;
    }
    let mut held_up = now.clone();
    let held = held_up.actors.iter_mut().find(|actor| actor.id == plan.moves[0].actor);
    held.unwrap().migratable = false;

    assert!(balancer.decide(&window(&held_up, 103)).is_empty());

    assert!(balancer.wants_undo() && balancer.may_begin(at(104)));
    assert_eq!(balancer.decide(&window(&now, 105)).moves.len(), plan.moves.len());
}

/// The figures of a plan of leaders.
fn led_figures() -> Figures {
    Figures {
        actors: 4,
        moves: 3,
        replicas: 0,
        steps: 1,
        step_before: Duration::from_millis(10),
        step_after: Duration::from_millis(4),
        traffic_before: Traffic::default(),
        traffic_after: Traffic::default(),
        bytes_inside: 1000,
        bytes_busiest: BTreeMap::from([(SiteId(0), 1000)]),
        bytes_between_sites: 2000,
        is_passing: false,
    }
}

fn led_occasion(second: u32) -> Occasion {
    let time = Duration::from_millis(10);
    Occasion { now: at(second), cause: Cause::Period, time, handled: 100 }
}

/// States of PEs without other programs, and the time that their actors have used.
fn quiet_pes() -> (Vec<PeLoad>, Vec<Duration>) {
    (vec![PeLoad::default(); 4], vec![Duration::from_millis(1); 4])
}

fn decide_led(balancer: &mut Balancer, second: u32, figures: &Figures, is_undo: bool) -> bool {
    let (pes, loads) = quiet_pes();
    balancer.decide_led(&led_occasion(second), figures, (&pes, &loads), is_undo)
}

/// Returns a balancer whose leaders have carried out a plan that was a mistake.
fn mistaken_leaders() -> Balancer {
    let mut balancer = Balancer::new(Box::new(crate::LeaderCut::new(1)), true);
    assert!(balancer.is_led() && decide_led(&mut balancer, 100, &led_figures(), false));
    balancer.carried_out(at(101), 3, MOVING);
    balancer.progress(at(101), MOVING, 20);
    balancer.progress(at(102), Duration::from_millis(200), 1000);
    balancer
}

#[test]
fn a_plan_of_leaders_is_judged_and_undone_by_the_leaders() {
    let (mut balancer, figures) = (mistaken_leaders(), led_figures());

    let report = balancer.take_report().unwrap();
    assert_eq!((report.moved, report.bytes_moved, report.actors), (3, 3000, 4));
    assert!(report.realised.unwrap() < -0.9 && balancer.wants_undo());
    assert!(!decide_led(&mut balancer, 102, &figures, false), "the mistake comes first");
    assert!(balancer.take_led_undo() && !balancer.take_led_undo());
    assert!(decide_led(&mut balancer, 103, &figures, true));
    balancer.carried_out(at(103), 3, Duration::ZERO);
    assert_eq!(balancer.take_report().unwrap().cause, Cause::Undo);
}

#[test]
fn a_plan_of_leaders_is_no_longer_judged_once_other_programs_slow_its_pes() {
    let mut balancer = Balancer::new(Box::new(crate::LeaderCut::new(1)), true);
    let figures = led_figures();
    assert!(decide_led(&mut balancer, 100, &figures, false));
    balancer.carried_out(at(101), 3, MOVING);
    balancer.progress(at(101), MOVING, 20);
    let (mut pes, mut loads) = quiet_pes();

    (pes[3].available, loads[3]) = (0.1, Duration::ZERO);
    assert!(!balancer.decide_led(&led_occasion(109), &figures, (&pes, &loads), false));
    assert!(balancer.is_judging(), "no actor of the plan is on the slow PE");
    pes[1].available = 0.1;
    assert!(balancer.decide_led(&led_occasion(110), &figures, (&pes, &loads), false));

    let report = balancer.take_report().unwrap();
    assert_eq!((report.moved, report.realised), (3, None));
    assert!(!balancer.wants_undo() && balancer.is_moving());
}

#[test]
fn an_undo_of_leaders_waits_until_its_actors_can_move() {
    let mut balancer = mistaken_leaders();
    assert!(balancer.take_led_undo());

    balancer.put_off_led_undo();

    assert!(balancer.wants_undo() && balancer.may_begin(at(103)));
    let nothing = Figures { moves: 0, step_after: led_figures().step_before, ..led_figures() };
    assert!(!decide_led(&mut balancer, 103, &nothing, false));
    assert!(balancer.take_led_undo(), "the undo still waits");
    assert!(decide_led(&mut balancer, 104, &led_figures(), true));
}

#[test]
fn an_undo_of_leaders_that_no_longer_plan_blocks_nothing() {
    let mut balancer = mistaken_leaders();
    assert!(balancer.wants_undo() && !balancer.may_begin(at(103)));

    balancer.decide(&window(&lopsided(), 103));

    assert!(!balancer.wants_undo());
    let (mut balancer, _) = carried_out();
    balancer.progress(at(102), Duration::from_millis(200), 1000);
    assert!(balancer.wants_undo());
    assert!(!balancer.take_led_undo(), "the leaders do not know the moves");
    assert!(!balancer.wants_undo());
}

#[test]
fn a_plan_that_made_steps_longer_is_undone_for_the_actors_that_still_exist() {
    let (mut balancer, plan) = carried_out();
    balancer.progress(at(102), Duration::from_millis(200), 1000);
    assert!(balancer.wants_undo());
    assert!(balancer.take_report().unwrap().realised.unwrap() < -0.9);
    let mut now = lopsided();
    for step in &plan.moves {
        now.actors.iter_mut().find(|actor| actor.id == step.actor).unwrap().pe = step.to;
    }
    // One of the moved actors no longer exists.
    now.actors.retain(|actor| actor.id != plan.moves[0].actor);

    let undo = balancer.decide(&window(&now, 103));

    let back = |step: &Move| Move { actor: step.actor, from: step.to, to: step.from };
    assert_eq!(undo.moves, plan.moves[1..].iter().map(back).collect::<Vec<_>>());
    balancer.carried_out(at(104), undo.moves.len() as u64, Duration::from_millis(2));
    let report = balancer.take_report().unwrap();
    assert_eq!((report.cause, report.moved), (Cause::Undo, undo.moves.len() as u64));
    assert!(balancer.decide(&window(&lopsided(), 105)).is_empty(), "not again so soon");
    assert!(matches!(balancer.take_report().unwrap().refusal, Some(Refusal::AfterMistake { .. })));
}

#[test]
fn a_plan_is_kept_if_steps_are_longer_because_work_has_shifted_among_actors() {
    let (mut balancer, plan) = carried_out();
    // 100 messages take 13 ms; before the plan they took 10 ms.
    balancer.progress(at(102), Duration::from_millis(130), 1000);
    assert!(balancer.wants_undo());
    let mut now = lopsided();
    for actor in &mut now.actors {
        actor.load = Duration::from_micros(10);
    }
    // The total work is unchanged, but one actor has nearly all of it, so that no placement helps.
    for step in &plan.moves {
        let actor = now.actors.iter_mut().find(|actor| actor.id == step.actor).unwrap();
        (actor.pe, actor.load) = (step.to, Duration::from_micros(10));
    }
    now.actors.iter_mut().find(|actor| actor.id == plan.moves[0].actor).unwrap().load =
        Duration::from_millis(10);

    let undo = balancer.decide(&window(&now, 103));

    assert!(undo.is_empty(), "{undo:?}");
    balancer.take_report();
    let report = balancer.take_report().unwrap();
    assert!(matches!(report.refusal, Some(Refusal::TooLittle { .. })), "{report:?}");
    assert!(!balancer.wants_undo() && balancer.may_begin(at(104)));
}

#[test]
fn strategies_that_do_not_predict_bypass_the_gate() {
    let mut balancer = Balancer::new(Box::new(Random::new(1)), true);
    let even = snapshot(&[0, 1, 2, 3]);
    for second in 1..20 {
        let plan = balancer.decide(&window(&even, second));
        balancer.carried_out(at(second), plan.moves.len() as u64, SECOND);
        let report = balancer.take_report().unwrap();
        assert_eq!((report.moved, report.refusal), (plan.moves.len() as u64, None));
        assert!(balancer.may_begin(at(second)));
    }
}

#[test]
fn without_a_gate_every_plan_is_carried_out() {
    let mut balancer = Balancer::new(Box::new(Refine), false);

    assert!(!balancer.decide(&window(&lopsided(), 0)).is_empty());
}

#[test]
fn a_plan_that_does_not_fit_the_snapshot_is_not_carried_out() {
    struct Wrong;
    impl Strategy for Wrong {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn plan(&mut self, _: &Snapshot) -> Plan {
            Plan::of(vec![Move {
                actor: actor(99),
                from: gridspan_topology::PeId(0),
                to: gridspan_topology::PeId(1),
            }])
        }
    }
    let mut balancer = Balancer::new(Box::new(Wrong), true);

    assert!(balancer.decide(&window(&lopsided(), 100)).is_empty());
}

/// A strategy that counts its calls.
struct Counted(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Strategy for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Refine.plan(snapshot)
    }
}

#[test]
fn a_strategy_is_asked_once_the_job_has_lost_more_than_planning_takes() {
    let asked = std::sync::Arc::default();
    let mut balancer = Balancer::new(Box::new(Counted(std::sync::Arc::clone(&asked))), true);
    let count = || asked.load(std::sync::atomic::Ordering::Relaxed);
    let snapshot = lopsided();
    let timed = |ms| {
        let now = Time::ZERO + Duration::from_millis(ms);
        Window { now, takes_time: true, ..window(&snapshot, 0) }
    };

    // 6 ms of a step of 10 ms could be saved.
    assert!(balancer.decide(&timed(10)).is_empty());
    let report = balancer.take_report().unwrap();
    assert!(matches!(report.refusal, Some(Refusal::DoesNotPay { .. })), "{report:?}");
    assert_eq!((count(), report.moved), (0, 0));

    assert!(!balancer.decide(&timed(1000)).is_empty());
    assert_eq!(count(), 1);
}

#[test]
fn a_slow_strategy_is_asked_later_unless_a_plan_is_requested() {
    let mut balancer = Balancer::new(Box::new(Refine), true);
    let snapshot = lopsided();
    let timed = |ms, cause| {
        let now = Time::ZERO + Duration::from_millis(ms);
        Window { now, cause, takes_time: true, ..window(&snapshot, 0) }
    };
    assert!(!balancer.decide(&timed(1000, Cause::Period)).is_empty());
    balancer.planned_for(SECOND);
    balancer.give_up();

    assert!(balancer.decide(&timed(1500, Cause::SyncPoint)).is_empty());
    assert!(!balancer.decide(&timed(1500, Cause::Request)).is_empty());
}

#[test]
fn no_strategy_is_asked_where_work_is_even() {
    let asked = std::sync::Arc::default();
    let mut balancer = Balancer::new(Box::new(Counted(std::sync::Arc::clone(&asked))), true);
    let mut snapshot = snapshot(&[0, 1, 2, 3]);
    snapshot.edges.clear();
    snapshot.actors.iter_mut().for_each(|actor| actor.load = Duration::from_millis(10));

    assert!(balancer.decide(&window(&snapshot, 100)).is_empty());

    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 0);
    let refusal = balancer.take_report().unwrap().refusal;
    assert_eq!(refusal, Some(Refusal::TooLittle { gain: 0.0 }));
}

#[test]
fn loads_add_up_to_at_most_the_longest_duration() {
    let mut snapshot = lopsided();
    snapshot.actors.iter_mut().for_each(|actor| actor.load = Duration::MAX);

    assert_eq!(work_of_message(&window(&snapshot, 1)), Duration::MAX.as_secs_f64() / 100.0);
}
