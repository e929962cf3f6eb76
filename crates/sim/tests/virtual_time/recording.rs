//! Recordings in virtual time: the same for the same seed, and with the causes of all handlers.

use crate::common::comb::{Comb, Nodes, take_runs};
use gridspan_record::{Bin, MainAnswer, MainWait, PeRecord, TASK, encode_records};
use gridspan_runtime::pe::{RecordSettings, Records};
use gridspan_runtime::{
    Actor, AskError, Context, Grid, InStep, Ix1, Job, Op, PeId, Reply, SectionRef, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

const MS: u64 = 1_000_000;
const RUNNERS: i32 = 8;
const LAPS: u64 = 12;
/// Time of a lap.
const LAP: Duration = Duration::from_micros(300);
/// Binary logarithm of the number of tasks.
const TEETH: u32 = 8;
/// Time of a task.
const TASK_COST: Duration = Duration::from_micros(100);

/// Passes laps on to the next runner, at another PE.
#[derive(Serialize, Deserialize)]
struct Runner {
    seen: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Baton {
    Start,
    Lap(u64),
    /// Multicast to a section of the runners: ask the next one a question.
    Half(SectionRef<Runner>),
    Question(Reply<u64>),
    Answer(u64),
    Report,
}

impl Actor for Runner {
    type Index = Ix1;
    type Init = ();
    type Message = Baton;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { seen: 0 }
    }

    fn handle(&mut self, baton: Baton, cx: &mut Context<'_, Self>) {
        self.seen += 1;
        let runners = cx.collection();
        let next = runners.at(Ix1((cx.index().0 + 1) % RUNNERS));
        match baton {
            Baton::Start => cx.send_with(InStep(0), &next, Baton::Lap(0)),
            Baton::Lap(lap) => {
                cx.charge(LAP);
                if lap + 1 < LAPS {
                    cx.send_with(InStep(lap + 1), &next, Baton::Lap(lap + 1));
                } else if cx.index() == Ix1(0) {
                    let half = runners.section(1, (0..RUNNERS / 2).map(Ix1));
                    cx.multicast(&half.clone(), Baton::Half(half));
                }
            }
            Baton::Half(_) => {
                let answered = |answer: Result<u64, AskError>| Baton::Answer(answer.unwrap_or(0));
                cx.ask(&next, Duration::from_secs(1), Baton::Question, answered);
            }
            Baton::Question(reply) => cx.reply(reply, self.seen),
            Baton::Answer(seen) => self.seen += seen,
            Baton::Report => cx.contribute(Op::Sum, self.seen, To::main()),
        }
    }
}

/// Runs the job on two sites, and returns what was recorded.
fn record(node_bytes: u64, processors: Option<u32>) -> (SimReport, Vec<PeRecord>) {
    let records = Records::new(RecordSettings::new(node_bytes));
    let job = Job::new("relay race").actor::<Runner>().search::<Comb>().recording(&records).main(
        async move |grid| {
            let runners = grid.create::<Runner>(Ix1::range(RUNNERS as u32), |_| ()).await?;
            runners.broadcast(Baton::Start);
            grid.quiescence().await?;
            let pool = grid.search_pool().await?;
            let nodes = pool.run_on(PeId(3), Comb::new(TEETH, TASK_COST)).await?;
            assert_eq!(nodes, Nodes(1 << TEETH));
            runners.broadcast(Baton::Report);
            let _: u64 = runners.reduction(Op::Sum).await?;
            Ok(())
        },
    );
    let spec = GridSpec::from_emulate("2x2x2,wan=2ms").unwrap();
    let options = SimOptions::with_seed(7).with_processors(processors);
    let report = Simulation::new(job, spec, options).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    (report, records.take())
}

fn number_of(record: &PeRecord, name: &str) -> u16 {
    record.types.iter().position(|known| known.ends_with(name)).unwrap() as u16
}

#[test]
fn the_recording_of_a_seed_is_the_same_byte_for_byte() {
    for (bytes, processors) in [(16 << 20, None), (70_000, None), (16 << 20, Some(1))] {
        let [one, other] = [(), ()].map(|()| record(bytes, processors).1);
        assert_eq!(one.len(), 8);
        assert_eq!(encode_records(&one), encode_records(&other), "{bytes} {processors:?}");
    }
}

#[test]
fn causes_lead_to_spans_that_sent_before_the_message_was_received() {
    let (_, records) = record(16 << 20, None);
    let (mut caused, mut crossed) = (0, 0);
    for record in &records {
        assert_eq!((record.kept_every, record.dropped_spans), (1, 0));
        for (span, cause) in record.spans.iter().filter_map(|it| Some((it, it.cause.as_ref()?))) {
            assert!(cause.sent_ns <= cause.received_ns, "{span:?}");
            assert!(cause.received_ns <= span.begin_ns, "{span:?}");
            let Some(number) = cause.span else { continue };
            let sender = &records[cause.pe as usize].spans;
            let sender = sender.iter().find(|sender| sender.number == number).unwrap();
            assert!(sender.begin_ns <= cause.sent_ns, "{sender:?} {span:?}");
            caused += 1;
            if cause.pe / 4 != record.pe / 4 {
                crossed += 1;
                assert!(cause.received_ns - cause.sent_ns >= 2 * MS, "{span:?}");
                assert!(cause.bytes > 0, "{span:?}");
            }
        }
    }
    // Two of eight runners pass each lap to the other site.
    let laps = u64::try_from(RUNNERS).unwrap() * LAPS;
    assert!(caused >= laps && crossed >= 2 * LAPS, "{caused} {crossed}");
}

#[test]
fn the_answers_for_which_main_waits_are_recorded_on_its_pe() {
    let (report, records) = record(16 << 20, None);
    assert!(records[1..].iter().all(|record| record.answers.is_empty()));
    let answers = &records[0].answers;
    let times: Vec<u64> = answers.iter().map(|answer| answer.answered_ns).collect();
    assert!(times.is_sorted() && times.iter().all(|at| *at <= report.virtual_time.as_nanos()));
    let took = |wait: MainWait| -> Vec<u64> {
        answers.iter().filter(|answer| answer.wait == wait).map(MainAnswer::took_ns).collect()
    };
    // A round trip between the sites takes 4 ms. All PEs confirm that they have created runners,
    // and then workers; and they answer two rounds in a row once no message is left.
    let created = took(MainWait::EachPe);
    assert!(created.len() >= 2, "{answers:?}");
    assert!(created.iter().all(|took| (4 * MS..8 * MS).contains(took)), "{created:?}");
    assert!(matches!(took(MainWait::Quiescence)[..], [took] if took > 8 * MS), "{answers:?}");
    assert!(matches!(took(MainWait::Contributions)[..], [took] if took >= 4 * MS), "{answers:?}");
    // The worker that had the first task answers once all tasks have run.
    let told = answers.iter().rfind(|answer| answer.wait == MainWait::Actor).unwrap();
    assert!(told.span.is_some(), "{told:?}");
}

#[test]
fn handlers_of_all_kinds_of_messages_have_a_cause_with_a_span() {
    let (_, records) = record(16 << 20, None);
    let runner = number_of(&records[0], "Runner");
    let spans = records.iter().flat_map(|record| &record.spans);
    let spans: Vec<_> = spans.filter(|span| span.kind == runner).collect();
    let laps = spans.iter().filter(|span| span.step.is_some());
    assert!(laps.clone().all(|span| span.cause.as_ref().is_some_and(|it| it.span.is_some())));
    assert_eq!(laps.count() as u64, u64::try_from(RUNNERS).unwrap() * LAPS);
    // Handlers of messages without a step: a multicast to four members, a question of each of them,
    // and the four answers as messages. All have the span of a handler as their cause.
    let others = spans.iter().filter(|span| span.step.is_none());
    let of_handlers = others.filter(|span| span.cause.as_ref().is_some_and(|it| it.span.is_some()));
    assert_eq!(of_handlers.count(), 4 + 4 + 4);
}

#[test]
fn times_of_handlers_and_tasks_add_up() {
    take_runs();
    let (report, records) = record(16 << 20, None);
    // Idle PEs run copies of a few tasks of others.
    let runs = take_runs();
    let (mut laps, mut tasks) = (0, (0, 0));
    for record in &records {
        let runner = number_of(record, "Runner");
        let spans = |kind| record.spans.iter().filter(move |span| span.kind == kind);
        laps += spans(runner).filter(|span| span.duration_ns == 300_000).count() as u64;
        let here = runs.iter().filter(|run| run.pe.0 == record.pe).count();
        assert_eq!(spans(TASK).count(), here, "{}", record.pe);
        tasks.0 += here;
        tasks.1 += spans(TASK).map(|span| span.duration_ns).sum::<u64>();
        let total = record.totals.iter().find(|total| total.number == runner).unwrap();
        assert_eq!(total.total_ns, spans(runner).map(|span| span.duration_ns).sum::<u64>());
        let busy = |bin: &Bin| bin.busy_ns.iter().map(|(_, ns)| *ns).sum::<u64>();
        let all = |bin: &Bin| busy(bin) + bin.idle_ns + bin.network_ns + bin.waited_ns;
        let time: u64 = record.bins.iter().map(all).sum();
        // The job ends on other PEs at another time than on main's.
        assert!(time <= report.virtual_time.0 + MS, "{time} of {:?}", report.virtual_time);
        let until = record.spans.last().map_or(0, |span| span.end_ns());
        assert!(time >= until, "{time} of {until}");
        assert_eq!(record.bins.iter().map(|bin| bin.steps).max(), Some(LAPS), "{}", record.pe);
    }
    assert_eq!(laps, u64::try_from(RUNNERS).unwrap() * LAPS);
    assert!(tasks.0 >= 1 << TEETH, "{tasks:?}");
    assert_eq!(tasks, (runs.len(), runs.len() as u64 * 100_000));
}

#[test]
fn waiting_for_a_shared_processor_is_neither_busy_nor_idle() {
    let waited = |processors| {
        let (_, records) = record(16 << 20, processors);
        records.iter().flat_map(|record| &record.bins).map(|bin| bin.waited_ns).sum::<u64>()
    };
    assert_eq!(waited(None), 0);
    assert!(waited(Some(1)) > MS, "two PEs share a processor");
}

/// Sets a timer for itself, once.
#[derive(Serialize, Deserialize)]
struct Sleeper;

impl Actor for Sleeper {
    type Index = Ix1;
    type Init = ();
    /// Whether to set the timer.
    type Message = bool;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, sleeps: bool, cx: &mut Context<'_, Self>) {
        if sleeps {
            let me = cx.collection().at(cx.index());
            cx.send_after(LAP, &me, false);
        }
    }
}

#[test]
fn messages_of_timers_have_no_cause() {
    let records = Records::new(RecordSettings::new(16 << 20));
    let job = Job::new("sleep").actor::<Sleeper>().recording(&records).main(async move |grid| {
        let sleepers = grid.create::<Sleeper>(Ix1::range(4), |_| ()).await?;
        sleepers.broadcast(true);
        grid.quiescence().await?;
        Ok(())
    });
    let spec = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));

    let records = records.take();

    let sleeper = number_of(&records[0], "Sleeper");
    let spans = records.iter().flat_map(|record| &record.spans);
    let spans: Vec<_> = spans.filter(|span| span.kind == sleeper).collect();
    assert_eq!(spans.iter().filter(|span| span.cause.is_some()).count(), 4, "broadcasts");
    assert!(spans.len() >= 8, "{spans:?}");
    // The recording states which handler has set the timer instead.
    let lap = u64::try_from(LAP.as_nanos()).unwrap();
    for record in &records {
        let span = |number| record.spans.iter().find(|span| span.number == number).unwrap();
        for timed in &record.timed {
            let [set, handled] = [timed.set_by, timed.number].map(span);
            assert!(set.actor == handled.actor && handled.cause.is_none(), "{set:?} {handled:?}");
            // The delay counts from the start of the turn, which is before its first handler.
            assert!(handled.begin_ns >= set.begin_ns + lap / 2, "{set:?} {handled:?}");
            assert_eq!(timed.delay_ns, lap);
        }
    }
    assert_eq!(records.iter().map(|record| record.timed.len()).sum::<usize>(), 4);
}

#[test]
fn a_sleep_that_main_gives_up_is_no_answer() {
    let records = Records::new(RecordSettings::new(16 << 20));
    let job = Job::new("sleep").recording(&records).main(async move |grid: Grid| {
        let mut given_up = Box::pin(grid.sleep(Duration::from_millis(10)));
        let has_begun = poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx).is_pending())).await;
        assert!(has_begun);
        drop(given_up);
        grid.sleep(Duration::from_millis(30)).await?;
        Ok(())
    });
    let spec = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));

    let records = records.take();

    let slept = records[0].answers.iter().filter(|answer| answer.wait == MainWait::Time);
    let slept: Vec<u64> = slept.map(MainAnswer::took_ns).collect();
    assert!(matches!(slept[..], [took] if took > 20 * MS), "{slept:?}");
}

/// Moves to another PE, and greets member 1 of its collection when it arrives there.
#[derive(Serialize, Deserialize)]
struct Traveller;

impl Actor for Traveller {
    type Index = Ix1;
    type Init = ();
    /// The PE to move to, or none in a greeting.
    type Message = Option<PeId>;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, to: Option<PeId>, cx: &mut Context<'_, Self>) {
        if let Some(pe) = to {
            cx.migrate_to(pe);
        }
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        let other = cx.collection().at(Ix1(1));
        cx.send(&other, None);
    }
}

#[test]
fn a_message_sent_on_arrival_has_a_span_of_its_sender() {
    let records = Records::new(RecordSettings::new(16 << 20));
    let job = Job::new("travel").actor::<Traveller>().recording(&records).main(async move |grid| {
        let travellers = grid.create::<Traveller>(Ix1::range(2), |_| ()).await?;
        travellers.member(Ix1(0)).send(Some(PeId(3)));
        grid.quiescence().await?;
        Ok(())
    });
    let spec = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run();
    assert_eq!(report.outcome, Ok(()));

    let records = records.take();

    let traveller = number_of(&records[0], "Traveller");
    let spans = records.iter().flat_map(|record| &record.spans);
    let causes = spans.filter(|span| span.kind == traveller).filter_map(|span| span.cause.as_ref());
    let greeting = causes.filter(|cause| cause.pe == 3).collect::<Vec<_>>();
    let [greeting] = greeting[..] else { panic!("{greeting:?}") };
    let number = greeting.span.unwrap();
    let sender = records[3].spans.iter().find(|span| span.number == number).unwrap();
    assert_eq!(sender.kind, traveller);
}
