//! The right to number broadcasts passes to a node that broadcasts alone, and back.

use gridspan_bcast::Mode;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, PeId, Per, Reply, Time, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// Commands to a [`Speaker`], and the messages that it broadcasts.
#[derive(Clone, Serialize, Deserialize)]
enum Speech {
    Speak {
        bytes: usize,
    },
    Heard {
        began: Time,
        from: u32,
        number: u64,
        bytes: Vec<u8>,
    },
    Tell,
    /// Send this number of greetings to all, insert a member, and send one more.
    Insert {
        greetings: u64,
    },
    /// Insert a member, move to `to` if given, and make the member `teller` greet all.
    InsertAndTell {
        to: Option<PeId>,
        teller: i32,
    },
    Greet,
    Move {
        to: PeId,
    },
    Greeting,
    Greeted {
        reply: Reply<u64>,
    },
}

/// Broadcasts, and reports to main the time in nanoseconds until each broadcast reached this
/// member.
#[derive(Serialize, Deserialize)]
struct Speaker {
    /// Number of broadcasts that it sent and of greetings that it received.
    spoken: u64,
    /// A digest of the broadcasts that it received, in order.
    order: u64,
}

impl Actor for Speaker {
    type Index = Ix1;
    type Init = ();
    type Message = Speech;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { spoken: 0, order: 0 }
    }

    fn handle(&mut self, message: Speech, cx: &mut Context<'_, Self>) {
        match message {
            Speech::Speak { bytes } => {
                let (began, all, number) = (cx.now(), cx.collection(), self.spoken);
                self.spoken += 1;
                let (from, bytes) = (cx.index().0 as u32, vec![1; bytes]);
                cx.broadcast(&all, Speech::Heard { began, from, number, bytes });
            }
            Speech::Heard { began, from, number, bytes } => {
                assert!(bytes.iter().all(|&byte| byte == 1));
                let heard = u64::from(from) * 1_000_000 + number + 1;
                self.order = self.order.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(heard);
                cx.contribute(Op::Max, cx.now().since(began).as_nanos() as u64, To::main());
            }
            Speech::Move { to } => cx.migrate_to(to),
            Speech::Insert { greetings } => {
                let all = cx.collection();
                (0..greetings).for_each(|_| cx.broadcast(&all, Speech::Greeting));
                cx.insert_on(&all.at(INSERTED), (), PeId(1));
                cx.broadcast(&all, Speech::Greeting);
            }
            Speech::InsertAndTell { to, teller } => {
                let all = cx.collection();
                cx.insert_on(&all.at(INSERTED), (), PeId(0));
                to.into_iter().for_each(|to| cx.migrate_to(to));
                cx.send(&all.at(Ix1(teller)), Speech::Greet);
            }
            Speech::Greet => {
                let all = cx.collection();
                cx.broadcast(&all, Speech::Greeting);
            }
            Speech::Greeting => self.spoken += 1,
            Speech::Greeted { reply } => cx.reply(reply, self.spoken),
            Speech::Tell => {
                cx.contribute(Op::Max, self.order, To::main());
                cx.contribute(Op::Min, self.order, To::main());
            }
        }
    }
}

/// Index of the inserted member.
const INSERTED: Ix1 = Ix1(100);

/// Makes the nodes `roots` broadcast in turn, with `pause` ms after each request. Returns the times
/// in ms until all members have each broadcast, and the number of handovers of the right to number
/// them. Checks that the members agree on the order.
fn from_roots_ms(spec: &GridSpec, roots: &[u32], bytes: usize, pause: u64) -> (Vec<f64>, u64) {
    let (out, results) = mpsc::channel();
    let roots = roots.to_vec();
    let job = Job::new("speakers").broadcasts(Mode::Layout).actor::<Speaker>();
    let job = job.main(async move |grid| {
        let all = grid.create_group::<Speaker>(Per::Node, |_| ()).await?;
        for &root in &roots {
            all.member(Ix1(root as i32)).send(Speech::Speak { bytes });
            grid.sleep(Duration::from_millis(pause)).await?;
        }
        for _ in &roots {
            let took_ns: u64 = all.reduction(Op::Max).await?;
            out.send(took_ns as f64 / 1e6).map_err(|_| "the test has ended")?;
        }
        grid.quiescence().await?;
        all.broadcast(Speech::Tell);
        let (most, least): (u64, u64) =
            (all.reduction(Op::Max).await?, all.reduction(Op::Min).await?);
        match most == least {
            true => Ok(()),
            false => Err(JobError::Failed("members disagree on the order".to_owned())),
        }
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    (results.try_iter().collect(), report.statistics.handovers)
}

#[test]
fn a_node_that_broadcasts_alone_waits_for_no_number_from_the_third_broadcast_on() {
    for name in ["4x2,wan=10ms,rate=50mbit", "3x3,wan=20ms,rate=100mbit", "2x1,wan=5ms,rate=20mbit"]
    {
        let spec = GridSpec::from_emulate(name).unwrap();
        let last = spec.layout().node_count() - 1;
        for bytes in [8, 10_000, 100_000] {
            let (first_ms, _) = from_roots_ms(&spec, &[0; 8], bytes, 500);
            let (last_ms, handovers) = from_roots_ms(&spec, &[last; 8], bytes, 500);
            assert_eq!(handovers, 1);
            for (one, other) in last_ms.iter().zip(&first_ms).skip(2) {
                assert!(
                    *one <= 1.1 * other,
                    "{name}, {bytes} bytes: {last_ms:?} ms instead of {first_ms:?}"
                );
            }
        }
    }
}

#[test]
fn the_right_passes_between_roots_and_members_agree_on_the_order() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    let alone = |root: u32| [root; 6];
    let roots = [alone(7), alone(3), alone(0), alone(5), [2, 7, 2, 7, 7, 2], alone(7)].concat();
    for pause in [0, 3, 15, 60] {
        let (times_ms, handovers) = from_roots_ms(&spec, &roots, 8, pause);
        assert_eq!(times_ms.len(), roots.len());
        if pause == 60 {
            assert!(handovers >= 3, "{handovers}");
            // If another node has the right, a broadcast waits until the coordinator has it back.
            assert!(times_ms.iter().all(|&took| took < 52.0), "{times_ms:?}");
        }
    }
}

#[test]
fn two_roots_that_take_turns_wait_little_longer_than_without_handovers() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    let roots: Vec<u32> = (0..240).map(|round| if round / 3 % 2 == 0 { 7 } else { 4 }).collect();
    let (times_ms, handovers) = from_roots_ms(&spec, &roots, 8, 100);
    // A broadcast takes 20.1 ms if the coordinator numbers it. A right that is recalled at once is
    // granted less and less often.
    let mean_ms = times_ms.iter().sum::<f64>() / times_ms.len() as f64;
    assert!(mean_ms < 21.0 && handovers < 4, "{mean_ms} ms, {handovers} handovers");
}

#[test]
fn a_node_with_several_requests_under_way_gets_no_right() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    // The first number arrives after 20 ms.
    let (times_ms, handovers) = from_roots_ms(&spec, &[7; 200], 8, 5);
    assert_eq!(handovers, 0);
    assert!(times_ms.iter().all(|&took| took < 21.0), "{times_ms:?}");
}

/// Makes the member on PE 7 number broadcasts, then move to `to` if given, then send greetings and
/// insert a member, which gets only the last greeting.
fn insert_after_greetings(greetings: u64, to: Option<PeId>) {
    let job = Job::new("speakers").actor::<Speaker>().main(async move |grid| {
        let all = grid.create::<Speaker>(Ix1::range(8), |_| ()).await?;
        let speaker = all.member(Ix1(7));
        for _ in 0..5 {
            speaker.send(Speech::Speak { bytes: 8 });
            grid.sleep(Duration::from_millis(100)).await?;
        }
        to.into_iter().for_each(|to| speaker.send(Speech::Move { to }));
        speaker.send(Speech::Insert { greetings });
        grid.quiescence().await?;
        let reply = |reply| Speech::Greeted { reply };
        let greetings: u64 = all.member(INSERTED).ask(Duration::from_secs(5), reply).await?;
        match greetings {
            1 => Ok(()),
            count => Err(JobError::Failed(format!("the new member has had {count} greetings"))),
        }
    });
    let spec = GridSpec::from_emulate("4x2,wan=10ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()), "after {greetings} greetings from {to:?}");
    assert_eq!(report.statistics.handovers, 1);
}

#[test]
fn an_inserted_member_receives_only_later_broadcasts_of_its_inserter() {
    for greetings in 0..3 {
        for to in [None, Some(PeId(4)), Some(PeId(0))] {
            insert_after_greetings(greetings, to);
        }
    }
}

/// Makes the last member number broadcasts; then another member, or main, inserts a member and
/// makes `teller` greet all. The new member gets the greeting.
fn insert_and_tell(name: &str, inserter: Option<i32>, to: Option<PeId>, teller: i32) {
    let spec = GridSpec::from_emulate(name).unwrap();
    let pes = spec.layout().pe_count();
    let job = Job::new("speakers").actor::<Speaker>().main(async move |grid| {
        let all = grid.create::<Speaker>(Ix1::range(pes), |_| ()).await?;
        for _ in 0..5 {
            all.member(Ix1(pes as i32 - 1)).send(Speech::Speak { bytes: 8 });
            grid.sleep(Duration::from_millis(100)).await?;
        }
        match inserter {
            Some(inserter) => {
                all.member(Ix1(inserter)).send(Speech::InsertAndTell { to, teller });
            }
            None => {
                all.insert_on(INSERTED, (), PeId(1));
                all.member(Ix1(teller)).send(Speech::Greet);
            }
        }
        grid.quiescence().await?;
        let reply = |reply| Speech::Greeted { reply };
        match all.member(INSERTED).ask(Duration::from_secs(5), reply).await? {
            1_u64 => Ok(()),
            count => Err(JobError::Failed(format!("the new member has had {count} greetings"))),
        }
    });
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()), "{name}: {inserter:?} inserts, moves to {to:?}");
    assert_eq!(report.statistics.handovers, 1);
}

#[test]
fn a_broadcast_caused_by_an_insertion_reaches_the_new_member() {
    insert_and_tell("2x1x2,wan=10ms", Some(2), None, 3);
    insert_and_tell("4x2,wan=10ms", None, None, 7);
    insert_and_tell("4x2,wan=10ms", Some(4), Some(PeId(7)), 4);
}
