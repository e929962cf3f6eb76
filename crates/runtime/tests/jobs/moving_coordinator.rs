//! The coordinator moves from node to node while the job runs, over QUIC on loopback.
#![cfg(feature = "net")]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, Context, GridError, Ix1, Job, JobError, NodeId, Op, Placement, Reduction, To, Value,
};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

/// Number of rounds, each a broadcast in the total order by an actor on the last node, and a
/// reduction over all members with its result sent to all.
const ROUNDS: u64 = 60;
const MEMBERS: u32 = 6;
/// Computing time of the PE on the node that the coordinator leaves.
const COMPUTING: Duration = Duration::from_secs(4);

#[derive(Serialize, Deserialize)]
struct Talking {
    heard: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Talk {
    Begin,
    Round(u64),
    Done(u64),
    Compute,
    /// Contributes the number of rounds that a member has received.
    Report,
}

impl Actor for Talking {
    type Index = Ix1;
    type Init = ();
    type Message = Talk;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { heard: 0 }
    }

    fn handle(&mut self, message: Talk, cx: &mut Context<'_, Self>) {
        let all = cx.collection();
        let is_last = cx.index() == Ix1(MEMBERS as i32 - 1);
        match message {
            Talk::Begin if is_last => cx.broadcast(&all, Talk::Round(1)),
            Talk::Begin => {}
            Talk::Round(round) => {
                assert_eq!(round, self.heard + 1, "rounds are received in order, and once");
                self.heard = round;
                cx.contribute(Op::Min, round, To::all(all, 0));
            }
            Talk::Done(round) if is_last && round < ROUNDS => {
                cx.broadcast(&all, Talk::Round(round + 1));
            }
            Talk::Done(_) => {}
            Talk::Compute => thread::sleep(COMPUTING),
            Talk::Report => cx.contribute(Op::Sum, self.heard, To::main()),
        }
    }

    fn reduced(reduction: Reduction) -> Option<Talk> {
        match reduction.value {
            Value::U64(round) => Some(Talk::Done(round)),
            _ => None,
        }
    }
}

#[test]
fn nothing_is_lost_while_the_coordinator_moves_from_node_to_node() {
    let spec = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    let job = Job::new("moving").actor::<Talking>().main(async |grid| {
        let talking = grid
            .create_placed::<Talking>(Placement::RoundRobin, Ix1::range(MEMBERS), |_| ())
            .await?;
        talking.broadcast(Talk::Begin);
        for to in [1, 3, 0, 2, 2, 1, 0, 3] {
            grid.move_coordinator(NodeId(to)).await?;
        }
        grid.quiescence().await?;
        // Create a collection after the coordinator's last move, and publish read-only data.
        let more = grid.create::<Talking>(Ix1::range(MEMBERS), |_| ()).await?;
        grid.publish(&vec![7_u8; 200_000]).await?;
        more.broadcast(Talk::Report);
        assert_eq!(more.reduction::<u64>(Op::Sum).await?, 0);
        talking.broadcast(Talk::Report);
        assert_eq!(talking.reduction::<u64>(Op::Sum).await?, ROUNDS * u64::from(MEMBERS));

        let none = grid.move_coordinator(NodeId(4)).await;
        assert_eq!(none, Err(GridError::NoSuchNode { node: NodeId(4), nodes: 4 }));
        Ok::<(), JobError>(())
    });

    embedded::run_emulated(job, &spec).unwrap();
}

#[test]
fn the_coordinator_leaves_a_node_whose_pe_computes() {
    let spec = GridSpec::from_emulate("3x1").unwrap();
    let job = Job::new("leaving").actor::<Talking>().main(async |grid| {
        let busy = grid.create::<Talking>(Ix1::range(3), |_| ()).await?;
        grid.move_coordinator(NodeId(1)).await?;
        // Let the PE of the coordinator's node compute.
        busy.member(Ix1(1)).send(Talk::Compute);
        let begin = Instant::now();
        grid.move_coordinator(NodeId(2)).await?;
        let took = begin.elapsed();
        assert!(took < COMPUTING / 2, "the coordinator left a busy node after {took:?}");
        grid.quiescence().await?;
        Ok::<(), JobError>(())
    });

    embedded::run_emulated(job, &spec).unwrap();
}
