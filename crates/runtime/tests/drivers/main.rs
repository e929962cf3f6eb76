//! The same jobs with the embedded driver, on one node and on several nodes over QUIC.
#![allow(missing_docs, clippy::unwrap_used)]

mod blob;
mod bound;
mod cell;
#[cfg(feature = "net")]
mod crossing;
mod full;
mod on_demand;
mod panics;
mod sections;
#[cfg(feature = "net")]
mod telemetry;

use blob::{Blob, BlobMsg};
use cell::{Cell, MEMBERS, Msg};
use gridspan_balance::{Rotate, StrategyName};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    AskError, CollectionRef, GridError, Ix1, Job, JobError, Limits, Numbers, Op, PeId, Per,
    Placement, PlacementMap, Priority, Reply, Unordered,
};
use std::time::Duration;

const ASK: Duration = Duration::from_secs(20);

/// Places all members on the last PE.
const LAST: PlacementMap = PlacementMap::new("last", |_, layout| PeId(layout.pe_count() - 1));

fn job() -> Job {
    Job::new("test").actor::<Cell>().actor::<Blob>().placement(LAST)
}

/// Runs a job on one PE, on three, and on three nodes at two sites over QUIC.
fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 3] {
        embedded::run(make(), pes).unwrap();
    }
    #[cfg(feature = "net")]
    embedded::run_emulated(make(), &two_sites()).unwrap();
}

#[cfg(feature = "net")]
fn two_sites() -> gridspan_topology::GridSpec {
    let spec = "[site.here]\nhosts = [\"h[1-2]\"]\npes = 2\n[site.there]\nhosts = [\"t\"]\n\
                [wan]\nlatency = \"3ms\"\n";
    gridspan_topology::GridSpec::from_toml(spec).unwrap()
}

#[test]
fn messages_broadcasts_and_reductions_reach_all_members_once() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(MEMBERS), |ix| ix.0 as u64).await?;
            cells.broadcast(Msg::Add(1));
            cells.broadcast_with(Unordered, Msg::Add(2));
            cells.member(Ix1(7)).send(Msg::Hop(300));
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 4950 + 300 + 300 * 301 / 2);
            cells.broadcast(Msg::ContributeTo(3));
            cells.broadcast(Msg::ContributeTo(MEMBERS));
            grid.quiescence().await?;
            let three: u64 = cells.member(Ix1(99)).ask(ASK, Msg::Get).await?;
            assert!(three > total, "the last member holds the sum that went to all");
            Ok(())
        })
    });
}

#[test]
fn questions_of_actors_and_of_main_are_answered_or_time_out() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid
                .create_placed::<Cell>(Placement::RoundRobin, Ix1::range(9), |ix| ix.0 as u64)
                .await?;
            let eight: u64 = cells.member(Ix1(0)).ask(ASK, |reply| Msg::Forward(8, reply)).await?;
            assert_eq!(eight, 8);
            let silence = cells.member(Ix1(4)).ask(Duration::from_millis(30), Msg::Ignore).await;
            assert_eq!(silence, Err(GridError::Ask(AskError::Timeout)));
            Ok(())
        })
    });
}

#[test]
fn actors_move_and_keep_their_state_and_their_messages() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(20), |_| 0).await?;
            let pes = grid.layout().pe_count();
            for round in 0..50 {
                for i in 0..20 {
                    let member = cells.member(Ix1(i));
                    member.send(Msg::Add(1));
                    member.send(Msg::Move(PeId((i as u32 + round) % pes)));
                    member.send(Msg::Add(1));
                }
                if round % 10 == 0 {
                    cells.broadcast(Msg::Add(1));
                }
            }
            cells.broadcast(Msg::Contribute);
            grid.quiescence().await?;
            let total: u64 = cells.reduction(Op::Sum).await?;
            let last: u64 = cells.member(Ix1(19)).ask(ASK, Msg::Get).await?;
            assert_eq!(last, 105);
            assert!(total <= 20 * 105);
            Ok(())
        })
    });
}

#[test]
fn all_members_resume_after_each_sync_point() {
    for strategy in ["none", "rotate", "random"] {
        everywhere(|| {
            job().strategy(strategy.parse::<StrategyName>().expect("it is a name")).main(
                async |grid| {
                    let cells = grid.create::<Cell>(Ix1::range(30), |_| 1).await?;
                    for round in 1..=3 {
                        cells.broadcast(Msg::Sync);
                        grid.quiescence().await?;
                        for i in [0, 17, 29] {
                            let resumed: u32 = cells.member(Ix1(i)).ask(ASK, Msg::Resumed).await?;
                            assert_eq!(resumed, round);
                        }
                    }
                    Ok(())
                },
            )
        });
    }
}

#[test]
fn large_arrays_publications_and_timers_work() {
    everywhere(|| {
        job().main(async |grid| {
            let cells =
                grid.create_placed::<Cell>(Placement::Custom(LAST), Ix1::range(4), |_| 0).await?;
            let numbers: Vec<f64> = (0..100_000).map(f64::from).collect();
            let data = Numbers::from(numbers);
            let sum: f64 =
                cells.member(Ix1(0)).ask(ASK, move |reply| Msg::Data(data, reply)).await?;
            assert_eq!(sum, 4_999_950_000.0);
            let published = grid.publish(&vec![1u64, 2, 3]).await?;
            let read: u64 =
                cells.member(Ix1(1)).ask(ASK, move |reply| Msg::Read(published, reply)).await?;
            assert_eq!(read, 6);
            cells.member(Ix1(2)).send(Msg::Later(9));
            grid.quiescence().await?;
            let later: u64 = cells.member(Ix1(2)).ask(ASK, Msg::Get).await?;
            assert_eq!(later, 9);
            Ok(())
        })
    });
}

#[test]
fn members_take_part_in_reductions_from_insertion_to_end() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(10), |_| 1).await?;
            cells.member(Ix1(3)).send(Msg::Spawn(50));
            cells.insert_on(Ix1(60), 100, PeId(grid.layout().pe_count() - 1));
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 10 + 8 + 100);
            cells.member(Ix1(0)).send(Msg::Die);
            cells.member(Ix1(60)).send(Msg::Die);
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 9 + 8);
            Ok(())
        })
    });
}

fn outcome(job: impl Fn() -> Job) -> Vec<Result<(), JobError>> {
    vec![
        embedded::run(job(), 2),
        #[cfg(feature = "net")]
        embedded::run_emulated(job(), &two_sites()),
    ]
}

#[test]
fn an_error_of_main_is_the_outcome_of_the_job() {
    let failing = || Job::new("test").main(async |_grid| Err(JobError::Failed("no luck".into())));
    for outcome in outcome(failing) {
        assert_eq!(outcome, Err(JobError::Failed("no luck".into())));
    }
}

#[test]
fn a_panicking_handler_ends_the_job_and_is_named() {
    let panicking = || {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
            cells.member(Ix1(9)).ask(ASK, |_: Reply<u64>| Msg::Panic).await?;
            Ok(())
        })
    };
    for outcome in outcome(panicking) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("Cell panicked on pe") && error.contains("as asked"), "{error}");
    }
}

#[test]
fn mailboxes_over_their_budget_end_the_job_and_are_named() {
    let flooded = || {
        let limits = Limits::default().with_soft_bytes(1 << 20).with_hard_bytes(8 << 20);
        job().limits(limits).main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
            cells.member(Ix1(9)).send(Msg::Flood);
            grid.quiescence().await?;
            Ok(())
        })
    };
    for outcome in outcome(flooded) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("the hard limit is 8388608"), "{error}");
        assert!(error.contains("drivers::cell::Cell 0x9 with"), "{error}");
    }
}

#[test]
fn the_error_for_an_unregistered_actor_says_how_to_register_it() {
    let job = Job::new("test").main(async |grid| {
        let _: CollectionRef<Cell> = grid.create::<Cell>(Ix1::range(1), |_| 0).await?.reference();
        Ok(())
    });
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("add `.actor::<drivers::cell::Cell>()`"), "{error}");
}

#[test]
fn a_failed_job_ends_while_main_waits_for_something_else() {
    let waiting = || {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
            cells.member(Ix1(9)).send(Msg::Panic);
            std::future::pending::<()>().await;
            Ok(())
        })
    };
    for outcome in outcome(waiting) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("as asked"), "{error}");
    }
}

#[test]
fn two_reducers_of_one_name_are_refused() {
    let first = |left, _| left;
    let (job, _) = job().reducer("both", first);
    let (job, _) = job.reducer("both", first);
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("two definitions of the reducer `both`"), "{error}");
}

#[test]
fn large_collections_are_split_and_large_publications_are_refused() {
    everywhere(|| {
        job().main(async |grid| {
            let blobs = grid
                .create_placed::<Blob>(Placement::RoundRobin, Ix1::range(6), |ix| {
                    vec![ix.0 as u8; 30 << 20]
                })
                .await?;
            for index in 0..6 {
                let sum = blobs.member(Ix1(index)).ask(ASK, BlobMsg::First).await?;
                assert_eq!(sum, u64::from(index as u8) + (30 << 20));
            }
            // The collection has large and small members, so that the messages that create them may
            // overtake each other.
            let size = |ix: Ix1| if ix.0 % 2 == 0 { 9 << 20 } else { 10 };
            let mixed = grid
                .create_placed::<Blob>(Placement::RoundRobin, Ix1::range(10), |ix| {
                    vec![ix.0 as u8; size(ix)]
                })
                .await?;
            for index in (0..10).map(Ix1) {
                let sum = mixed.member(index).ask(ASK, BlobMsg::First).await?;
                assert_eq!(sum, index.0 as u64 + size(index) as u64);
            }
            let error = grid.publish(&vec![0u8; 61 << 20]).await.unwrap_err();
            assert!(error.to_string().contains("divide the data"), "{error}");
            Ok(())
        })
    });
}

#[test]
fn an_actor_too_large_to_move_stays_where_it_is() {
    everywhere(|| {
        job().main(async |grid| {
            let blobs = grid.create::<Blob>(Ix1::range(1), |_| vec![7]).await?;
            let blob = blobs.member(Ix1(0));
            blob.send(BlobMsg::Grow(61 << 20));
            let last = PeId(grid.layout().pe_count() - 1);
            blob.send(BlobMsg::Move(last));
            assert_eq!(blob.ask(ASK, BlobMsg::Where).await?, PeId(0));
            blob.send(BlobMsg::Grow(1 << 20));
            blob.send(BlobMsg::Move(last));
            while blob.ask(ASK, BlobMsg::Where).await? != last {}
            assert_eq!(blob.ask(ASK, BlobMsg::First).await?, 7 + (1 << 20));
            Ok(())
        })
    });
}

#[test]
fn timers_can_be_cancelled_and_actors_learn_of_quiescence() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(30), |_| 0).await?;
            cells.broadcast(Msg::Cancel);
            cells.broadcast_with(Priority(7), Msg::WhenQuiescent);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 30 * 2, "contributed when the timers had fired");
            Ok(())
        })
    });
}

#[test]
fn actors_find_the_members_of_groups_on_their_pe_and_node() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(30), |_| 0).await?;
            let per_pe = grid.create_group::<Cell>(Per::Pe, |_| 0).await?;
            let per_node = grid.create_group::<Cell>(Per::Node, |_| 0).await?;
            cells.broadcast(Msg::Local(per_pe.reference(), per_node.reference()));
            grid.quiescence().await?;
            for group in [per_pe, per_node] {
                group.broadcast(Msg::Contribute);
                assert_eq!(group.reduction::<u64>(Op::Sum).await?, 30);
            }
            Ok(())
        })
    });
}

#[test]
fn actors_are_balanced_on_request_while_messages_are_on_their_way() {
    everywhere(|| {
        job().strategy(Rotate).main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(MEMBERS), |_| 0).await?;
            cells.member(Ix1(0)).send(Msg::Hop(2_000));
            let pes = grid.layout().pe_count() as usize;
            for _ in 0..3 {
                let moved = grid.rebalance().await?;
                assert_eq!(moved, if pes == 1 { 0 } else { MEMBERS as usize });
            }
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 2_000 * 2_001 / 2);
            Ok(())
        })
    });
}
