//! Collections of five and six dimensions, under all three drivers and while members migrate.

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Grid, Ix5, Ix6, Job, JobError, Op, PeId, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};

const ROUNDS: u32 = 4;

/// A point, which passes numbers to its neighbours along all axes and moves after each round.
#[derive(Serialize, Deserialize)]
struct Point {
    heard: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Round(u32),
    Number(u64),
    Report,
}

/// A number for an index, unlike those of its neighbours.
fn number(axes: &[i16]) -> u64 {
    axes.iter().fold(1, |number, axis| 7 * number + *axis as u64)
}

macro_rules! point {
    ($name:ident, $index:ident, $extents:expr, [$($axis:ident),*]) => {
        #[derive(Serialize, Deserialize)]
        struct $name(Point);

        impl $name {
            /// The neighbours along each axis; the grid wraps around.
            fn neighbours($index($($axis),*): $index) -> Vec<$index> {
                let place = [$($axis),*];
                let shifted = |axis: usize, by: i16| {
                    let mut other = place;
                    other[axis] = (other[axis] + by).rem_euclid($extents[axis]);
                    let [$($axis),*] = other;
                    $index($($axis),*)
                };
                (0..place.len()).flat_map(|axis| [shifted(axis, 1), shifted(axis, -1)]).collect()
            }
        }

        impl Actor for $name {
            type Index = $index;
            type Init = ();
            type Message = Message;

            fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
                Self(Point { heard: 0 })
            }

            fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
                let $index($($axis),*) = cx.index();
                let own = number(&[$($axis),*]);
                match message {
                    Message::Round(round) => {
                        for neighbour in Self::neighbours(cx.index()) {
                            cx.send(&cx.collection().at(neighbour), Message::Number(own));
                        }
                        let pes = cx.layout().pe_count();
                        cx.migrate_to(PeId((own as u32 + round) % pes));
                    }
                    Message::Number(number) => self.0.heard += number,
                    Message::Report => cx.contribute(Op::Sum, self.0.heard, To::main()),
                }
            }
        }
    };
}

const EXTENTS5: [i16; 5] = [2, 3, 2, 2, 3];
const EXTENTS6: [i16; 6] = [2, 2, 3, 2, 2, 2];
point!(Point5, Ix5, EXTENTS5, [i, j, k, l, m]);
point!(Point6, Ix6, EXTENTS6, [i, j, k, l, m, n]);

/// The sum of all received numbers: each number goes to two neighbours along each axis, in each
/// round.
fn expected(extents: &[i16]) -> u64 {
    let mut all = vec![vec![]];
    for extent in extents {
        let longer = |place: Vec<i16>| (0..*extent).map(move |axis| [&place[..], &[axis]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    let sum: u64 = all.iter().map(|place| number(place)).sum();
    sum * 2 * extents.len() as u64 * u64::from(ROUNDS)
}

async fn run(grid: Grid) -> Result<(), JobError> {
    let five = grid.create::<Point5>(Ix5::grid(2, 3, 2, 2, 3), |_| ()).await?;
    let six = grid.create::<Point6>(Ix6::grid(2, 2, 3, 2, 2, 2), |_| ()).await?;
    for round in 1..=ROUNDS {
        five.broadcast(Message::Round(round));
        six.broadcast(Message::Round(round));
        grid.quiescence().await?;
    }
    five.broadcast(Message::Report);
    assert_eq!(five.reduction::<u64>(Op::Sum).await?, expected(&EXTENTS5));
    six.broadcast(Message::Report);
    assert_eq!(six.reduction::<u64>(Op::Sum).await?, expected(&EXTENTS6));
    Ok(())
}

fn job() -> Job {
    Job::new("points").actor::<Point5>().actor::<Point6>().main(run)
}

#[test]
fn points_of_many_dimensions_find_each_other_while_they_move() {
    embedded::run(job(), 3).unwrap();
    embedded::run_emulated(job(), &GridSpec::from_emulate("2x2,wan=2ms").unwrap()).unwrap();
    let spec = GridSpec::from_emulate("3x2,wan=20ms").unwrap();
    let report = Simulation::new(job(), spec, SimOptions::with_seed(5)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    assert!(report.statistics.migrations > 100, "{}", report.statistics.migrations);
}
