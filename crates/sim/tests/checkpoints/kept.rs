//! Groups that keep their members when the number of PEs changes: messages find each member by its
//! index, wherever it lives.

use super::{every, gathered, grid, without};
use gridspan_runtime::{
    Actor, CollectionRef, Context, Grid, Image, Ix1, Job, JobError, Per, Reply, RestorePlan,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FIRST: &str = "2x2x1,wan=8ms";
/// Number of members on the first grid.
const MEMBERS: i32 = 4;
/// Time at which runs are halted; main sleeps then.
const HALT: Time = Time(2_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

/// Adds up what it receives.
#[derive(Serialize, Deserialize)]
struct Tally(u64);

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Add(u64),
    Report(Reply<(i32, u64)>),
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self(0)
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Add(number) => {
                self.0 += number;
                cx.charge(Duration::from_millis(20));
            }
            Message::Report(reply) => cx.reply(reply, (cx.index().0, self.0)),
        }
    }
}

/// The index and the sum of each member, from its answer to main.
type Reports = Arc<Mutex<Vec<(i32, u64)>>>;

fn job(reports: &Reports) -> Job {
    let reports = reports.clone();
    let main = async move |grid: Grid| {
        let (runs, tallies) = match grid.restored::<(u64, CollectionRef<Tally>)>().await? {
            Some((runs, reference)) => (runs, grid.collection(reference)),
            None => (0, grid.create_group::<Tally>(Per::Pe, |_| ()).await?),
        };
        for index in 0..MEMBERS {
            // Some of these wait in the mailboxes at the checkpoint.
            for _ in 0..5 {
                tallies.member(Ix1(index)).send(Message::Add(index as u64 * 100));
            }
        }
        tallies.broadcast(Message::Add(1));
        grid.progress(&(runs + 1, tallies.reference())).await?;
        grid.sleep(Duration::from_secs(5)).await?;
        let mut learned = Vec::new();
        for index in 0..MEMBERS {
            learned.push(tallies.member(Ix1(index)).ask(HOUR, Message::Report).await?);
        }
        *reports.lock().unwrap() = learned;
        Ok::<(), JobError>(())
    };
    Job::new("tallies").kept_group::<Tally>().restartable_main(main).checkpoints(every(1))
}

/// The reports if main has sent all its messages in each of `runs` runs.
fn expected(runs: u64) -> Vec<(i32, u64)> {
    (0..MEMBERS).map(|index| (index, runs * (index as u64 * 500 + 1))).collect()
}

fn first(reports: &Reports) -> Simulation {
    Simulation::new(job(reports), grid(FIRST), SimOptions::with_seed(1)).unwrap()
}

fn again(reports: &Reports, text: &str, image: Image) -> Simulation {
    let plan = RestorePlan::restart(image.layout(), grid(text).layout());
    let options = SimOptions::with_seed(2);
    Simulation::restored(job(reports), grid(text), options, (image, plan)).unwrap()
}

fn halted(simulation: Simulation) -> Image {
    let Ok(halted) = simulation.run_until(HALT) else { panic!("it has ended") };
    halted.checkpoint().unwrap().expect("a checkpoint was made")
}

#[test]
fn kept_members_are_found_after_several_restarts_on_any_layout() {
    for [one, other] in [
        ["1x1x1", "2x2x2,wan=8ms"],
        ["3x2x2,wan=8ms", "1x1x3"],
        ["1x1x3", "1x1x2"],
        [FIRST, "2x1x1,wan=8ms"],
    ] {
        let reports = Reports::default();
        let once = halted(first(&reports));
        assert_eq!(once.members(), MEMBERS as u64);
        let twice = halted(again(&reports, one, once));
        assert_eq!(again(&reports, other, twice).run().outcome, Ok(()), "{one}, {other}");
        assert_eq!(*reports.lock().unwrap(), expected(3), "{one}, {other}");
    }
}

#[test]
fn kept_members_of_a_lost_node_go_on_elsewhere() {
    for lost in 0..4_usize {
        let reports = Reports::default();
        let Ok(halted) = first(&reports).run_until(HALT) else { panic!("it has ended") };
        let image = gathered(&halted.stores, lost).expect("a checkpoint was made");
        let (left, nodes) = without(&grid(FIRST), lost as u32);
        // The other node of the site has the copies.
        let holders: Vec<_> = nodes.iter().map(|node| node.or(nodes[lost ^ 1])).collect();
        let plan = RestorePlan::recovery(&image, &left, &nodes, &holders).unwrap();
        let options = SimOptions::with_seed(3);
        let report = Simulation::restored(job(&reports), left, options, (image, plan)).unwrap();
        assert_eq!(report.run().outcome, Ok(()), "node {lost}");
        assert_eq!(*reports.lock().unwrap(), expected(2), "node {lost}");
    }
}
