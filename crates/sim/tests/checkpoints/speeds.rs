//! After a loss, PEs go on with members in proportion to their speeds: those that the grid states,
//! or those that the balancer had measured.

use super::{every, gathered, grid, without};
use gridspan_balance::StrategyName;
use gridspan_runtime::{
    Actor, CollectionRef, Context, Grid, Ix1, Job, JobError, NodeId, Op, Reply, RestorePlan, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The last node has a quarter of the speed of the others.
const FIRST: &str = "1x3,speed=1:1:1/4";
const CELLS: u32 = 60;
/// Time at which the first run is halted; main sleeps then.
const HALT: Time = Time(5_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Work,
    Where(Reply<u32>),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Work => {
                cx.charge(Duration::from_millis(10));
                cx.contribute(Op::Sum, 1_u64, To::main());
            }
            Message::Where(reply) => {
                let pe = cx.pe().0;
                cx.reply(reply, pe);
            }
        }
    }
}

/// The PE of each cell after the loss.
type Places = Arc<Mutex<Vec<u32>>>;

fn job(places: &Places) -> Job {
    let places = places.clone();
    let main = async move |grid: Grid| {
        if let Some(reference) = grid.restored::<CollectionRef<Cell>>().await? {
            let cells = grid.collection(reference);
            for index in 0..CELLS {
                let pe: u32 = cells.member(Ix1(index as i32)).ask(HOUR, Message::Where).await?;
                places.lock().unwrap().push(pe);
            }
            return Ok(());
        }
        let cells = grid.create::<Cell>(Ix1::range(CELLS), |_| ()).await?;
        for is_balanced in [false, true] {
            cells.broadcast(Message::Work);
            let done: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(done, u64::from(CELLS));
            if !is_balanced {
                grid.rebalance().await?;
            }
        }
        grid.progress(&cells.reference()).await?;
        grid.sleep(HOUR).await?;
        Ok::<(), JobError>(())
    };
    Job::new("cells").actor::<Cell>().restartable_main(main).checkpoints(every(1))
}

/// The number of cells on each of the two PEs that are left when node 0 is lost. The plan for the
/// restoration uses the speeds in the grid that `known` returns.
fn cells_after_loss(first: Job, known: impl FnOnce(&GridSpec) -> GridSpec) -> [usize; 2] {
    let simulation = Simulation::new(first, grid(FIRST), SimOptions::with_seed(1)).unwrap();
    let Ok(halted) = simulation.run_until(HALT) else { panic!("it has ended") };
    let image = gathered(&halted.stores, 0).expect("a checkpoint was made");
    let (left, nodes) = without(&grid(FIRST), 0);
    let holders: Vec<_> = nodes.iter().map(|node| node.or(Some(NodeId(0)))).collect();
    let plan = RestorePlan::recovery(&image, &known(&left), &nodes, &holders).unwrap();
    let places = Places::default();
    let options = SimOptions::with_seed(2);
    let again = Simulation::restored(job(&places), left, options, (image, plan)).unwrap();
    assert_eq!(again.run().outcome, Ok(()));
    let places = places.lock().unwrap();
    assert_eq!(places.len(), CELLS as usize);
    [0, 1].map(|pe| places.iter().filter(|&&place| place == pe).count())
}

#[test]
fn a_slow_pe_goes_on_with_fewer_members_by_the_speeds_of_the_grid() {
    // Before the loss each of three PEs had 20.
    assert_eq!(cells_after_loss(job(&Places::default()), GridSpec::clone), [48, 12]);
}

#[test]
fn a_slow_pe_goes_on_with_less_work_by_the_measured_speeds() {
    let strategy: StrategyName = "greedy".parse().expect("it is a name");
    let first = job(&Places::default()).strategy(strategy).balance_gate(false);
    // This grid states equal speeds, so only the checkpoint contains the measured ones.
    let [fast, slow] = cells_after_loss(first, |_| grid("1x2"));
    assert!((46..=50).contains(&fast), "{fast} and {slow}");
}
