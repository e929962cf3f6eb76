//! The same jobs under the embedded driver, on one node and on several nodes over QUIC.
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, AskError, CollectionRef, Context, GridError, Ix1, Job, JobError, Limits, Numbers, Op,
    PeId, Per, Placement, Published, Reduction, Reply, SectionRef, To,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MEMBERS: u32 = 100;

#[derive(Serialize, Deserialize)]
struct Cell {
    value: u64,
    result: u64,
    resumed: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Add(u64),
    Hop(u64),
    Contribute,
    ContributeTo(u32),
    Result(u64),
    Get(Reply<u64>),
    Ignore(#[allow(dead_code)] Reply<u64>),
    Forward(u32, Reply<u64>),
    Answer(Result<u64, ()>, Reply<u64>),
    Move(PeId),
    Sync,
    Resumed(Reply<u32>),
    Data(Numbers<f64>, Reply<f64>),
    Read(Published<Vec<u64>>, Reply<u64>),
    Later(u64),
    /// Arms two messages, and cancels the first.
    Cancel,
    WhenQuiescent,
    /// The sum of what the members of a group on this PE and on this node hold.
    Local(CollectionRef<Cell>, CollectionRef<Cell>),
    Spawn(i32),
    Die,
    Panic,
    Flood,
    SectionSum(SectionRef<Cell>),
    Multicast(SectionRef<Cell>),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(init: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { value: init, result: 0, resumed: 0 }
    }

    fn reduced(reduction: Reduction) -> Option<Msg> {
        reduction.get().map(Msg::Result)
    }

    fn resume(&mut self, _cx: &mut Context<'_, Self>) {
        self.resumed += 1;
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Add(n) => self.value += n,
            Msg::Hop(n) => {
                self.value += n;
                if n > 1 {
                    let next = Ix1((cx.index().0 + 1) % MEMBERS as i32);
                    let next = cx.collection().at(next);
                    cx.send(&next, Msg::Hop(n - 1));
                }
            }
            Msg::Contribute => cx.contribute(Op::Sum, self.value, To::main()),
            Msg::ContributeTo(member) => {
                let cells = cx.collection();
                let to = match member {
                    MEMBERS => To::all(cells, 0),
                    _ => To::member(cells.at(Ix1(member as i32)), 0),
                };
                cx.contribute(Op::Sum, self.value, to);
            }
            Msg::Result(sum) => self.result = sum,
            Msg::Get(reply) => cx.reply(reply, self.value + self.result),
            Msg::Ignore(_) => {}
            Msg::Forward(to, reply) => {
                let to = cx.collection().at(Ix1(to as i32));
                let answered =
                    move |answer: Result<u64, AskError>| Msg::Answer(answer.map_err(drop), reply);
                cx.ask(&to, Duration::from_secs(20), Msg::Get, answered);
            }
            Msg::Answer(answer, reply) => cx.reply(reply, answer.unwrap()),
            Msg::Move(pe) => cx.migrate_to(pe),
            Msg::Sync => cx.at_sync(),
            Msg::Resumed(reply) => cx.reply(reply, self.resumed),
            Msg::Data(numbers, reply) => cx.reply(reply, numbers.iter().sum()),
            Msg::Read(published, reply) => {
                let sum = cx.read(&published).map(|numbers| numbers.iter().sum()).unwrap();
                cx.reply(reply, sum);
            }
            Msg::Later(n) => {
                let me = cx.me();
                cx.send_after(Duration::from_millis(20), &me, Msg::Add(n));
            }
            Msg::Cancel => {
                let me = cx.me();
                let first = cx.send_after(Duration::from_millis(20), &me, Msg::Add(1));
                let _ = cx.send_after(Duration::from_millis(20), &me, Msg::Add(2));
                cx.cancel(first);
            }
            Msg::WhenQuiescent => cx.when_quiescent(Msg::Contribute),
            Msg::Local(per_pe, per_node) => {
                let (pe, node) = (cx.on_this_pe(&per_pe), cx.on_this_node(&per_node));
                assert_eq!((pe.index().0 as u32, node.index().0 as u32), (cx.pe().0, cx.node().0));
                assert_eq!(cx.layout().site_of(cx.pe()), cx.site());
                cx.send(&pe, Msg::Add(1));
                cx.send(&node, Msg::Add(1));
            }
            Msg::Spawn(index) => {
                let new = cx.collection().at(Ix1(index));
                cx.insert(&new, 7);
                cx.send(&new, Msg::Add(1));
            }
            Msg::Die => cx.destroy(),
            Msg::Panic => panic!("as asked"),
            Msg::SectionSum(section) => {
                cx.contribute_to_section(&section, Op::Sum, self.value, To::main());
            }
            Msg::Flood => {
                let me = cx.me();
                (0..10).for_each(|_| cx.send(&me, Msg::Flood));
            }
            Msg::Multicast(section) => cx.multicast(&section, Msg::Add(5)),
        }
    }
}

const ASK: Duration = Duration::from_secs(20);

fn job() -> Job {
    Job::new("test")
        .actor::<Cell>()
        .actor::<Blob>()
        .placement("last", |_, layout| PeId(layout.pe_count() - 1))
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
fn messages_broadcasts_and_reductions_reach_everyone_once() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(MEMBERS), |ix| ix.0 as u64).await?;
            cells.broadcast(Msg::Add(1));
            cells.member(Ix1(7)).send(Msg::Hop(300));
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 4950 + 100 + 300 * 301 / 2);
            cells.broadcast(Msg::ContributeTo(3));
            cells.broadcast(Msg::ContributeTo(MEMBERS));
            grid.quiescence().await?;
            let three: u64 = cells.member(Ix1(99)).ask(ASK, Msg::Get).await?;
            assert!(three > total, "the last member holds the sum that all were sent");
            Ok(())
        })
    });
}

#[test]
fn asks_are_answered_between_actors_and_to_main_or_time_out() {
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
fn a_sync_point_moves_everyone_and_resumes_everyone() {
    for strategy in ["none", "rotate", "random"] {
        everywhere(|| {
            job().strategy(strategy).main(async |grid| {
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
            })
        });
    }
}

#[test]
fn large_numbers_read_only_data_and_timers_work() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid
                .create_placed::<Cell>(Placement::Custom("last".into()), Ix1::range(4), |_| 0)
                .await?;
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
fn members_come_and_go_and_take_part_while_they_exist() {
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

#[test]
fn sections_and_groups_are_addressed_together() {
    everywhere(|| {
        job().main(async |grid| {
            let cells =
                grid.create_placed::<Cell>(Placement::RoundRobin, Ix1::range(40), |_| 0).await?;
            let section = cells.section(0, (0..40).step_by(3).map(Ix1));
            cells.multicast(&section, Msg::Add(2));
            let sent = section.clone();
            cells.member(Ix1(5)).send(Msg::Multicast(sent));
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 14 * 7);
            let odd = cells.section(1, (1..40).step_by(2).map(Ix1));
            cells.multicast(&odd, Msg::SectionSum(odd.clone()));
            cells.multicast(&section, Msg::SectionSum(section.clone()));
            let sum: u64 = cells.section_reduction(&section, Op::Sum).await?;
            assert_eq!(sum, 14 * 7);
            let sum: u64 = cells.section_reduction(&odd, Op::Sum).await?;
            assert_eq!(sum, 7 * 7, "seven of the odd members are in the other section");
            let group = grid.create_group::<Cell>(Per::Pe, |ix| ix.0 as u64).await?;
            group.broadcast(Msg::Contribute);
            let pes = u64::from(grid.layout().pe_count());
            let total: u64 = group.reduction(Op::Sum).await?;
            assert_eq!(total, pes * (pes - 1) / 2);
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
fn an_error_of_main_is_the_outcome() {
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
        let limits = Limits { soft_bytes: 1 << 20, hard_bytes: 8 << 20 };
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
        assert!(error.contains("drivers::Cell 0x9 with"), "{error}");
    }
}

#[test]
fn using_an_unregistered_actor_says_how_to_register_it() {
    let job = Job::new("test").main(async |grid| {
        let _: CollectionRef<Cell> = grid.create::<Cell>(Ix1::range(1), |_| 0).await?.reference();
        Ok(())
    });
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("add `.actor::<drivers::Cell>()`"), "{error}");
}

#[test]
fn a_failed_job_ends_also_while_main_waits_for_something_else() {
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
fn collections_and_publications_that_outgrow_a_frame_are_split_or_refused() {
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
            let error = grid.publish(&vec![0u8; 61 << 20]).await.unwrap_err();
            assert!(error.to_string().contains("publish it in parts"), "{error}");
            Ok(())
        })
    });
}

#[test]
fn an_actor_too_large_to_move_goes_on_where_it_is() {
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

/// An actor of any size.
#[derive(Serialize, Deserialize)]
struct Blob(Numbers<u8>);

#[derive(Clone, Serialize, Deserialize)]
enum BlobMsg {
    First(Reply<u64>),
    Where(Reply<PeId>),
    Grow(usize),
    Move(PeId),
}

impl Actor for Blob {
    type Index = Ix1;
    type Init = Vec<u8>;
    type Message = BlobMsg;

    fn create(init: Vec<u8>, _cx: &mut Context<'_, Self>) -> Self {
        Self(init.into())
    }

    fn handle(&mut self, message: BlobMsg, cx: &mut Context<'_, Self>) {
        match message {
            BlobMsg::First(reply) => {
                cx.reply(reply, u64::from(self.0[0]) + self.0.len() as u64);
            }
            BlobMsg::Where(reply) => cx.reply(reply, cx.pe()),
            BlobMsg::Grow(bytes) => self.0 = vec![self.0[0]; bytes].into(),
            BlobMsg::Move(pe) => cx.migrate_to(pe),
        }
    }
}

#[test]
fn timers_can_be_cancelled_and_actors_learn_of_quiescence() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(30), |_| 0).await?;
            cells.broadcast(Msg::Cancel);
            cells.broadcast_with_priority(7, Msg::WhenQuiescent);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 30 * 2, "contributed when the timers had fired");
            Ok(())
        })
    });
}

#[test]
fn members_of_groups_are_found_where_an_actor_lives() {
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
