//! Members that are created on demand, over slow links.

use gridspan_runtime::{
    Actor, Context, CreateAt, Ix1, Job, JobError, Limits, Op, PeId, Placement, PlacementMap, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, channel};

const NOTE_BYTES: usize = 20_000;
/// Indices without a member at first, beyond those of the speakers.
const FRESH: std::ops::Range<i32> = 100..140;

/// Receives notes, and sends notes on command.
#[derive(Serialize, Deserialize)]
struct Speaker {
    /// Number of notes and words received.
    notes: u64,
    born_at: PeId,
}

#[derive(Clone, Serialize, Deserialize)]
enum Say {
    /// Send this number of notes to each fresh index.
    Speak(u64),
    /// Send a note to a fresh index, a broadcast, and a note to another fresh index.
    Around,
    Note(Vec<u8>),
    Word,
    Report,
    /// Report the PE where this member was created.
    Place,
}

impl Actor for Speaker {
    type Index = Ix1;
    type Init = ();
    type Message = Say;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        Self { notes: 0, born_at: cx.pe() }
    }

    fn handle(&mut self, say: Say, cx: &mut Context<'_, Self>) {
        let all = cx.collection();
        let note = |bytes| Say::Note(vec![1; bytes]);
        match say {
            Say::Speak(notes) => {
                for _ in 0..notes {
                    FRESH.for_each(|index| cx.send(&all.at(Ix1(index)), note(10)));
                }
            }
            Say::Around => {
                cx.send(&all.at(Ix1(100)), note(10));
                cx.broadcast(&all, Say::Word);
                cx.send(&all.at(Ix1(101)), note(10));
            }
            Say::Note(_) | Say::Word => self.notes += 1,
            Say::Report => cx.contribute(Op::Sum, vec![1, self.notes], To::main()),
            Say::Place => cx.contribute(Op::Concat, u64::from(self.born_at.0), To::main()),
        }
    }

    fn heap_bytes(say: &Say) -> usize {
        match say {
            Say::Note(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// Places all members on the second PE.
const SECOND: PlacementMap = PlacementMap::new("second", |_, _| PeId(1));

fn run(job: Job, grid: &str) -> SimReport {
    let spec = GridSpec::from_emulate(grid).unwrap();
    Simulation::new(job, spec, SimOptions::default()).unwrap().run()
}

/// A job with a speaker on each of three PEs. Main broadcasts `say` and waits for quiescence. The
/// receiver then gets the number of members, and the number of notes and words that they received.
fn speaking(at: CreateAt, coordinator: u32, say: Say) -> (Job, Receiver<Vec<u64>>) {
    let (out, results) = channel();
    let job = Job::new("on demand").on_demand::<Speaker>(at, |_| ()).coordinator_on(coordinator);
    let job = job.main(async move |grid| {
        let all =
            grid.create_placed::<Speaker>(Placement::RoundRobin, Ix1::range(3), |_| ()).await?;
        all.broadcast(say);
        grid.quiescence().await?;
        all.broadcast(Say::Report);
        let report: Vec<u64> = all.reduction(Op::Sum).await?;
        out.send(report).map_err(|_| "the test has ended")?;
        Ok(())
    });
    (job, results)
}

#[test]
fn members_are_created_once_wherever_the_coordinator_is_and_nothing_is_dropped() {
    for (at, coordinator) in [(CreateAt::Home, 0), (CreateAt::Home, 2), (CreateAt::Sender, 1)] {
        let (job, results) = speaking(at, coordinator, Say::Speak(7));
        let report = run(job, "3x1,wan=40ms");
        assert_eq!(report.outcome, Ok(()));

        let fresh = FRESH.len() as u64;
        let found = results.recv().unwrap();
        assert_eq!(found, [3 + fresh, 3 * 7 * fresh]);
        assert_eq!((report.statistics.dead_letters, report.statistics.repeated), (0, 0));
    }
}

#[test]
fn a_member_is_created_on_the_pe_that_sent_the_first_message() {
    let (out, results) = channel();
    let job = Job::new("on demand").on_demand::<Speaker>(CreateAt::Sender, |_| ());
    let job = job.main(async move |grid| {
        let placement = Placement::RoundRobin;
        let speakers = grid.create_placed::<Speaker>(placement, Ix1::range(3), |_| ()).await?;
        let one = speakers.member(Ix1(2));
        one.send(Say::Speak(1));
        grid.quiescence().await?;
        speakers.broadcast(Say::Place);
        let places: Vec<u64> = speakers.reduction(Op::Concat).await?;
        out.send(places).map_err(|_| "the test has ended")?;
        Ok(())
    });
    assert_eq!(run(job, "3x1,wan=40ms").outcome, Ok(()));

    let places = results.recv().unwrap();
    assert_eq!(places[..3], [0, 1, 2]);
    assert!(places.len() == 3 + FRESH.len() && places[3..].iter().all(|&place| place == 2));
}

#[test]
fn a_broadcast_reaches_members_that_exist_and_creates_none() {
    let (job, results) = speaking(CreateAt::Home, 0, Say::Around);
    assert_eq!(run(job, "3x1,wan=40ms").outcome, Ok(()));

    let found = results.recv().unwrap();
    let (members, notes) = (found[0], found[1]);
    assert_eq!(members, 5);
    // There are six notes, and three broadcasts that reach three to five members each.
    assert!((6 + 9..=6 + 15).contains(&notes), "{notes}");
}

/// A job whose main sends notes to a member whose home is far from the coordinator.
fn noting(notes: usize) -> Job {
    let limits = Limits::default().with_soft_bytes(1 << 19).with_hard_bytes(1 << 20);
    let job = Job::new("on demand").on_demand::<Speaker>(CreateAt::Home, |_| ()).limits(limits);
    job.placement(SECOND).coordinator_on(0).main(async move |grid| {
        let placement = Placement::Custom(SECOND);
        let all = grid.create_placed::<Speaker>(placement, Ix1::range(0), |_| ()).await?;
        let member = all.member(Ix1(5));
        for _ in 0..notes {
            member.send(Say::Note(vec![2; NOTE_BYTES]));
            grid.sleep(std::time::Duration::from_millis(1)).await?;
        }
        grid.quiescence().await?;
        all.broadcast(Say::Report);
        let found: Vec<u64> = all.reduction(Op::Sum).await?;
        assert_eq!(found, [1, notes as u64]);
        Ok(())
    })
}

#[test]
fn messages_that_wait_for_the_creation_of_their_receiver_count_in_the_memory_budget() {
    // The home asks the coordinator over a link of 200 ms, while messages arrive every millisecond.
    assert_eq!(run(noting(40), "2x1,wan=200ms").outcome, Ok(()));
    match run(noting(100), "2x1,wan=200ms").outcome {
        Err(JobError::OverBudget { pe, held_bytes, .. }) => {
            assert_eq!(pe, PeId(1));
            assert!(held_bytes > 1 << 19, "{held_bytes} bytes held");
        }
        other => panic!("{other:?}"),
    }
}
