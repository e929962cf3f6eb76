//! Tests tasks and outputs on one PE and between PEs of a node.

use super::super::{Joining, Merge, Search, SearchContext, Searching, Step, Task, TaskContext};
use super::*;
use serde::Deserialize;

/// A task or search node with this number of children, which have no children.
#[derive(Serialize, Deserialize)]
struct Parent(u32);

#[derive(Default, Serialize, Deserialize)]
struct Count(u64);

impl Merge for Count {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Search for Parent {
    type Total = Count;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.total().0 += 1;
        (0..self.0).for_each(|_| cx.spawn(Self(0)));
    }
}

impl Task for Parent {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        (0..self.0).for_each(|_| cx.spawn(Self(0)));
        if self.0 == 0 { Step::Done(1) } else { Step::Sync(1) }
    }

    fn collect(sum: &mut u64, _: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

fn alone<W: Work>(item: W::Item) -> Engine<W> {
    let mut engine = Engine::new(PeId(0), 0, Arc::new(Deques::new(0..1)), true);
    engine.submit([(item, 7)], Repeats::default());
    engine
}

#[test]
fn repeated_outputs_are_dropped() {
    let mut engine = alone::<Joining<Parent>>(Parent(2));
    engine.step();
    let frame = engine.kept[0].frame;
    for _ in 0..5 {
        Joining::report(&mut engine, frame, 0, u64::MAX, 1);
    }
    while engine.step() {}
    let [Finished::Root(7, 3)] = engine.finished[..] else { panic!("not one output of 3") };
    assert_eq!(engine.frames.len(), 0);

    let mut engine = alone::<Searching<Parent>>(Parent(2));
    engine.step();
    let frame = engine.kept[0].frame;
    for items in [0, u64::MAX, 1, 0] {
        Searching::report(&mut engine, frame, 0, items, Count(1));
    }
    while engine.step() {}
    assert_eq!((engine.finished.len(), engine.frames.len()), (1, 0));
}

/// A search node that notes the bound that it sees, with this number of levels below it.
#[derive(Serialize, Deserialize)]
struct Probe(u32);

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen(Vec<Option<i64>>);

impl Merge for Seen {
    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Search for Probe {
    type Total = Seen;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let seen = cx.bound();
        cx.total().0.push(seen);
        if self.0 > 0 {
            cx.spawn(Self(self.0 - 1));
        }
    }
}

#[test]
fn all_that_a_repetition_spawns_sees_the_worse_bound_also_on_another_pe() {
    for (repeats, seen) in [
        (Repeats::default(), 9),
        (Repeats { is_backup: false, is_rerun: true }, 8),
        (Repeats { is_backup: true, is_rerun: false }, 8),
    ] {
        let node = Arc::new(Deques::new(0..2));
        node.bound.learn(9);
        let mut engine = Engine::<Searching<Probe>>::new(PeId(0), 0, node.clone(), false);
        engine.submit([(Probe(2), 0), (Probe(0), 1)], repeats);
        engine.share();
        let mut second = Engine::<Searching<Probe>>::new(PeId(1), 1, node, false);
        assert!(second.steal());

        while second.step() {}

        let [Finished::Loan(_, Seen(seen_there))] = &second.finished[..] else {
            panic!("not one loan")
        };
        assert_eq!(seen_there[..], [Some(seen); 3], "{repeats:?}");
    }
}

#[test]
fn long_tasks_are_offered_to_sleeping_pes() {
    let node = Arc::new(Deques::new(0..3));
    let mut engine = Engine::<Searching<Parent>>::new(PeId(0), 0, node.clone(), false);
    assert!(!node.fall_asleep(1) && !node.fall_asleep(2));
    engine.submit([(Parent(3), 0)], Repeats::default());
    engine.step();
    engine.share();
    // One task runs here next, and the other two PEs can take one each. This PE wakes PE 1, which
    // wakes PE 2.
    assert_eq!((engine.kept.len(), node.offered(0), &engine.wakes[..]), (1, 2, &[1][..]));

    let mut second = Engine::<Searching<Parent>>::new(PeId(1), 1, node.clone(), false);
    assert!(second.steal());
    second.share();
    assert_eq!((second.kept.len(), node.offered(0), &second.wakes[..]), (1, 1, &[2][..]));
}

#[test]
fn a_pe_of_a_node_that_is_about_to_leave_runs_its_kept_tasks_without_waking_others() {
    let node = Arc::new(Deques::new(0..2));
    let mut engine = Engine::<Searching<Parent>>::new(PeId(0), 0, node.clone(), false);
    assert!(!node.fall_asleep(1));
    engine.submit([(Parent(0), 0), (Parent(0), 1)], Repeats::default());
    node.rest();

    for left in [1, 0] {
        // An offer would wake the other PE, which cannot take the task, and end the slice.
        engine.share();
        assert_eq!((node.offered(0), engine.wakes.len()), (0, 0));
        assert!(engine.step());
        assert_eq!(engine.kept.len(), left);
    }
}

#[test]
fn a_pe_that_is_woken_while_it_falls_asleep_is_counted_once() {
    let node: Arc<Deques<u8>> = Arc::new(Deques::new(0..2));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            for _ in 0..1_000_000 {
                node.fall_asleep(1);
            }
        });
        while !sleeper.is_finished() {
            node.wake(1);
            // For a moment a PE can count twice, but the count never falls below zero and wraps.
            assert!(node.sleepers() <= 2);
        }
    });
    node.wake(1);
    assert_eq!(node.sleepers(), 0);
}
