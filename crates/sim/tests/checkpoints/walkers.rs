//! Actors that migrate, and send to each other at once and after a delay.

use super::{every, gathered, grid, without};
use gridspan_runtime::{
    Actor, ActorRef, CheckpointReport, CollectionRef, Context, Grid, Ix1, Job, Op, PeId, Progress,
    Published, RestorePlan, Timer, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{Bandwidth, Time};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WALKERS: i32 = 60;
const STEPS: u32 = 40;

/// Sends numbers to others, directly and with timers and broadcasts, and migrates.
#[derive(Serialize, Deserialize)]
struct Walker {
    sum: u64,
    handled: u64,
    base: u64,
    timer: Option<Timer>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Step(u32, Published<Vec<u64>>),
    Add(u64, u32),
    Later(u64),
    Never,
    All(u64),
    Report,
}

impl Actor for Walker {
    type Index = Ix1;
    type Init = u64;
    type Message = Message;

    fn create(base: u64, _: &mut Context<'_, Self>) -> Self {
        Self { sum: base, handled: 0, base, timer: None }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        self.handled += 1;
        let me = cx.index().0;
        let all = cx.collection();
        match message {
            Message::Step(step, table) => {
                let table = cx.read(&table).unwrap();
                self.sum = self.sum.wrapping_add(table[me as usize % table.len()]);
                let to = all.at(Ix1((me * 7 + 3) % WALKERS));
                cx.send(&to, Message::Add(self.base + u64::from(step), 3));
                cx.send_after(Duration::from_millis(7), &to, Message::Later(u64::from(step)));
                if let Some(timer) = self.timer.take() {
                    cx.cancel(timer);
                }
                let far = Duration::from_secs(3600);
                self.timer = Some(cx.send_after(far, &to, Message::Never));
                if step % 5 == me as u32 % 5 {
                    let pes = cx.layout().pe_count();
                    cx.migrate_to(PeId((cx.pe().0 * 5 + 1 + step) % pes));
                }
                if me == step as i32 % WALKERS {
                    cx.broadcast(&all, Message::All(u64::from(step)));
                }
                cx.contribute(Op::Sum, 1_u64, To::main());
            }
            Message::Add(number, left) => {
                self.sum = self.sum.wrapping_add(number);
                if left > 0 {
                    let to: ActorRef<Self> = all.at(Ix1((me * 11 + 1) % WALKERS));
                    cx.send(&to, Message::Add(number + 1, left - 1));
                }
            }
            Message::Later(number) => self.sum = self.sum.wrapping_add(number << 20),
            Message::Never => self.sum = 0,
            Message::All(number) => self.sum = self.sum.wrapping_add(number << 40),
            Message::Report => {
                self.handled -= 1;
                cx.contribute(Op::Concat, self.sum, To::main());
                cx.contribute(Op::Concat, self.handled, To::main());
            }
        }
    }
}

/// A member that is bound to a walker. It contributes 1 for each message.
#[derive(Serialize, Deserialize)]
struct Totals;

impl Actor for Totals {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

#[derive(Serialize, Deserialize)]
struct At {
    step: u32,
    walkers: CollectionRef<Walker>,
    bound: CollectionRef<Totals>,
    table: Published<Vec<u64>>,
}

type Results = Arc<Mutex<Vec<String>>>;

fn job(results: &Results) -> Job {
    let results = results.clone();
    let note = move |text: String| results.lock().unwrap().push(text);
    let main = async move |grid: Grid| {
        let at: Option<At> = grid.restored().await?;
        if let Some(at) = &at {
            note(format!("restored at {}", at.step));
        }
        let (first, walkers, bound, table) = match at {
            Some(At { step, walkers, bound, table }) => {
                (step, grid.collection(walkers), grid.collection(bound), table)
            }
            None => {
                let walkers =
                    grid.create::<Walker>(Ix1::range(WALKERS as u32), |ix| ix.0 as u64).await?;
                let all = Ix1::range(WALKERS as u32);
                let bound = grid.create_bound::<Totals>(&walkers, all, |_| ()).await?;
                let table = grid.publish(&(0..17).map(|n| n * n).collect::<Vec<u64>>()).await?;
                (0, walkers, bound, table)
            }
        };
        for step in first..STEPS {
            let at = At { step, walkers: walkers.reference(), bound: bound.reference(), table };
            if let Progress::Postponed { reason } = grid.progress(&at).await? {
                note(format!("postponed: {reason}"));
            }
            walkers.broadcast(Message::Step(step, table));
            let count: u64 = walkers.reduction(Op::Sum).await?;
            assert_eq!(count, WALKERS as u64);
            bound.broadcast(());
            assert_eq!(bound.reduction::<u64>(Op::Sum).await?, WALKERS as u64);
        }
        grid.sleep(Duration::from_secs(1)).await?;
        walkers.broadcast(Message::Report);
        let sums: Vec<u64> = walkers.reduction(Op::Concat).await?;
        let handled: Vec<u64> = walkers.reduction(Op::Concat).await?;
        note(format!("sums {sums:?}"));
        note(format!("handled {handled:?}"));
        Ok(())
    };
    Job::new("walkers").actor::<Walker>().actor::<Totals>().main(main)
}

/// The notes of a run, without those about restorations.
fn totals(results: &Results) -> Vec<String> {
    let notes = results.lock().unwrap();
    notes.iter().filter(|note| !note.starts_with("restored")).cloned().collect()
}

/// The notes of a run without a checkpoint.
fn expected() -> Vec<String> {
    let results = Results::default();
    let report =
        Simulation::new(job(&results), grid("2x2x2,wan=8ms"), SimOptions::with_seed(3)).unwrap();
    assert_eq!(report.run().outcome, Ok(()));
    totals(&results)
}

#[test]
fn checkpoints_change_no_result() {
    let expected = expected();
    for seed in 0..4 {
        let results = Results::default();
        let job = job(&results).checkpoints(every(3));
        let spec = grid("2x2x2,wan=8ms");
        let report = Simulation::new(job, spec, SimOptions::with_seed(seed)).unwrap().run();
        assert_eq!(report.outcome, Ok(()));
        assert_eq!(totals(&results), expected, "seed {seed}");
    }
}

#[test]
fn a_job_continues_from_a_checkpoint_on_any_layout() {
    let expected = expected();
    let mut restored = 0;
    for seed in 0..12 {
        for text in ["2x2x2,wan=8ms", "2x1,wan=8ms", "3x2x4,wan=8ms"] {
            let results = Results::default();
            let spec = grid("2x2x2,wan=8ms");
            let stopped = job(&results).checkpoints(every(2));
            let simulation = Simulation::new(stopped, spec, SimOptions::with_seed(seed)).unwrap();
            let at = Time(40_000_000 + seed * 61_000_000);
            let Ok(halted) = simulation.run_until(at) else { panic!("it has ended before {at}") };
            let Some(image) = halted.checkpoint().unwrap() else { continue };
            results.lock().unwrap().clear();
            let spec = grid(text);
            let plan = RestorePlan::restart(image.layout(), spec.layout());
            let again = job(&results).checkpoints(every(2));
            let options = SimOptions::with_seed(seed + 100);
            let report = Simulation::restored(again, spec, options, (image, plan)).unwrap().run();
            assert_eq!(report.outcome, Ok(()), "seed {seed}, {text}");
            assert_eq!(totals(&results), expected, "seed {seed}, {text}");
            restored += 1;
        }
    }
    assert!(restored > 24, "{restored}");
}

#[test]
fn a_job_continues_on_more_nodes_than_have_kept_checkpoints() {
    let results = Results::default();
    let first = job(&results).checkpoints(every(2));
    let first = Simulation::new(first, grid("2x1x2,wan=8ms"), SimOptions::with_seed(1)).unwrap();
    let Ok(halted) = first.run_until(Time(700_000_000)) else { panic!("it has ended") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    results.lock().unwrap().clear();
    let spec = grid("2x2x2,wan=8ms");
    let plan = RestorePlan::restart(image.layout(), spec.layout());
    let (again, options) = (job(&results).checkpoints(every(2)), SimOptions::with_seed(2));
    let again = Simulation::restored(again, spec, options, (image, plan)).unwrap();
    assert_eq!(again.keeping(halted.stores).run().outcome, Ok(()));
    assert_eq!(totals(&results), expected());
}

#[test]
fn a_plan_for_a_larger_grid_is_refused() {
    let results = Results::default();
    let first = job(&results).checkpoints(every(2));
    let first = Simulation::new(first, grid("2x2x2,wan=8ms"), SimOptions::with_seed(1)).unwrap();
    let Ok(halted) = first.run_until(Time(700_000_000)) else { panic!("it has ended") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let plan = RestorePlan::restart(image.layout(), image.layout());
    let (again, options) = (job(&results).checkpoints(every(2)), SimOptions::with_seed(2));
    let refusal = Simulation::restored(again, grid("1x1x2"), options, (image, plan)).err().unwrap();
    let text = refusal.to_string();
    assert!(text.contains("the plan to restore it does not fit the layout"), "{text}");
}

#[test]
fn a_job_continues_without_any_of_its_nodes() {
    let expected = expected();
    let mut restored = 0;
    for seed in 0..24_u64 {
        let lost = seed as usize % 4;
        let results = Results::default();
        let spec = grid("2x2x2,wan=8ms");
        let first = job(&results).checkpoints(every(2));
        let options = SimOptions::with_seed(seed);
        let at = Time(300_000_000 + seed * 37_000_000);
        let halted = Simulation::new(first, spec.clone(), options).unwrap().run_until(at);
        let Ok(halted) = halted else { panic!("it has ended before {at}") };
        let Some(image) = gathered(&halted.stores, lost) else { continue };
        results.lock().unwrap().clear();
        let (left, nodes) = without(&spec, lost as u32);
        // The next node of the site has the copies.
        let holder = nodes[lost ^ 1].unwrap();
        let holders: Vec<_> = nodes.iter().map(|node| node.or(Some(holder))).collect();
        let plan = RestorePlan::recovery(&image, &left, &nodes, &holders).unwrap();
        let again = job(&results).checkpoints(every(2));
        let options = SimOptions::with_seed(seed + 100);
        let report = Simulation::restored(again, left, options, (image, plan)).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}, node {lost}");
        assert_eq!(totals(&results), expected, "seed {seed}, node {lost}");
        restored += 1;
    }
    assert!(restored > 16, "{restored}");
}

#[test]
fn encoding_and_decoding_take_as_long_as_the_rate_says() {
    let times = Arc::<Mutex<Vec<Time>>>::default();
    let encoding = Arc::<Mutex<Vec<Duration>>>::default();
    let job = || {
        let (times, encoding) = (times.clone(), encoding.clone());
        let note = move |report: &CheckpointReport| encoding.lock().unwrap().push(report.work);
        let main = async move |grid: Grid| {
            let restored: Option<u8> = grid.restored().await?;
            if restored.is_none() {
                grid.publish(&vec![7_u8; 1_000_000]).await?;
            }
            let now = grid.now().await?;
            times.lock().unwrap().push(now);
            grid.progress(&0_u8).await?;
            Ok(grid.sleep(Duration::from_secs(1000)).await?)
        };
        Job::new("one").main(main).checkpoints(every(1)).on_checkpoint(note)
    };
    let rate = Bandwidth::from_bits_per_second(4_000_000);
    let options = || SimOptions::with_seed(1).with_checkpoint_rate(rate);
    let until = Time(100_000_000_000);

    let first = Simulation::new(job(), grid("1x2"), options()).unwrap().run_until(until);
    let Ok(halted) = first else { panic!("it has ended") };
    let image = halted.checkpoint().unwrap().unwrap();
    let began = image.at();
    let plan = RestorePlan::restart(image.layout(), image.layout());
    let second = Simulation::restored(job(), grid("1x2"), options(), (image, plan)).unwrap();
    assert!(second.run_until(until).is_ok());

    let times = times.lock().unwrap();
    let [_, again] = times[..] else { panic!("{times:?}") };
    let encoding = encoding.lock().unwrap();
    let [encoding, encoding_again] = encoding[..] else { panic!("{encoding:?}") };
    // 1 MB at 0.5 MB/s.
    for took in [encoding, again.since(began), encoding_again] {
        assert!((2.0..2.1).contains(&took.as_secs_f64()), "{took:?}");
    }
}
