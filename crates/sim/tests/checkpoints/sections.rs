//! Reductions over a section after a restart, if a member of it had ended at the checkpoint.

use super::{every, grid};
use gridspan_runtime::{
    Actor, Collection, CollectionRef, Context, Grid, GridError, Ix1, Job, Op, PeId, Progress,
    RestorePlan, SectionRef, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MEMBERS: u32 = 4;
/// The member that ends. On the first grid it lives on another node than main.
const LAST: Ix1 = Ix1(MEMBERS as i32 - 1);

#[derive(Serialize, Deserialize)]
struct Part;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Contribute(SectionRef<Part>),
    Move(PeId),
    End,
}

impl Actor for Part {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Contribute(section) => {
                let index = cx.index().0 as u64;
                cx.contribute_to_section(&section, Op::Sum, index, To::main());
            }
            Message::Move(to) => cx.migrate_to(to),
            Message::End => cx.destroy(),
        }
    }
}

/// The sum of the indices, by a reduction over a section of all members.
async fn sum(parts: &Collection<Part>) -> Result<u64, GridError> {
    let all = parts.section(7, (0..MEMBERS as i32).map(Ix1));
    parts.multicast(&all, Message::Contribute(all.clone()));
    parts.section_reduction(&all, Op::Sum).await
}

/// Ends a member before the checkpoint, at its home or away from it, and inserts it again later.
async fn run(grid: &Grid, is_away: bool) -> Result<u64, GridError> {
    let restored: Option<CollectionRef<Part>> = grid.restored().await?;
    let parts = match restored {
        Some(parts) => grid.collection(parts),
        None => {
            let parts = grid.create::<Part>(Ix1::range(MEMBERS), |_| ()).await?;
            for _ in 0..3 {
                assert_eq!(sum(&parts).await?, 6);
            }
            if is_away {
                parts.member(LAST).send(Message::Move(PeId(0)));
            }
            parts.member(LAST).send(Message::End);
            grid.quiescence().await?;
            let made = grid.progress(&parts.reference()).await?;
            assert!(matches!(made, Progress::Taken { number: 1 }), "{made:?}");
            parts
        }
    };
    grid.sleep(Duration::from_secs(20)).await?;
    parts.insert_on(LAST, (), PeId(0));
    grid.quiescence().await?;
    sum(&parts).await
}

fn job(is_away: bool, sums: &Arc<Mutex<Vec<u64>>>) -> Job {
    let sums = sums.clone();
    let main = async move |grid: Grid| {
        let sum = run(&grid, is_away).await?;
        sums.lock().unwrap().push(sum);
        Ok(())
    };
    Job::new("sections").actor::<Part>().restartable_main(main).checkpoints(every(1))
}

#[test]
fn a_member_that_is_inserted_again_after_a_restart_takes_part_in_the_next_reduction() {
    for is_away in [false, true] {
        let sums = Arc::default();
        let start = || {
            let (job, options) = (job(is_away, &sums), SimOptions::with_seed(1));
            Simulation::new(job, grid("2x1,wan=8ms"), options).unwrap()
        };
        assert_eq!(start().run().outcome, Ok(()));
        let Ok(halted) = start().run_until(Time(10_000_000_000)) else { panic!("it has ended") };
        let image = halted.checkpoint().unwrap().unwrap();
        let spec = grid("1x1x3");
        let plan = RestorePlan::restart(image.layout(), spec.layout());
        let (job, options) = (job(is_away, &sums), SimOptions::with_seed(2));
        let again = Simulation::restored(job, spec, options, (image, plan)).unwrap();
        assert_eq!(again.run().outcome, Ok(()));
        assert_eq!(*sums.lock().unwrap(), [6, 6]);
    }
}
