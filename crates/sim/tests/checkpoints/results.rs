//! Results of reductions that main has not asked for at a checkpoint: a main that begins again from
//! there gets each of them, whether it was complete before or after the image was taken.

use super::{every, gathered, grid, without};
use gridspan_runtime::{
    Actor, CollectionRef, Context, Grid, Image, Ix1, Job, JobError, Op, Progress, RestorePlan, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Time at which runs are halted: all members have contributed, and main sleeps.
const HALT: Time = Time(15_000_000_000);
const FIRST: &str = "2x2,wan=8ms";

/// Contributes what main sends, at once or 10 seconds later.
#[derive(Serialize, Deserialize)]
struct Giver;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Give(u64),
    GiveLater(u64),
}

impl Actor for Giver {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Give(number) => cx.contribute(Op::Sum, number, To::main()),
            Message::GiveLater(number) => {
                let me = cx.me();
                cx.send_after(10 * SECOND, &me, Message::Give(number));
            }
        }
    }
}

/// When the members contribute, and when main asks for the result.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// For each member, whether it contributes after the image was taken.
    later: [bool; 2],
    /// Time after the image at which main asks.
    pause: Duration,
}

/// The results that main got in the runs that have ended.
type Found = Arc<Mutex<Vec<[u64; 2]>>>;

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let times = [[false, false], [false, true], [true, true]];
        // In the first case the main that is halted has the result.
        let pauses = [Duration::ZERO, 20 * SECOND];
        times.into_iter().flat_map(move |later| pauses.map(|pause| Self { later, pause }))
    }

    fn job(self, found: &Found) -> Job {
        let found = found.clone();
        let main = async move |grid: Grid| {
            let givers = match grid.restored::<CollectionRef<Giver>>().await? {
                Some(reference) => grid.collection(reference),
                None => {
                    let givers = grid.create::<Giver>(Ix1::range(2), |_| ()).await?;
                    for (index, is_later) in (0..).zip(self.later) {
                        givers.member(Ix1(index)).send(match is_later {
                            true => Message::GiveLater(7),
                            false => Message::Give(7),
                        });
                    }
                    grid.sleep(SECOND).await?;
                    let made = grid.progress(&givers.reference()).await?;
                    assert!(matches!(made, Progress::Taken { number: 1 }), "{made:?}");
                    givers
                }
            };
            grid.sleep(self.pause).await?;
            let first: u64 = givers.reduction(Op::Sum).await?;
            grid.sleep(30 * SECOND).await?;
            givers.broadcast(Message::Give(100));
            let second: u64 = givers.reduction(Op::Sum).await?;
            found.lock().unwrap().push([first, second]);
            Ok::<(), JobError>(())
        };
        Job::new("results").actor::<Giver>().restartable_main(main).checkpoints(every(1))
    }

    fn start(self, found: &Found) -> Simulation {
        Simulation::new(self.job(found), grid(FIRST), SimOptions::with_seed(1)).unwrap()
    }
}

#[test]
fn a_result_that_main_had_not_asked_for_is_delivered_once_after_a_restart() {
    for case in Case::all() {
        let found = Found::default();
        assert_eq!(case.start(&found).run().outcome, Ok(()), "{case:?}");
        let Ok(halted) = case.start(&found).run_until(HALT) else { panic!("it has ended") };
        let image = halted.checkpoint().unwrap().expect("a checkpoint was made");
        let spec = grid("1x1x3");
        let plan = RestorePlan::restart(image.layout(), spec.layout());
        let (job, options) = (case.job(&found), SimOptions::with_seed(2));
        let again = Simulation::restored(job, spec, options, (image, plan)).unwrap();

        assert_eq!(again.run().outcome, Ok(()), "{case:?}");

        assert_eq!(*found.lock().unwrap(), [[14, 200]; 2], "{case:?}");
    }
}

#[test]
fn a_result_that_main_had_not_asked_for_is_delivered_after_the_loss_of_mains_node() {
    for case in Case::all() {
        let found = Found::default();
        let Ok(halted) = case.start(&found).run_until(HALT) else { panic!("it has ended") };
        let image: Image = gathered(&halted.stores, 0).expect("a checkpoint was made");
        let (left, nodes) = without(&grid(FIRST), 0);
        // The other node of the site has the copies.
        let holders: Vec<_> = nodes.iter().map(|node| node.or(nodes[1])).collect();
        let plan = RestorePlan::recovery(&image, &left, &nodes, &holders).unwrap();
        let (job, options) = (case.job(&found), SimOptions::with_seed(3));
        let again = Simulation::restored(job, left, options, (image, plan)).unwrap();

        assert_eq!(again.run().outcome, Ok(()), "{case:?}");

        assert_eq!(*found.lock().unwrap(), [[14, 200]], "{case:?}");
    }
}
