//! The coordinator works while every PE of its node is inside a handler.
#![cfg(feature = "net")]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, Context, Ix1, Job, JobError, Op, PeId, Placement, PlacementMap, Reduction, To, Value,
};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Time for which the only PE of the coordinator's node computes.
const COMPUTING: Duration = Duration::from_secs(5);
/// Delay before the other members begin; by then that PE computes.
const PAUSE: Duration = Duration::from_millis(500);
/// Number of rounds of the other members, each a broadcast in the total order and a reduction over
/// all of them: few enough that they are over in time on a busy machine.
const ROUNDS: u32 = 20;

/// Times at which the computation and the rounds ended.
static ENDS: Mutex<[Option<Instant>; 2]> = Mutex::new([None; 2]);

fn note_end(which: usize) {
    ENDS.lock().expect("no test panics with it")[which].get_or_insert_with(Instant::now);
}

#[derive(Serialize, Deserialize)]
struct Computing;

impl Actor for Computing {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {
        thread::sleep(COMPUTING);
        note_end(0);
    }
}

#[derive(Serialize, Deserialize)]
struct Talking;

#[derive(Clone, Serialize, Deserialize)]
enum Talk {
    Prepare,
    Begin,
    Round(u32),
    Rounds(u64),
}

impl Actor for Talking {
    type Index = Ix1;
    type Init = ();
    type Message = Talk;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Talk, cx: &mut Context<'_, Self>) {
        let all = cx.collection();
        let is_first = cx.index() == Ix1(0);
        match message {
            Talk::Prepare if is_first => {
                let me = cx.me();
                cx.send_after(PAUSE, &me, Talk::Begin);
            }
            Talk::Prepare => {}
            Talk::Begin => cx.broadcast(&all, Talk::Round(1)),
            Talk::Round(round) => cx.contribute(Op::Max, u64::from(round), To::all(all, 0)),
            Talk::Rounds(done) if done == u64::from(ROUNDS) => note_end(1),
            Talk::Rounds(done) if is_first => cx.broadcast(&all, Talk::Round(done as u32 + 1)),
            Talk::Rounds(_) => {}
        }
    }

    fn reduced(reduction: Reduction) -> Option<Talk> {
        match reduction.value {
            Value::U64(round) => Some(Talk::Rounds(round)),
            _ => None,
        }
    }
}

/// Places all members on the second node.
const THERE: PlacementMap = PlacementMap::new("there", |_, _| PeId(1));

#[test]
fn broadcasts_and_reductions_on_another_node_go_on_while_the_coordinators_pe_computes() {
    let spec = GridSpec::from_emulate("2x1").unwrap();
    let job = Job::new("busy").actor::<Computing>().actor::<Talking>().placement(THERE).main(
        async |grid| {
            let talking = grid
                .create_placed::<Talking>(Placement::Custom(THERE), Ix1::range(3), |_| ())
                .await?;
            let computing = grid.create::<Computing>(Ix1::range(1), |_| ()).await?;
            talking.broadcast(Talk::Prepare);
            grid.sleep(PAUSE / 5).await?;
            computing.member(Ix1(0)).send(());
            grid.quiescence().await?;
            Ok::<(), JobError>(())
        },
    );

    embedded::run_emulated(job, &spec).unwrap();

    let [Some(computed), Some(talked)] = *ENDS.lock().unwrap() else { panic!("one has no end") };
    let ahead = computed.saturating_duration_since(talked);
    assert!(ahead > COMPUTING / 4, "{ROUNDS} rounds were over {ahead:?} before the computation");
}
