//! A loss right after the recovery from another one: the copies are made again in between.

use super::{every, grid};
use gridspan_runtime::{
    Actor, CheckpointStore, CollectionRef, Context, Grid, Image, Ix1, Job, NodeId, Op, PeId,
    RestorePlan, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GRID: &str = "2x2x2,wan=8ms";
const STEPS: u64 = 20;
/// Pause before each progress point: longer than a recovery with its copies.
const PAUSE: Duration = Duration::from_millis(200);
/// Time after the beginning of the second run at which another node is lost: the members are
/// restored and the copies are made, and main has not reached a progress point.
const SECOND_LOSS: Time = Time(150_000_000);

/// A member whose state depends on all messages and their order.
#[derive(Serialize, Deserialize)]
struct Folder(u64);

impl Actor for Folder {
    type Index = Ix1;
    type Init = u64;
    type Message = u64;

    fn create(first: u64, _: &mut Context<'_, Self>) -> Self {
        Self(first)
    }

    fn handle(&mut self, number: u64, cx: &mut Context<'_, Self>) {
        self.0 = self.0.wrapping_mul(31).wrapping_add(number);
        cx.contribute(Op::Concat, self.0, To::main());
    }
}

#[derive(Serialize, Deserialize)]
struct At {
    step: u64,
    folders: CollectionRef<Folder>,
}

type States = Arc<Mutex<Vec<u64>>>;

/// A job that notes the states of all members after its last step.
fn job(last: &States) -> Job {
    let last = last.clone();
    let main = async move |grid: Grid| {
        let at: Option<At> = grid.restored().await?;
        let (first, folders) = match at {
            Some(At { step, folders }) => (step, grid.collection(folders)),
            None => (0, grid.create::<Folder>(Ix1::range(40), |ix| ix.0 as u64).await?),
        };
        for step in first..STEPS {
            folders.broadcast(step);
            let states: Vec<u64> = folders.reduction(Op::Concat).await?;
            *last.lock().unwrap() = states;
            grid.sleep(PAUSE).await?;
            grid.progress(&At { step: step + 1, folders: folders.reference() }).await?;
        }
        Ok(())
    };
    Job::new("folders").actor::<Folder>().main(main).checkpoints(every(1))
}

fn options(seed: u64) -> SimOptions {
    SimOptions::with_seed(seed)
}

/// The nodes that are left of [`GRID`], and how the job goes on from what they keep.
fn recovery(stores: &BTreeMap<u32, CheckpointStore>) -> (GridSpec, Image, RestorePlan) {
    let whole = grid(GRID);
    let is_lost = |node: &NodeId| !stores.contains_key(&node.0);
    let lost: Vec<NodeId> = whole.layout().nodes().filter(is_lost).collect();
    let left = whole.without(&lost).unwrap();
    let image = Image::gathered(stores.values()).unwrap().expect("a checkpoint is complete");
    let kept: Vec<Image> =
        stores.values().map(|store| store.image(image.manifest()).unwrap()).collect();
    let before = image.layout().clone();
    let having = |node: NodeId| -> Vec<NodeId> {
        let has_all = |kept: &Image| {
            let parts = kept.parts();
            before.place(node).pes.clone().all(|pe| parts.contains(&PeId(pe)))
        };
        (0..).zip(&kept).filter(|(_, kept)| has_all(kept)).map(|(at, _)| NodeId(at)).collect()
    };
    let position =
        |node: NodeId| stores.keys().position(|other| *other == node.0).map(NodeId::from);
    let successors: Vec<Option<NodeId>> = before.nodes().map(position).collect();
    let holders: Vec<Option<NodeId>> =
        before.nodes().map(|node| having(node).first().copied()).collect();
    let plan = RestorePlan::recovery(&image, &left, &successors, &holders).unwrap();
    let plan = plan.held_by(&before, having);
    (left, image, plan)
}

/// The number of nodes that have each part.
fn holders(plan: &RestorePlan) -> Vec<usize> {
    plan.holders.iter().map(Vec::len).collect()
}

/// Loses node `first`, and `second` after the recovery. Returns the states of all members at the
/// end of the job. Checks that the job reports once that the copies are made again.
fn states_after_losses_of(first: u32, second: u32) -> Vec<u64> {
    let last = States::default();
    let begun = Simulation::new(job(&last), grid(GRID), options(1)).unwrap();
    let Ok(halted) = begun.run_until(Time(1_000_000_000)) else { panic!("it has ended") };
    let mut stores: BTreeMap<u32, CheckpointStore> = (0..).zip(halted.stores).collect();
    stores.remove(&first);
    let (left, image, plan) = recovery(&stores);
    // The other site has lost nothing.
    assert_eq!(holders(&plan).iter().filter(|nodes| **nodes == 1).count(), 4);

    let number = image.number();
    let remade = Arc::<Mutex<Vec<u64>>>::default();
    let told = remade.clone();
    let watched = job(&last).on_copies_remade(move |it| told.lock().unwrap().push(it.checkpoint));
    let again = Simulation::restored(watched, left, options(2), (image, plan)).unwrap();
    let again = again.keeping(stores.values().cloned().collect());
    let Ok(halted) = again.run_until(SECOND_LOSS) else { panic!("it has ended") };
    assert_eq!(*remade.lock().unwrap(), [number]);
    let mut stores: BTreeMap<u32, CheckpointStore> =
        stores.into_keys().zip(halted.stores).collect();
    stores.remove(&second);
    let (left, image, plan) = recovery(&stores);
    assert_eq!(image.number(), number, "there is another checkpoint");

    let again = Simulation::restored(job(&last), left, options(3), (image, plan)).unwrap();
    let report = again.keeping(stores.into_values().collect()).run();
    assert_eq!(report.outcome, Ok(()));
    last.lock().unwrap().clone()
}

#[test]
fn a_job_survives_the_loss_of_the_only_copy_left_by_the_loss_before() {
    let last = States::default();
    let report = Simulation::new(job(&last), grid(GRID), options(1)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let expected = last.lock().unwrap().clone();
    for first in 0..4 {
        // The other node of the site has the only copies of the parts of both.
        let second = first ^ 1;
        assert_eq!(states_after_losses_of(first, second), expected, "{first}, then {second}");
    }
}

#[test]
fn with_three_copies_a_job_survives_the_loss_of_any_two_nodes_at_once_and_then_of_others() {
    let last = States::default();
    let of_job = |last: &States| job(last).checkpoints(every(1).with_copies(3));
    let report = Simulation::new(of_job(&last), grid(GRID), options(1)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let expected = last.lock().unwrap().clone();
    for (lost, then) in [([0, 1], 2), ([2, 3], 0), ([0, 2], 1)] {
        let last = States::default();
        let begun = Simulation::new(of_job(&last), grid(GRID), options(1)).unwrap();
        let Ok(halted) = begun.run_until(Time(1_000_000_000)) else { panic!("it has ended") };
        let mut stores: BTreeMap<u32, CheckpointStore> = (0..).zip(halted.stores).collect();
        stores.retain(|node, _| !lost.contains(node));
        let (left, image, plan) = recovery(&stores);
        assert_eq!(holders(&plan).iter().min(), Some(&1), "{lost:?}");

        let again = Simulation::restored(of_job(&last), left, options(2), (image, plan)).unwrap();
        let again = again.keeping(stores.values().cloned().collect());
        let Ok(halted) = again.run_until(SECOND_LOSS) else { panic!("it has ended") };
        let mut stores: BTreeMap<u32, CheckpointStore> =
            stores.into_keys().zip(halted.stores).collect();
        stores.remove(&then);
        let (left, image, plan) = recovery(&stores);
        assert_eq!(holders(&plan), [1; 8], "{lost:?}, then {then}: both nodes had all parts");

        let again = Simulation::restored(of_job(&last), left, options(3), (image, plan)).unwrap();
        let report = again.keeping(stores.into_values().collect()).run();
        assert_eq!(report.outcome, Ok(()));
        assert_eq!(*last.lock().unwrap(), expected, "{lost:?}, then {then}");
    }
}
