//! How handlers and messages grow with the size of the problem.
//!
//! Two recordings of different sizes, with the same number of actors, give two mean times of the
//! handlers of each type, and two mean sizes of its messages. This module assumes that times and
//! sizes are powers of the problem's size, as most costs of algorithms are. Calotoiu, Hoefler, Poke
//! and Wolf ("Using Automated Performance Modeling to Find Scalability Bugs in Complex Codes", SC
//! 2013) fit products of powers and logarithms.

use crate::error::ForecastError;
use crate::trace::JobTrace;

/// Largest exponent, so that noise in short handlers does not become a prediction.
const EXPONENT_MAX: f64 = 4.0;

/// Factors of the time of handlers and of the bytes of messages, by the type of the actor. Without
/// any, all are 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Growth {
    work: Vec<f64>,
    bytes: Vec<f64>,
}

impl Growth {
    /// Returns the growth from the second of two recordings to another size.
    pub(crate) fn between(
        traces: [&JobTrace; 2],
        sizes: [f64; 2],
        size: f64,
    ) -> Result<Self, ForecastError> {
        let is_size = |size: &f64| size.is_finite() && *size > 0.0;
        let all = [sizes[0], sizes[1], size];
        if !all.iter().all(is_size) || sizes[0] == sizes[1] {
            return Err(ForecastError::Sizes);
        }
        same_actors(traces)?;
        let ([first, second], kinds) = (traces.map(Means::of), traces[1].kinds.len());
        let place =
            |kind: usize| traces[0].kinds.iter().position(|it| *it == traces[1].kinds[kind]);
        let factor = |before: f64, after: f64| {
            if before <= 0.0 || after <= 0.0 {
                return 1.0;
            }
            let exponent = (after / before).ln() / (sizes[1] / sizes[0]).ln();
            (size / sizes[1]).powf(exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX))
        };
        let factors = |first: &[f64], second: &[f64]| -> Vec<f64> {
            let of = |kind| place(kind).map_or(1.0, |before| factor(first[before], second[kind]));
            (0..kinds).map(of).collect()
        };
        let (work, bytes) =
            (factors(&first.work, &second.work), factors(&first.bytes, &second.bytes));
        Ok(Self { work, bytes })
    }

    /// The factor of the time of handlers of a type.
    pub(crate) fn work_of(&self, kind: u32) -> f64 {
        self.work.get(kind as usize).copied().unwrap_or(1.0)
    }

    /// The factor of the bytes of messages to a type.
    pub(crate) fn bytes_of(&self, kind: u32) -> f64 {
        self.bytes.get(kind as usize).copied().unwrap_or(1.0)
    }
}

fn same_actors([first, second]: [&JobTrace; 2]) -> Result<(), ForecastError> {
    let counts = [first, second].map(JobTrace::actors_by_kind);
    for (at, kind) in second.kinds.iter().enumerate() {
        let before = first.kinds.iter().position(|it| it == kind);
        let before = before.map_or(0, |before| counts[0][before]);
        if before != counts[1][at] {
            let (kind, second) = (kind.clone(), counts[1][at]);
            return Err(ForecastError::OtherActors { kind, first: before, second });
        }
    }
    Ok(())
}

/// Mean time of a handler, and mean bytes of a message, by type.
struct Means {
    work: Vec<f64>,
    bytes: Vec<f64>,
}

impl Means {
    fn of(trace: &JobTrace) -> Self {
        let kinds = trace.kinds.len();
        let (mut work, mut bytes, mut count) =
            (vec![0.0; kinds], vec![0.0; kinds], vec![0.0; kinds]);
        for handling in &trace.handlings {
            let kind = trace.kind_of(handling.actor) as usize;
            bytes[kind] += handling.bytes as f64;
            count[kind] += 1.0;
        }
        for (actor, time) in trace.actors.iter().zip(trace.work_by_actor()) {
            work[actor.kind as usize] += time;
        }
        let mean = |sums: Vec<f64>| -> Vec<f64> {
            let mean = |(sum, count): (f64, &f64)| if *count > 0.0 { sum / count } else { 0.0 };
            sums.into_iter().zip(&count).map(mean).collect()
        };
        Self { work: mean(work), bytes: mean(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Handling, TracedActor};

    /// An actor whose handlers take `work_ns`, and get `bytes`.
    fn trace(work_ns: f64, bytes: u64) -> JobTrace {
        let handling = Handling { work_ns, bytes, ..Handling::default() };
        JobTrace {
            kinds: vec!["Patch".to_owned()],
            actors: vec![TracedActor::default()],
            handlings: vec![handling; 3],
            ..JobTrace::default()
        }
    }

    #[test]
    fn work_and_bytes_grow_by_their_own_powers() {
        // A square of twice the edge: four times the points, and twice the points of an edge.
        let (small, large) = (trace(100.0, 80), trace(400.0, 160));
        let growth = Growth::between([&small, &large], [256.0, 512.0], 2048.0).unwrap();
        assert!((growth.work_of(0) - 16.0).abs() < 1e-9);
        assert!((growth.bytes_of(0) - 4.0).abs() < 1e-9);
        assert_eq!(Growth::default().work_of(7), 1.0);
    }

    #[test]
    fn sizes_without_a_growth_are_refused() {
        let one = trace(100.0, 80);
        for (sizes, size) in [([1.0, 1.0], 2.0), ([1.0, 0.0], 2.0), ([1.0, 2.0], f64::NAN)] {
            assert_eq!(Growth::between([&one, &one], sizes, size), Err(ForecastError::Sizes));
        }
        let mut more = trace(100.0, 80);
        more.actors.push(TracedActor::default());
        let refused = Growth::between([&one, &more], [1.0, 2.0], 4.0);
        assert!(matches!(refused, Err(ForecastError::OtherActors { first: 1, second: 2, .. })));
    }
}
