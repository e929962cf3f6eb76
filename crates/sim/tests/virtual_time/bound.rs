//! Bound collections over slow links, in virtual time.

use gridspan_balance::{Plan, Snapshot, Strategy};
use gridspan_runtime::{
    Actor, Collection, CollectionRef, Context, Grid, GridError, Ix1, Job, Op, PeId, Placement, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MEMBERS: u32 = 8;
/// The time for which a member computes for a message, by its collection: base and bound.
const WORK: [Duration; 2] = [Duration::from_millis(3), Duration::from_millis(4)];

#[derive(Clone, Serialize, Deserialize)]
enum Order {
    Move(PeId),
    /// Compute, and send this many messages to the partner and to the next member of the base.
    Work(u32),
    /// A word that a new member has broadcast.
    Word(i32),
    Words,
    /// Contribute the number of the PE.
    Place,
}

#[derive(Clone, Serialize, Deserialize)]
struct Init {
    /// The base collection, for a bound member.
    base: Option<CollectionRef<Part>>,
    /// Whether the member broadcasts a word when it is created.
    speaks: bool,
    bytes: usize,
}

#[derive(Serialize, Deserialize)]
struct Part {
    base: Option<CollectionRef<Part>>,
    words: Vec<i32>,
    load: Vec<u8>,
}

impl Actor for Part {
    type Index = Ix1;
    type Init = Init;
    type Message = Order;

    fn create(Init { base, speaks, bytes }: Init, cx: &mut Context<'_, Self>) -> Self {
        if speaks {
            let (all, word) = (cx.collection(), cx.index().0);
            cx.broadcast(&all, Order::Word(word));
        }
        Self { base, words: Vec::new(), load: vec![1; bytes] }
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        if let Some(base) = &self.base {
            assert!(cx.is_here(&base.at(cx.index())), "{:?} on {}", cx.index(), cx.pe());
        }
        match order {
            Order::Move(pe) => cx.migrate_to(pe),
            Order::Work(messages) => {
                cx.charge(WORK[usize::from(self.base.is_some())]);
                let base = self.base.unwrap_or(cx.collection());
                let next = base.at(Ix1((cx.index().0 + 1) % MEMBERS as i32));
                for _ in 0..messages {
                    cx.send(&next, Order::Work(0));
                    cx.send(&base.at(cx.index()), Order::Work(0));
                }
            }
            Order::Word(word) => self.words.push(word),
            Order::Words => {
                // Equal for all members that received the words in the same order.
                let sum = self.words.iter().fold(0_u64, |sum, &word| sum * 31 + word as u64);
                cx.contribute(Op::Min, sum, To::main());
                cx.contribute(Op::Max, sum, To::main());
                cx.contribute(Op::Sum, self.words.len() as u64, To::main());
            }
            Order::Place => cx.contribute(Op::Sum, u64::from(cx.pe().0), To::main()),
        }
    }
}

async fn base(grid: &Grid) -> Result<Collection<Part>, GridError> {
    let init = |_| Init { base: None, speaks: false, bytes: 100 };
    grid.create_placed::<Part>(Placement::RoundRobin, Ix1::range(MEMBERS), init).await
}

async fn bind(
    grid: &Grid,
    base: &Collection<Part>,
    speaks: bool,
) -> Result<Collection<Part>, GridError> {
    let told = base.reference();
    let init = |_| Init { base: Some(told), speaks, bytes: 1000 };
    grid.create_bound::<Part>(base, Ix1::range(MEMBERS), init).await
}

/// Runs a job on three sites of one PE each, ten milliseconds apart.
fn run(job: Job) -> SimReport {
    let spec = GridSpec::from_emulate("3x1,wan=10ms").unwrap();
    Simulation::new(job, spec, SimOptions::default()).unwrap().run()
}

#[test]
fn new_members_follow_partners_that_move_and_take_all_broadcasts_in_one_order() {
    let job = Job::new("bound").actor::<Part>().main(async |grid| {
        let base = base(&grid).await?;
        for index in 0..MEMBERS as i32 {
            for hop in 1..=index {
                base.member(Ix1(index)).send(Order::Move(PeId((index + hop) as u32 % 3)));
            }
        }
        let bound = bind(&grid, &base, true).await?;
        bound.broadcast(Order::Words);
        let (first, last): (u64, u64) =
            (bound.reduction(Op::Min).await?, bound.reduction(Op::Max).await?);
        let words: u64 = bound.reduction(Op::Sum).await?;
        assert_eq!((first, words), (last, u64::from(MEMBERS * MEMBERS)));
        grid.quiescence().await?;
        base.broadcast(Order::Place);
        bound.broadcast(Order::Place);
        let places: (u64, u64) = (base.reduction(Op::Sum).await?, bound.reduction(Op::Sum).await?);
        assert_eq!(places.0, places.1);
        Ok(())
    });

    let report = run(job);

    assert_eq!(report.outcome, Ok(()));
    assert_eq!(report.statistics.dead_letters, 0);
}

/// Moves every actor to the next PE, and stores the snapshots.
#[derive(Clone)]
struct Next(Arc<Mutex<Vec<Snapshot>>>);

impl Strategy for Next {
    fn name(&self) -> &'static str {
        "next"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        self.0.lock().unwrap().push(snapshot.clone());
        Plan::placing(snapshot, |actor| PeId((actor.pe.0 + 1) % 3))
    }

    fn predicts(&self) -> bool {
        false
    }
}

#[test]
fn a_strategy_sees_partners_as_one_actor_of_the_base() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let job = Job::new("bound").actor::<Part>().strategy(Next(told));
    let job = job.main(async |grid| {
        let base = base(&grid).await?;
        let bound = bind(&grid, &base, false).await?;
        for _ in 0..2 {
            base.broadcast(Order::Work(0));
            bound.broadcast(Order::Work(5));
            grid.quiescence().await?;
            assert_eq!(grid.rebalance().await?, MEMBERS as usize);
        }
        base.broadcast(Order::Place);
        bound.broadcast(Order::Place);
        let places: (u64, u64) = (base.reduction(Op::Sum).await?, bound.reduction(Op::Sum).await?);
        // At first PEs 0, 1 and 2 had three, three and two members. After two moves these are on
        // PEs 2, 0 and 1.
        assert_eq!(places, (3 * 2 + 2, 3 * 2 + 2));
        Ok(())
    });

    let report = run(job);

    assert_eq!(report.outcome, Ok(()));
    // Members of both collections moved twice.
    assert_eq!(report.statistics.migrations, 2 * 2 * u64::from(MEMBERS));
    let seen = seen.lock().unwrap();
    let snapshot = &seen[1];
    assert_eq!(snapshot.actors.len(), MEMBERS as usize);
    for actor in &snapshot.actors {
        assert_eq!(actor.id.collection, snapshot.actors[0].id.collection);
        // Each member of both collections handled one order. A member of the base also handled five
        // messages from its own partner, and five from the partner of the member before it.
        assert_eq!(actor.load, WORK[1] + WORK[0] * 11, "{actor:?}");
        assert!((1100..1200).contains(&actor.bytes), "{actor:?}");
    }
    let edges: Vec<_> = snapshot.edges.iter().map(|it| (it.from, it.to, it.messages)).collect();
    let next = |at| (at, (at + 1) % MEMBERS, 5);
    let mut expected: Vec<_> = (0..MEMBERS).map(next).collect();
    expected.sort_unstable();
    assert_eq!(edges, expected);
}

#[test]
fn a_member_without_a_partner_ends_the_job_after_a_minute_and_is_named() {
    let job = Job::new("bound").actor::<Part>().main(async |grid| {
        let base = base(&grid).await?;
        let bound = bind(&grid, &base, false).await?;
        let init = Init { base: None, speaks: false, bytes: 1 };
        bound.insert_on(Ix1(77), init, PeId(1));
        grid.quiescence().await?;
        Ok(())
    });

    let report = run(job);

    let error = report.outcome.unwrap_err().to_string();
    assert!(error.contains("is bound to collection 0, which has no such member"), "{error}");
    let seconds = report.virtual_time.as_secs_f64();
    assert!((59.0..62.0).contains(&seconds), "{seconds}");
}
