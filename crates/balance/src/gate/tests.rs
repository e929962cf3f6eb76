//! Tests of the gate.

use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const A: SiteId = SiteId(0);
const B: SiteId = SiteId(1);
/// The bytes that move between sites in a millisecond, at 100 Mbit/s.
const BYTES_IN_A_MS: u64 = 12_500;

/// The time `seconds` after the job has run for 1,000 s. At that time the job is expected to run as
/// long again, and balancing may cost 30 s.
fn at(seconds: u32) -> Time {
    Time::ZERO + SECOND * (1000 + seconds)
}

/// A plan that is expected to cost 100 ms: 1 ms for any plan, and 99 ms for its bytes.
fn proposal(seconds: u32, step_ms: u64, then_ms: u64) -> Proposal {
    Proposal {
        now: at(seconds),
        step: Duration::from_millis(step_ms),
        step_usual: Duration::from_millis(step_ms),
        step_slow: Duration::from_millis(step_ms),
        window: Duration::ZERO,
        predicted_now: Duration::from_millis(step_ms),
        predicted_then: Duration::from_millis(then_ms),
        bytes_inside: BTreeMap::new(),
        bytes_between_sites: 99 * BYTES_IN_A_MS,
        is_passing: false,
    }
}

fn gate() -> Gate {
    Gate::new(GateConfig::default())
}

#[test]
fn a_plan_that_pays_passes_at_once_and_one_at_a_time() {
    let mut gate = gate();

    let verdict = gate.consider(&proposal(10, 100, 80));

    assert_eq!(verdict, Verdict::Pass { expected: SECOND * 202, cost: SECOND / 10 });
    assert_eq!(gate.consider(&proposal(10, 100, 80)), Verdict::Refuse(Refusal::StillJudging));
}

#[test]
fn noise_and_plans_that_do_not_pay_are_refused() {
    let refusal = |change: fn(&mut Proposal)| {
        let mut proposal = proposal(10, 1000, 900);
        change(&mut proposal);
        match gate().consider(&proposal) {
            Verdict::Refuse(refusal) => refusal,
            Verdict::Pass { .. } => panic!("{proposal:?} passed"),
        }
    };
    let too_little = refusal(|p| p.predicted_then = Duration::from_millis(995));
    assert!(matches!(too_little, Refusal::TooLittle { .. }));
    let early = refusal(|p| p.now = Time::ZERO + SECOND);
    assert!(matches!(early, Refusal::DoesNotPay { .. }));
    // 1 GB over 100 Mbit/s takes 80 s; a tenth of 500 s is saved.
    let heavy = refusal(|p| {
        (p.now, p.bytes_between_sites) = (Time::ZERO + SECOND * 500, 1_000_000_000);
    });
    assert!(matches!(heavy, Refusal::DoesNotPay { cost, .. } if cost > SECOND * 79));
    // The plan would save 100 s, but costs 40 s, more than 3 % of the job if it were a mistake.
    let risky = refusal(|p| p.bytes_between_sites = 40_000 * BYTES_IN_A_MS);
    assert!(matches!(risky, Refusal::OverBudget { .. }));
}

#[test]
fn actors_leave_a_passing_load_only_once_half_of_the_cost_is_lost() {
    let mut gate = gate();
    let passing = |seconds| {
        // Costs 2 s.
        let bytes_between_sites = 1999 * BYTES_IN_A_MS;
        let passing = proposal(seconds, 1000, 900);
        Proposal { is_passing: true, bytes_between_sites, window: SECOND, ..passing }
    };
    // A tenth of each second is lost. Half of the cost, 1 s, is lost after 10 s. After 25 s,
    // counted from the beginning of the first window, the cause is expected to last for another 25
    // s, in which the plan saves the required 2.5 s.
    let passed = (100..200).find(|&at| matches!(gate.consider(&passing(at)), Verdict::Pass { .. }));

    assert_eq!(passed, Some(125));
}

#[test]
fn time_without_measurements_does_not_count_as_lost() {
    let mut gate = gate();
    let passing = |seconds| {
        // Costs 2 s.
        let bytes_between_sites = 1999 * BYTES_IN_A_MS;
        let passing = proposal(seconds, 1000, 900);
        Proposal { is_passing: true, bytes_between_sites, window: SECOND, ..passing }
    };
    assert!(matches!(gate.consider(&passing(100)), Verdict::Refuse(_)));

    let verdict = gate.consider(&passing(200));

    let lost = SECOND / 5;
    assert!(
        matches!(verdict, Verdict::Refuse(Refusal::Waiting { lost: all, .. }) if all == lost),
        "{verdict:?}"
    );
}

#[test]
fn a_small_gain_passes_again_some_time_after_a_mistake() {
    let mut gate = gate();
    assert!(matches!(gate.consider(&proposal(10, 100, 80)), Verdict::Pass { .. }));
    gate.carried_out(at(10), SECOND / 10);
    for second in 11..17 {
        gate.observe(at(second), Duration::from_millis(130), 1.0);
    }
    let small = |second| proposal(second, 1000, 985);
    let doubt = gate.consider(&small(40));
    assert!(matches!(doubt, Verdict::Refuse(Refusal::TooLittle { .. })), "{doubt:?}");

    let passed =
        (41..200).find(|&second| matches!(gate.consider(&small(second)), Verdict::Pass { .. }));

    assert!(passed.is_some_and(|at| at > 45), "{passed:?}");
}

#[test]
fn a_plan_that_made_steps_longer_should_be_undone_and_lowers_trust() {
    let mut gate = gate();
    assert!(matches!(gate.consider(&proposal(10, 100, 80)), Verdict::Pass { .. }));
    gate.carried_out(at(10), SECOND / 10);
    for second in 11..16 {
        assert_eq!(gate.observe(at(second), Duration::from_millis(130), 1.0), None);
    }

    let outcome = gate.observe(at(16), Duration::from_millis(130), 1.0).unwrap();

    assert!(outcome.should_undo && (outcome.realised + 0.3).abs() < 1e-9);
    assert!((gate.trust() - 0.6).abs() < 1e-9);
    let next = gate.consider(&proposal(17, 130, 80));
    assert_eq!(next, Verdict::Refuse(Refusal::AfterMistake { until: at(26) }));
}

#[test]
fn a_plan_whose_gain_is_realised_keeps_the_trust() {
    let mut gate = gate();
    gate.consider(&proposal(10, 100, 80));
    gate.carried_out(at(10), SECOND / 10);

    let step = |second| (at(second), SECOND * 8 / 100);
    let outcomes: Vec<_> =
        (11..20).map(step).filter_map(|(now, step)| gate.observe(now, step, 1.0)).collect();

    assert_eq!(outcomes.len(), 1);
    assert!(!outcomes[0].should_undo && (outcomes[0].realised - 0.2).abs() < 1e-9);
    assert_eq!(gate.trust(), 1.0);
}

proptest! {
    /// Foreign load comes and goes; moving away and back costs a pause. A run with the gate is
    /// never much longer than one without moves, even if each move is a mistake.
    #[test]
    fn the_gate_never_costs_more_than_its_budget(
        truth in prop::collection::vec((-40..40_i64, 1..60_usize), 1..30),
        pause_ms in 1..3000_u64,
    ) {
        let mut gate = gate();
        let (mut now, mut cost, mut steps) = (Time::ZERO, 0.0, 0_u32);
        for (gain, length) in truth {
            for _ in 0..length {
                steps += 1;
                now += SECOND;
                // The model predicts a gain; the true gain is `gain` percent.
                let bytes_between_sites = (pause_ms - 1) * BYTES_IN_A_MS;
                let proposal = Proposal {
                    now, is_passing: true, bytes_between_sites, ..proposal(0, 1000, 700)
                };
                let mut step = 1.0;
                if matches!(gate.consider(&proposal), Verdict::Pass { .. }) {
                    gate.carried_out(now, Duration::from_millis(pause_ms));
                    cost += pause_ms as f64 * 1e-3;
                }
                if gate.judgement.is_some() {
                    step -= gain as f64 * 0.01;
                    // Steps of a bad plan last until it is judged and undone.
                    cost += step - 1.0;
                }
                if let Some(outcome) = gate.observe(now, Duration::from_secs_f64(step), 1.0)
                    && outcome.should_undo
                {
                    gate.carried_out(now, Duration::from_millis(pause_ms));
                    cost += pause_ms as f64 * 1e-3;
                }
            }
        }
        // The budget, and the steps until the first mistakes are noticed.
        prop_assert!(cost <= f64::from(steps) * 0.031 + 8.0 * 0.4 * 3.0, "{cost} s of {steps} s");
    }
}

#[test]
fn extreme_times_cause_no_panic() {
    let huge = Proposal { bytes_between_sites: u64::MAX, now: Time::MAX, ..proposal(1, 1000, 0) };
    assert!(matches!(gate().consider(&huge), Verdict::Refuse(_)));
    let nothing = Proposal { step: Duration::ZERO, ..proposal(1, 0, 0) };
    assert!(matches!(gate().consider(&nothing), Verdict::Refuse(Refusal::TooLittle { .. })));
}

#[test]
fn the_usual_variation_of_steps_is_no_reason_to_undo() {
    let outcome = |usual: [u64; 6]| {
        let mut gate = gate();
        for (nth, step_ms) in (0..).zip(usual) {
            gate.consider(&proposal(10 + nth, step_ms, step_ms));
        }
        assert!(matches!(gate.consider(&proposal(20, 100, 80)), Verdict::Pass { .. }));
        gate.carried_out(at(20), SECOND / 10);
        gate.observe(at(30), SECOND * 11, 100.0).unwrap()
    };

    assert!(outcome([100; 6]).should_undo, "a tenth slower");
    assert!(!outcome([100, 110, 99, 108, 95, 104]).should_undo, "they differ by a tenth anyway");
}

#[test]
fn a_plan_is_watched_for_as_long_as_the_window_before_it() {
    let mut gate = gate();
    gate.consider(&Proposal { window: SECOND, ..proposal(10, 100, 0) });
    gate.carried_out(at(10), SECOND / 10);
    let millis = Duration::from_millis;

    assert_eq!(gate.observe(at(11), millis(500), 10.0), None);
    let outcome = gate.observe(at(12), millis(500), 10.0).unwrap();
    assert!((outcome.realised - 0.5).abs() < 1e-9);
}

#[test]
fn the_cost_of_past_plans_scales_the_expected_cost_of_later_ones() {
    let mut gate = gate();
    // The plan is expected to cost 11 ms: 1 ms for any plan, and 10 ms for its bytes. It costs 55
    // ms.
    let unknown = |seconds| Proposal {
        bytes_inside: BTreeMap::from([(A, 1_250_000)]),
        bytes_between_sites: 0,
        ..proposal(seconds, 100, 80)
    };
    assert!(
        matches!(gate.consider(&unknown(10)), Verdict::Pass { cost, .. } if cost == Duration::from_millis(11))
    );
    gate.carried_out(at(10), Duration::from_millis(55));
    gate.observe(at(12), SECOND, 12.5);

    let Verdict::Pass { cost, .. } = gate.consider(&unknown(20)) else { panic!("it pays") };
    assert_eq!(cost.as_millis(), 55);
}

#[test]
fn a_known_rate_or_a_measured_cost_makes_moves_over_slow_links_dear() {
    // 30 MB take 0.24 s at 1 Gbit/s, and 16 s at 15 Mbit/s.
    let heavy = |seconds| Proposal {
        bytes_inside: BTreeMap::from([(A, 30_000_000)]),
        bytes_between_sites: 0,
        ..proposal(seconds, 100, 50)
    };
    let cost = |gate: &mut Gate, seconds| match gate.consider(&heavy(seconds)) {
        Verdict::Pass { cost, .. } => cost.as_secs_f64(),
        refusal @ Verdict::Refuse(_) => panic!("{refusal:?}"),
    };
    let (mut gate, mut known) = (gate(), gate());
    known.state_moves_at(BTreeMap::from([(A, Bandwidth::from_bits_per_second(15_000_000))]));

    assert!((cost(&mut gate, 10) - 0.241).abs() < 1e-3);
    gate.carried_out(at(30), SECOND * 16);
    gate.observe(at(40), SECOND * 10, 200.0);

    assert!((cost(&mut gate, 50) - 16.0).abs() < 0.1);
    assert!((cost(&mut known, 10) - 16.0).abs() < 0.1);
}

#[test]
fn moves_inside_a_site_take_the_time_of_its_own_rate() {
    let cost = |bytes_inside| {
        let mut gate = gate();
        gate.state_moves_at(BTreeMap::from([
            (A, Bandwidth::from_bits_per_second(15_000_000)),
            (B, Bandwidth::from_bits_per_second(500_000_000)),
        ]));
        let proposal = Proposal { bytes_inside, bytes_between_sites: 0, ..proposal(10, 100, 50) };
        match gate.consider(&proposal) {
            Verdict::Pass { cost, .. } => cost.as_millis(),
            refusal @ Verdict::Refuse(_) => panic!("{refusal:?}"),
        }
    };

    // 30 MB take 16 s at 15 Mbit/s, 0.48 s at 500 Mbit/s, and 0.24 s at 1 Gbit/s.
    assert_eq!(cost(BTreeMap::from([(A, 30_000_000)])), 16_001);
    assert_eq!(cost(BTreeMap::from([(B, 30_000_000)])), 481);
    assert_eq!(cost(BTreeMap::from([(SiteId(2), 30_000_000)])), 241, "its rate is not known");
    let both = BTreeMap::from([(A, 300_000), (B, 30_000_000)]);
    assert_eq!(cost(both), 481, "sites do not wait for each other");
}

#[test]
fn a_slow_link_does_not_count_twice_once_its_rate_is_known() {
    let heavy = |seconds| Proposal {
        bytes_inside: BTreeMap::from([(A, 30_000_000)]),
        bytes_between_sites: 0,
        ..proposal(seconds, 100, 50)
    };
    let mut gate = gate();
    assert!(matches!(gate.consider(&heavy(10)), Verdict::Pass { .. }));
    gate.carried_out(at(30), SECOND * 16);
    gate.observe(at(40), SECOND * 10, 200.0);

    gate.state_moves_at(BTreeMap::from([(A, Bandwidth::from_bits_per_second(15_000_000))]));

    let Verdict::Pass { cost, .. } = gate.consider(&heavy(50)) else { panic!("it pays") };
    assert!((cost.as_secs_f64() - 16.0).abs() < 0.1, "{cost:?}");
    // At about the same rate, the cost that was learned counts.
    gate.carried_out(at(70), SECOND * 32);
    gate.observe(at(80), SECOND * 10, 200.0);
    gate.state_moves_at(BTreeMap::from([(A, Bandwidth::from_bits_per_second(20_000_000))]));
    let Verdict::Pass { cost, .. } = gate.consider(&heavy(90)) else { panic!("it pays") };
    assert!((cost.as_secs_f64() - 24.0).abs() < 0.1, "{cost:?}");
}

#[test]
fn a_plan_that_was_disturbed_has_no_outcome_and_lets_others_pass() {
    let mut gate = gate();
    let passing =
        |seconds| Proposal { is_passing: true, window: SECOND * 4, ..proposal(seconds, 1000, 500) };
    assert!(matches!(gate.consider(&passing(100)), Verdict::Pass { .. }));
    gate.carried_out(at(100), SECOND / 10);

    gate.disturbed();

    assert_eq!(gate.observe(at(110), SECOND * 10, 5.0), None);
    // The next cause is as old as its window.
    assert!(matches!(gate.consider(&passing(110)), Verdict::Pass { expected, .. }
        if expected == SECOND * 2));
    assert_eq!(gate.trust(), 1.0);
}

#[test]
fn planning_waits_while_it_has_cost_more_than_its_part_of_the_job() {
    let mut gate = gate();
    gate.spent(SECOND);

    assert!(!gate.has_room(Time::ZERO + SECOND * 99));
    assert!(gate.has_room(Time::ZERO + SECOND * 101));
}

#[test]
fn no_plan_is_made_if_planning_costs_more_than_the_best_plan_saves() {
    let mut gate = gate();
    // The best plan saves a fifth of the time, and a job that has run for 1 s is expected to run
    // for 1 s more.
    let now = Time::ZERO + SECOND;
    let best = Proposal { now, bytes_between_sites: 0, ..proposal(1, 100, 80) };
    let planning = Duration::from_millis(200);

    assert!(matches!(gate.rules_out(&best, planning), Some(Refusal::DoesNotPay { .. })));
    assert_eq!(gate.rules_out(&best, Duration::from_millis(50)), None);
    assert_eq!(gate.rules_out(&best, Duration::ZERO), None);
    assert_eq!(gate.rules_out(&Proposal { now: Time::ZERO + SECOND * 10, ..best }, planning), None);
    let even = proposal(1, 1000, 995);
    assert!(matches!(gate.rules_out(&even, Duration::ZERO), Some(Refusal::TooLittle { .. })));
}

#[test]
fn the_end_of_the_work_is_no_slow_step() {
    let mut gate = gate();
    gate.consider(&Proposal { window: SECOND * 2, ..proposal(10, 100, 80) });
    gate.carried_out(at(10), SECOND / 10);
    assert_eq!(gate.observe(at(11), SECOND, 12.5), None);

    let outcome = gate.observe(at(16), SECOND * 5, 1.0).unwrap();

    assert!(!outcome.should_undo && (outcome.realised - 0.2).abs() < 1e-9, "{outcome:?}");
}

#[test]
fn a_large_gain_passes_early_in_a_job_unless_plans_have_been_mistakes() {
    let early = |millis: u32| {
        let now = Time::ZERO + Duration::from_millis(1) * millis;
        Proposal { now, bytes_between_sites: 0, ..proposal(0, 20, 5) }
    };
    // Any plan is expected to cost 1 ms, so 2 ms are at stake in a job of some milliseconds.
    let mut gate = gate();
    let too_early = gate.consider(&early(2));
    assert!(matches!(too_early, Verdict::Refuse(Refusal::OverBudget { .. })), "{too_early:?}");
    assert!(matches!(gate.consider(&early(3)), Verdict::Pass { .. }));
    gate.carried_out(early(3).now, Duration::from_millis(1));
    assert!(gate.observe(early(400).now, SECOND, 10.0).is_some_and(|outcome| outcome.should_undo));
    gate.not_before = Time::ZERO;

    let careful = gate.consider(&early(40));
    assert!(matches!(careful, Verdict::Refuse(Refusal::OverBudget { .. })), "{careful:?}");
}

#[test]
fn a_passing_cause_is_as_old_as_the_window_in_which_it_was_measured() {
    let mut gate = gate();
    let passing = Proposal { is_passing: true, window: SECOND * 4, ..proposal(100, 1000, 900) };

    assert!(matches!(gate.consider(&passing), Verdict::Pass { expected, .. }
        if expected == SECOND * 4 / 10));
}

#[test]
fn moving_while_the_job_goes_on_costs_no_more_than_the_steps_that_were_missed() {
    let mut gate = gate();
    let unknown = |seconds| Proposal { bytes_between_sites: 0, ..proposal(seconds, 100, 80) };
    gate.consider(&unknown(10));
    // The moves took 2 s, but the job lost only 200 ms of 3 s.
    gate.carried_out_meanwhile(at(12), SECOND * 2);
    gate.progressed_meanwhile(SECOND * 3, 28.0);
    assert!((gate.owed - 0.2).abs() < 1e-9, "{}", gate.owed);
    gate.observe(at(14), SECOND, 12.5);

    let next = gate.consider(&unknown(30));

    // The cost was 200 times the estimate from the bytes; the factor is limited to 20.
    assert!(matches!(next, Verdict::Pass { cost, .. } if cost.as_millis() == 20), "{next:?}");
}
