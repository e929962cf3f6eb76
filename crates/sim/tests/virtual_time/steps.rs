//! The order in which messages of steps are handled: older steps first, then members nearer to
//! another site.

use gridspan_balance::StrategyName;
use gridspan_runtime::{Actor, ActorRef, Context, InStep, Ix1, Job, Op, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// Member 0 sends numbers; member 1 records them in the order in which it handles them.
#[derive(Serialize, Deserialize)]
struct Clerk {
    told: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Order {
    /// Send numbers to member 1, each in its step, or outside of steps.
    Dictate(Vec<(Option<u64>, u64)>),
    Note(u64),
    Report,
}

impl Actor for Clerk {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { told: Vec::new() }
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        match order {
            Order::Dictate(notes) => {
                let to = cx.collection().at(Ix1(1));
                for (step, number) in notes {
                    match step {
                        Some(step) => cx.send_with(InStep(step), &to, Order::Note(number)),
                        None => cx.send(&to, Order::Note(number)),
                    }
                }
            }
            Order::Note(number) => {
                cx.charge(Duration::from_millis(1));
                self.told.push(number);
            }
            Order::Report => cx.contribute(Op::Concat, std::mem::take(&mut self.told), To::main()),
        }
    }
}

/// The numbers that member 1 recorded, in order.
fn noted(emulate: &str, notes: Vec<(Option<u64>, u64)>) -> Vec<u64> {
    let (tell, told) = mpsc::channel();
    let job = Job::new("clerks").actor::<Clerk>().main(async move |grid| {
        let clerks = grid.create::<Clerk>(Ix1::range(2), |_| ()).await?;
        clerks.member(Ix1(0)).send(Order::Dictate(notes));
        grid.quiescence().await?;
        clerks.broadcast(Order::Report);
        let all: Vec<u64> = clerks.reduction(Op::Concat).await?;
        tell.send(all).map_err(|_| "the test has ended")?;
        Ok(())
    });
    simulate(job, emulate);
    told.recv().expect("main has sent it")
}

fn simulate(job: Job, emulate: &str) {
    let spec = GridSpec::from_emulate(emulate).expect("the shorthand is well formed");
    let simulation = Simulation::new(job, spec, SimOptions::default()).expect("the job can run");
    simulation.run().outcome.expect("the job succeeds");
}

#[test]
fn older_steps_are_handled_first_and_all_steps_after_ordinary_messages() {
    let notes = vec![(Some(9), 1), (Some(7), 2), (None, 3), (Some(8), 4), (Some(7), 5), (None, 6)];

    assert_eq!(noted("1x1", notes), [3, 6, 2, 5, 4, 1]);
}

#[test]
fn messages_of_one_pair_and_step_keep_their_order_between_sites() {
    let notes: Vec<_> = (0..200).map(|number| (Some(number % 3), number)).collect();
    let told = noted("2x1,wan=1ms", notes);

    for step in 0..3 {
        let of_step: Vec<u64> = told.iter().copied().filter(|number| number % 3 == step).collect();
        assert!(of_step.len() >= 66 && of_step.is_sorted(), "step {step}: {of_step:?}");
    }
}

/// Four members in a row, each of which sends to the next; only the last is at the other site.
#[derive(Serialize, Deserialize)]
struct Link {
    heard: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Talk {
    /// Send to the next member, so that the runtime can measure which members communicate.
    Chat,
    /// In one step, wake members 0 to 2, the farthest from the border first.
    Wake {
        watch: ActorRef<Link>,
    },
    Awake {
        watch: ActorRef<Link>,
    },
    /// Message to the watch: this member was woken.
    Woken(u64),
    Report,
}

const LINKS: i32 = 4;

impl Actor for Link {
    type Index = Ix1;
    type Init = ();
    type Message = Talk;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { heard: Vec::new() }
    }

    fn handle(&mut self, talk: Talk, cx: &mut Context<'_, Self>) {
        let me = cx.index().0;
        match talk {
            Talk::Chat if me + 1 < LINKS => {
                let next = cx.collection().at(Ix1(me + 1));
                cx.send_with(InStep(1), &next, Talk::Chat);
            }
            Talk::Chat => {}
            Talk::Wake { watch } => {
                for other in 0..LINKS - 1 {
                    let to = cx.collection().at(Ix1(other));
                    cx.send_with(InStep(5), &to, Talk::Awake { watch });
                }
            }
            Talk::Awake { watch } => cx.send(&watch, Talk::Woken(me as u64)),
            Talk::Woken(who) => self.heard.push(who),
            Talk::Report => cx.contribute(Op::Concat, std::mem::take(&mut self.heard), To::main()),
        }
    }
}

/// Places the first three members on the PE of site a, and the last one on that of site b.
const ROW: gridspan_runtime::PlacementMap = gridspan_runtime::PlacementMap::new("row", |key, _| {
    gridspan_runtime::PeId(u32::from(key == last()))
});

/// The order in which members 0 to 2 are woken, all of them by one handler.
fn woken(strategy: &str) -> Vec<u64> {
    let (tell, told) = mpsc::channel();
    let job = Job::new("links")
        .actor::<Link>()
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"));
    let job = job.placement(ROW).main(async move |grid| {
        let row = gridspan_runtime::Placement::Custom(ROW);
        let links = grid.create_placed::<Link>(row, Ix1::range(LINKS as u32), |_| ()).await?;
        links.member(Ix1(0)).send(Talk::Chat);
        grid.quiescence().await?;
        grid.rebalance().await?;
        let watch = links.reference().at(Ix1(0));
        links.member(Ix1(0)).send(Talk::Wake { watch });
        grid.quiescence().await?;
        links.broadcast(Talk::Report);
        let order: Vec<u64> = links.reduction(Op::Concat).await?;
        tell.send(order).map_err(|_| "the test has ended")?;
        Ok(())
    });
    simulate(job, "2x1,wan=1ms");
    told.recv().expect("main has sent it")
}

fn last() -> gridspan_runtime::Key {
    use gridspan_runtime::ActorIndex;
    Ix1(LINKS - 1).key()
}

#[test]
fn in_one_step_messages_to_members_nearer_to_another_site_are_handled_first() {
    assert_eq!(woken("none"), [0, 1, 2], "nothing is measured: in the order sent");
    // `refine` sees no load and moves nothing.
    assert_eq!(woken("refine"), [2, 1, 0]);
    assert_eq!(woken("leader-cut"), [2, 1, 0], "plans of leaders contain the distances, too");
}
