//! Correct runs, and runs with a single error each.

use super::*;
use crate::leanmd::args::Options;
use clap::Parser;

#[test]
fn a_serial_run_passes_all_checks() {
    let (system, schedule, outcome) = serial();
    assert_eq!(outcome.compare_with_serial(&system, &schedule), Ok(()));
    let conservation = outcome.conservation(&schedule);
    assert!(conservation.is_fine(), "{conservation}");
    assert!(conservation.energy_error > 0.0);
}

#[test]
fn a_single_wrong_bit_is_found() {
    let (system, schedule, outcome) = serial();
    let mut wrong = outcome.clone();
    wrong.observations[1].sums.energy = wrong.observations[1].sums.energy.next_up();
    let error = wrong.compare_with_serial(&system, &schedule).unwrap_err();
    assert!(error.starts_with("step 5 is"), "{error}");
    let mut wrong = outcome.clone();
    wrong.fingerprints[3].0 ^= 1;
    let error = wrong.compare_with_serial(&system, &schedule).unwrap_err();
    assert_eq!(error, "the trajectory of cell 3 is not the serial one");
    let mut wrong = outcome;
    wrong.fingerprints.pop();
    assert!(wrong.compare_with_serial(&system, &schedule).is_err());
}

#[test]
fn wrong_energy_momentum_or_number_of_atoms_is_found() {
    let (_, schedule, outcome) = serial();
    type Damage = fn(&mut Observation);
    let damages: [(Damage, &str); 4] = [
        (|state| state.motion.kinetic *= 1.01, "energy"),
        (|state| state.sums.energy = f64::NAN, "NaN"),
        (|state| state.motion.momentum[1] += 1e-3, "momentum"),
        (|state| state.motion.atoms -= 1, "500 atoms and later 499"),
    ];
    for (damage, word) in damages {
        let mut wrong = outcome.clone();
        damage(&mut wrong.observations[1]);
        let conservation = wrong.conservation(&schedule);
        assert!(
            !conservation.is_fine() && conservation.to_string().contains(word),
            "{conservation}"
        );
    }
}

#[test]
fn step_times_are_measured_between_completed_steps() {
    let (_, _, outcome) = serial();
    let times = MdOutcome { begin_ns: 1e6, done_ns: vec![3e6, 4e6, 7e6, 9e6], ..outcome };
    assert_eq!(times.median_step(), Duration::from_millis(2));
    assert_eq!(times.elapsed(), Duration::from_millis(8));
}

/// Makes the outcome that the actors would report, from a serial run.
fn serial() -> (System, Schedule, MdOutcome) {
    let words =
        ["leanmd", "--system", "uniform", "--size", "5", "--steps", "10", "--report-every", "5"];
    let (system, schedule) = Options::parse_from(words).prepare().unwrap();
    let Schedule { cells, law, dt, migrate_every, .. } = schedule;
    let mut run = Serial::new(&system, cells, law, dt).migrating_every(migrate_every);
    let mut observations = vec![run.observe()];
    for step in 1..=10 {
        run.step().unwrap();
        if step % 5 == 0 {
            observations.push(run.observe());
        }
    }
    let fingerprints = run.fingerprints().to_vec();
    let outcome = MdOutcome {
        observations,
        done_ns: vec![0.0; 11],
        begin_ns: 0.0,
        pairs_computed: 0,
        fingerprints,
    };
    (system, schedule, outcome)
}
