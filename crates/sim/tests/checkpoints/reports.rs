//! Reports of complete checkpoints, and warnings after a long time without one.

use crate::{every, grid};
use gridspan_runtime::{
    Actor, CheckpointEvery, CheckpointReport, Checkpoints, Context, Grid, Ix1, Job, Progress, Reply,
};
use gridspan_sim::{SimOptions, Simulation};
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Asks its neighbour a question. The neighbour answers when it receives `Answer`.
#[derive(Serialize, Deserialize)]
struct Asker {
    state: Vec<u8>,
    question: Option<Reply<()>>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Ask,
    Question(Reply<()>),
    Answer,
    Answered,
}

impl Actor for Asker {
    type Index = Ix1;
    type Init = u32;
    type Message = Message;

    fn create(bytes: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { state: vec![7; bytes as usize], question: None }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Ask => {
                let other = cx.collection().at(Ix1(1));
                cx.ask(&other, 60 * MINUTE, Message::Question, |_| Message::Answered);
            }
            Message::Question(reply) => self.question = Some(reply),
            Message::Answer => self.question.take().into_iter().for_each(|it| cx.reply(it, ())),
            Message::Answered => {}
        }
    }
}

/// Runs a job on two nodes. Returns its reports, and its warnings.
fn simulate(
    checkpoints: Checkpoints,
    main: impl AsyncFn(Grid) -> Result<(), gridspan_runtime::JobError> + Send + Sync + 'static,
) -> (Vec<CheckpointReport>, Vec<String>) {
    fn listener<T: Send + 'static>() -> (impl Fn(T) + Send + Sync, Receiver<T>) {
        let (tell, told) = channel();
        (move |value| tell.send(value).unwrap(), told)
    }
    let (on_report, reports) = listener();
    let (on_warning, warnings) = listener();
    let job = Job::new("asking")
        .actor::<Asker>()
        .checkpoints(checkpoints)
        .on_checkpoint(move |report| on_report(report.clone()))
        .on_warning(move |warning| on_warning(warning.to_string()))
        .restartable_main(main);
    let simulation = Simulation::new(job, grid("2x1,wan=10ms"), SimOptions::with_seed(1));
    simulation.unwrap().run().outcome.unwrap();
    (reports.into_iter().collect(), warnings.into_iter().collect())
}

#[test]
fn a_complete_checkpoint_is_reported_with_its_size_and_times() {
    const BYTES: u32 = 1_000_000;
    let (reports, _) = simulate(every(1), async |grid: Grid| {
        grid.create::<Asker>(Ix1::range(4), |_| BYTES).await?;
        grid.progress(&()).await?;
        grid.sleep(MINUTE).await?;
        Ok(())
    });
    let [report] = &reports[..] else { panic!("one checkpoint: {reports:?}") };
    assert_eq!(report.number, 1);
    assert!((4_000_000..4_010_000).contains(&report.bytes), "{report:?}");
    // Nothing is in flight, so the stop takes two round trips of 20 ms: the rounds in which the
    // coordinator asks.
    assert!((40..41).contains(&report.stopped.as_millis()), "{report:?}");
    // The copy of 2 MB takes 16 ms at 1 Gbit/s and 10 ms of latency. The order to send it, or its
    // confirmation, takes 10 ms.
    assert!((36..37).contains(&report.stored.as_millis()), "{report:?}");
}

#[test]
fn copies_to_another_site_keep_to_their_bandwidth() {
    // Each actor is one segment.
    const BYTES: u32 = 5_000_000;
    let stored = |checkpoints: Checkpoints| {
        let (reports, _) = simulate(checkpoints, async |grid: Grid| {
            grid.create::<Asker>(Ix1::range(4), |_| BYTES).await?;
            grid.progress(&()).await?;
            grid.sleep(MINUTE).await?;
            Ok(())
        });
        let [report] = &reports[..] else { panic!("one checkpoint: {reports:?}") };
        report.stored.as_millis()
    };
    // 10 MB of each node take 80 ms at 1 Gbit/s, and two crossings.
    assert!((100..110).contains(&stored(every(1))), "{}", stored(every(1)));
    // At 100 Mbit/s a segment takes 400 ms. The last segment, which has no actor, is sent after
    // two such segments: after 800 ms.
    let limited = every(1).with_copy_rate("100mbit".parse().unwrap());
    assert!((820..850).contains(&stored(limited)), "{}", stored(limited));
}

#[test]
fn a_question_that_postpones_checkpoints_for_long_causes_one_warning() {
    let interval = Checkpoints::every(CheckpointEvery::Time(Duration::from_secs(20)));
    let (reports, warnings) = simulate(interval, async |grid: Grid| {
        let askers = grid.create::<Asker>(Ix1::range(2), |_| 10).await?;
        askers.member(Ix1(0)).send(Message::Ask);
        for _ in 0..150 {
            grid.sleep(Duration::from_secs(1)).await?;
            let postponed = grid.progress(&()).await?;
            assert!(matches!(postponed, Progress::Postponed { .. }), "{postponed:?}");
        }
        askers.member(Ix1(1)).send(Message::Answer);
        grid.sleep(Duration::from_secs(1)).await?;
        let made = grid.progress(&()).await?;
        assert!(matches!(made, Progress::Taken { .. }), "{made:?}");
        grid.sleep(Duration::from_secs(1)).await?;
        Ok(())
    });
    assert_eq!(reports.len(), 1, "{reports:?}");
    let late: Vec<&String> =
        warnings.iter().filter(|text| text.contains("have been postponed for 60 s")).collect();
    assert_eq!(late.len(), 1, "{warnings:?}");
    assert!(late[0].contains("1 question of an actor waits for an answer"), "{late:?}");
}
