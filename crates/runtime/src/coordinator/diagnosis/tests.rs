//! Diagnoses of whole jobs on two PEs of one node, packet by packet.

use crate::address::id::COORDINATOR;
use crate::coordinator::{CoordinatorCommand, CoordinatorEvent, CoordinatorHost};
use crate::error::JobError;
use crate::job::grid::Grid;
use crate::job::main_handle::MainPort;
use crate::job::program::Program;
use crate::message::{Content, Control, Diagnosis, MainRequest, MainStatus, Packet, WaitKind};
use crate::pe::{Action, Pe, PeCommand, PendingWork, PlantedFault, TurnOutput};
use crate::reduce::Op;
use crate::{Actor, Context, Ix1, Job, MainFuture, Reply, To};
use gridspan_balance::Refine;
use gridspan_topology::{Layout, NodeId, PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

/// Number of steps within which each job should end.
const STEPS_MAX: usize = 100_000;
const MEMBERS: i32 = 6;
const FOREVER: Duration = Duration::MAX;

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Contribute,
    Sync,
    /// Pass this on to the next member, this number of times.
    Pass(u32),
    /// Send three messages to the member of this index.
    Thrice(i32),
    Later(Duration),
    Answer(Reply<u64>),
    Ignore(Reply<u64>),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Msg;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        let me = cx.me();
        match message {
            Msg::Contribute | Msg::Pass(0) => cx.contribute(Op::Sum, 1_u64, To::main()),
            Msg::Sync => cx.at_sync(),
            Msg::Pass(times) => {
                let next = cx.collection().at(Ix1((cx.index().0 + 1) % MEMBERS));
                cx.send(&next, Msg::Pass(times - 1));
            }
            Msg::Thrice(to) => {
                let to = cx.collection().at(Ix1(to));
                (0..3).for_each(|_| cx.send(&to, Msg::Contribute));
            }
            Msg::Later(delay) => _ = cx.send_after(delay, &me, Msg::Contribute),
            Msg::Answer(reply) => cx.reply(reply, 7),
            Msg::Ignore(_) => {}
        }
    }
}

fn job() -> Job {
    Job::new("diagnosed").actor::<Cell>()
}

/// The PEs, the coordinator and main, and the packets between them, in sending order.
struct Lab {
    pes: Vec<Pe>,
    host: CoordinatorHost,
    main: Option<MainFuture>,
    actions: Arc<Mutex<Vec<Action>>>,
    packets: VecDeque<(PeId, PeId, Packet)>,
    now: Time,
    /// All packets but those of diagnoses.
    log: Vec<String>,
    /// The answers to requests, by number.
    found: Found,
}

impl Lab {
    fn new(job: Job) -> Self {
        let found = Arc::<Mutex<Vec<_>>>::default();
        let told = found.clone();
        let job = job.on_diagnosis(move |number, diagnosis| {
            told.lock().unwrap().push((number, diagnosis.clone()));
        });
        let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
        let program = Program::new(job, layout).unwrap();
        let pes = program.layout().pes().map(|pe| program.pe(pe)).collect();
        let host = program.coordinator_host(NodeId(0));
        let actions = Arc::<Mutex<Vec<Action>>>::default();
        let queue = actions.clone();
        let port: MainPort = Arc::new(move |action| queue.lock().unwrap().push(action));
        let main = Some(program.begin_main(port, Arc::default()));
        let (packets, now, log) = (VecDeque::new(), Time::ZERO, Vec::new());
        Self { pes, host, main, actions, packets, now, log, found }
    }

    fn request(&mut self, number: u64) {
        let commands = self.host.handle(self.now, CoordinatorEvent::Diagnose(number));
        self.obey(commands);
    }

    /// Polls main, and delivers the next packet. If there is none, lets a millisecond pass.
    fn step(&mut self) {
        self.poll_main();
        match self.packets.pop_front() {
            Some((from, COORDINATOR, packet)) => {
                let event = CoordinatorEvent::Packet { from, packet };
                let commands = self.host.handle(self.now, event);
                self.obey(commands);
            }
            Some((from, to, packet)) => self.turn(to, |pe| pe.handle(from, packet)),
            None => {
                self.now += Duration::from_millis(1);
                let commands = self.host.wake(self.now);
                self.obey(commands);
                [PeId(0), PeId(1)].into_iter().for_each(|pe| self.turn(pe, |_| {}));
            }
        }
    }

    fn poll_main(&mut self) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let Some(main) = &mut self.main else { return };
        if let Poll::Ready(outcome) = main.as_mut().poll(&mut context) {
            assert_eq!(outcome, Ok(()));
            self.main = None;
        }
        let actions = std::mem::take(&mut *self.actions.lock().unwrap());
        for action in actions {
            self.turn(PeId(0), |pe| pe.act(action));
        }
    }

    fn turn(&mut self, pe: PeId, act: impl FnOnce(&mut Pe)) {
        let machine = &mut self.pes[pe.0 as usize];
        machine.set_now(self.now);
        act(machine);
        let mut sent = Vec::new();
        loop {
            while machine.run(10) > 0 {}
            machine.finish_turn();
            let TurnOutput { commands, packets, .. } = machine.take_output();
            sent.extend(packets);
            if !commands.iter().any(|command| matches!(command, PeCommand::Diagnose)) {
                break;
            }
            machine.act(Box::new(|core| core.diagnosed(MainStatus::WaitsInside)));
        }
        sent.into_iter().for_each(|(to, packet)| self.send(pe, to, packet));
    }

    fn obey(&mut self, commands: Vec<CoordinatorCommand>) {
        for command in commands {
            if let CoordinatorCommand::Send { to, packet } = command {
                self.send(COORDINATOR, to, packet);
            }
        }
    }

    fn send(&mut self, from: PeId, to: PeId, packet: Packet) {
        let text = match &packet.0 {
            Content::Control(control) => match **control {
                Control::Diagnose { .. } | Control::Diagnosed { .. } => None,
                ref control => Some(format!("{control:?}")),
            },
            _ => Some("messages".to_owned()),
        };
        self.log.extend(text.map(|text| format!("from {from} to {to}: {text}")));
        self.packets.push_back((from, to, packet));
    }

    /// Lets the job run for this number of milliseconds, and returns its diagnosis.
    fn diagnosis_after(mut self, millis: u64) -> Diagnosis {
        let begin = Time::ZERO + Duration::from_millis(millis);
        let mut is_requested = false;
        for _ in 0..STEPS_MAX {
            if self.now >= begin && !std::mem::replace(&mut is_requested, true) {
                self.request(1);
            }
            if let Some((1, diagnosis)) = self.found.lock().unwrap().pop() {
                return diagnosis;
            }
            self.step();
        }
        panic!("there should be a diagnosis");
    }
}

/// The results of a run that tests compare: its packets, and the activity and pending work of PEs.
type Outcome = (Vec<String>, Vec<(u64, PendingWork)>);

/// Runs a job of messages, questions, timers, reductions and quiescence to the end of its main,
/// with requests for a diagnosis at these steps. Returns its results and the number of answers.
fn run_with_requests(steps: &[usize]) -> (Outcome, usize) {
    let mut lab = Lab::new(job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        for round in 1..=4 {
            cells.broadcast(Msg::Pass(20 * round));
            assert_eq!(cells.reduction::<u64>(Op::Sum).await?, MEMBERS as u64);
        }
        let answer: u64 = cells.member(Ix1(5)).ask(FOREVER, Msg::Answer).await?;
        assert_eq!(answer, 7);
        grid.sleep(Duration::from_millis(1500)).await?;
        cells.broadcast(Msg::Later(Duration::from_millis(700)));
        grid.quiescence().await?;
        grid.sleep(Duration::from_secs(5)).await?;
        Ok(())
    }));
    let mut step = 0;
    while lab.main.is_some() {
        assert!(step < STEPS_MAX, "main should have ended");
        if steps.contains(&step) {
            lab.request(step as u64);
        }
        lab.step();
        step += 1;
    }
    let counts = lab.pes.iter().map(|pe| (pe.activity(), pe.pending_work())).collect();
    let answers = lab.found.lock().unwrap().len();
    ((lab.log, counts), answers)
}

#[test]
fn diagnoses_change_neither_the_packets_of_a_job_nor_its_counts() {
    let (undisturbed, none) = run_with_requests(&[]);
    assert_eq!(none, 0);
    assert!(undisturbed.0.len() > 100, "{} packets", undisturbed.0.len());

    for steps in [vec![0, 3, 40], vec![200, 201, 2500], (0..3000).step_by(50).collect()] {
        let (diagnosed, answers) = run_with_requests(&steps);
        assert_eq!(answers, steps.len(), "each request has an answer");
        let differing = diagnosed.0.iter().zip(&undisturbed.0).find(|(one, other)| one != other);
        assert_eq!(differing, None, "requests at {steps:?}");
        assert!(diagnosed == undisturbed, "requests at {steps:?}");
    }
}

/// A job in which all members but the first get this message, and main waits for a reduction.
fn all_but_one(message: Msg) -> Job {
    job().main(async move |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        for index in 1..MEMBERS {
            cells.member(Ix1(index)).send(message.clone());
        }
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    })
}

#[test]
fn the_cause_of_each_planted_stall_is_named_first() {
    let absent = job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(77)).send(Msg::Contribute);
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });
    let unanswered = job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(1)).ask::<u64>(FOREVER, Msg::Ignore).await?;
        Ok(())
    });
    let timer = job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(1)).send(Msg::Later(Duration::from_secs(1000)));
        grid.quiescence().await?;
        Ok(())
    });
    let lost = job().planted_fault(PlantedFault::MessageLost).main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        // These two are on different PEs.
        cells.member(Ix1(0)).send(Msg::Thrice(MEMBERS - 1));
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });
    let asleep = job().main(async |grid: Grid| Ok(grid.sleep(Duration::from_secs(100)).await?));
    let cases = [
        (all_but_one(Msg::Contribute), WaitKind::Reduction, "5 of 6 have contributed, waits for"),
        (
            all_but_one(Msg::Sync).strategy(Refine),
            WaitKind::SyncPoint,
            "5 of 6 have reached, waits",
        ),
        (absent, WaitKind::AbsentMember, "Cell 0x4d of collection 0"),
        (unanswered, WaitKind::Question, "main asked"),
        (lost, WaitKind::HeldMessage, "Cell 0x5 of collection 0 waits for message 1 from "),
        (timer, WaitKind::Quiescence, "1 message is to be sent later, in 99"),
        (asleep, WaitKind::Sleep, "main sleeps for another 9"),
    ];
    for (job, kind, text) in cases {
        let diagnosis = Lab::new(job).diagnosis_after(100);
        assert_eq!(diagnosis.cause().map(|wait| wait.kind), Some(kind), "{diagnosis}");
        assert!(diagnosis.summary().contains(text), "{diagnosis}");
        assert_eq!((diagnosis.pes, diagnosis.unanswered), (2, 0));
    }
}

#[test]
fn members_that_are_missing_are_named() {
    let summary = Lab::new(all_but_one(Msg::Contribute)).diagnosis_after(50).summary();
    assert!(summary.starts_with("reduction 0 over collection 0, to which 5 of 6"), "{summary}");
    assert!(summary.ends_with("Cell 0x0 of collection 0"), "{summary}");
}

#[test]
fn a_reduction_over_a_section_is_not_taken_for_one_over_its_collection() {
    let waiting = job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        let section = cells.section(3, [Ix1(0), Ix1(1)]);
        cells.section_reduction::<u64>(&section, Op::Sum).await?;
        Ok(())
    });

    let summary = Lab::new(waiting).diagnosis_after(100).summary();

    let wanted = "main waits for reduction 0 over section 3 of collection 0, to which no member \
                  has contributed";
    assert_eq!(summary, wanted);
}

#[test]
fn a_job_that_goes_on_waits_for_nothing_for_long() {
    let endless = job().main(async |grid: Grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        loop {
            cells.broadcast(Msg::Contribute);
            cells.reduction::<u64>(Op::Sum).await?;
            grid.sleep(Duration::from_millis(2)).await?;
        }
    });

    let diagnosis = Lab::new(endless).diagnosis_after(100);

    assert_eq!(diagnosis.cause(), None, "{diagnosis}");
    assert!(diagnosis.handled.is_some_and(|handled| handled > 1000), "{diagnosis:?}");
    assert!(diagnosis.summary().starts_with("nothing waits for long: 0 of 2 PEs"), "{diagnosis}");
}

type Found = Arc<Mutex<Vec<(u64, Diagnosis)>>>;

/// A coordinator of a job with a time limit of four seconds, and the answers of its diagnoses.
fn coordinator() -> (CoordinatorHost, Found) {
    let limit = Duration::from_secs(4);
    let job = job().main(async |_| Ok::<(), JobError>(())).time_limit(limit);
    let Lab { mut host, found, .. } = Lab::new(job);
    host.set_stopwatch(Arc::new(|| 0_u64));
    (host, found)
}

/// The controls that the commands send, each with its receiver.
fn sent(commands: Vec<CoordinatorCommand>) -> Vec<(PeId, Control)> {
    let control = |command| match command {
        CoordinatorCommand::Send { to, packet: Packet(Content::Control(control)) } => {
            Some((to, *control))
        }
        _ => None,
    };
    commands.into_iter().filter_map(control).collect()
}

fn tell(host: &mut CoordinatorHost, now: Time, from: PeId, control: Control) {
    let event = CoordinatorEvent::Packet { from, packet: Packet::control(control) };
    host.handle(now, event);
}

fn answer(round: u64) -> Control {
    Control::Diagnosed { round, findings: Box::default() }
}

fn seconds(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

#[test]
fn a_pe_that_does_not_answer_within_two_seconds_is_named_with_its_handler() {
    let (mut host, found) = coordinator();
    let asked = sent(host.handle(Time::ZERO, CoordinatorEvent::Diagnose(7)));
    assert!(matches!(asked[..], [(_, Control::Diagnose { round: 1, .. }), _]), "{asked:?}");
    let again = sent(host.handle(Time::ZERO, CoordinatorEvent::Diagnose(8)));
    assert!(again.is_empty(), "it is under way");

    tell(&mut host, Time::ZERO, PeId(0), answer(1));
    let handler = Some(("a handler of Cell".to_owned(), 0));
    tell(&mut host, Time::ZERO, PeId(1), Control::Inside { handler });
    let asked = sent(host.wake(seconds(1)));
    assert!(matches!(asked[..], [(_, Control::Diagnose { round: 2, .. }), _]), "{asked:?}");
    tell(&mut host, seconds(1), PeId(0), answer(1));
    tell(&mut host, seconds(1), PeId(0), answer(2));
    assert!(found.lock().unwrap().is_empty(), "an answer is missing");
    host.wake(seconds(2));

    let found = std::mem::take(&mut *found.lock().unwrap());
    let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [7, 8]);
    let wanted = "pe1 (node0 at site a) has been inside a handler of Cell for 2 s; 1 PE has \
                  nothing to do, of 2";
    assert_eq!(found[0].1.summary(), wanted);
    // The next diagnosis asks all PEs again.
    let asked = sent(host.handle(seconds(2), CoordinatorEvent::Diagnose(9)));
    assert!(matches!(asked[..], [(_, Control::Diagnose { round: 3, .. }), _]), "{asked:?}");
}

#[test]
fn a_main_that_waits_for_a_link_does_not_count_as_computing() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let program = Program::new(job().main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let mut host = program.coordinator_host(NodeId(0));
    let request = Control::MainRequest { slot: 1, request: MainRequest::LinkChange };
    tell(&mut host, Time::ZERO, PeId(0), request);

    let coordinator = host.coordinator().unwrap();
    let diagnosis = coordinator.diagnosis(std::iter::empty(), MainStatus::WaitsInside);

    assert_eq!(diagnosis.summary(), "main waits for the next change of a link");
}

#[test]
fn the_time_limit_ends_the_job_with_a_diagnosis() {
    let (mut host, found) = coordinator();
    let asked = sent(host.wake(seconds(4)));
    assert!(matches!(asked[..], [(_, Control::Diagnose { round: 1, .. }), _]), "{asked:?}");
    tell(&mut host, seconds(4), PeId(0), answer(1));
    host.wake(seconds(5));
    tell(&mut host, seconds(5), PeId(0), answer(2));

    host.wake(seconds(6));

    let outcome = host.coordinator().unwrap().outcome().cloned();
    let Some(Err(JobError::TimeLimit { waits, .. })) = outcome else { panic!("{outcome:?}") };
    assert!(waits.starts_with("pe1 (node0 at site a) has not answered; 1 PE has"), "{waits}");
    assert!(found.lock().unwrap().is_empty(), "no listener has asked");
}

#[cfg(feature = "net")]
#[test]
fn the_time_limit_counts_the_earlier_runs_of_a_job_that_goes_back() {
    let job = job().main(async |_| Ok::<(), JobError>(())).time_limit(Duration::from_secs(4));
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let program = Program::new(job, layout).unwrap().having_used(Duration::from_secs(3));
    let mut host = program.coordinator_host(NodeId(0));
    host.set_stopwatch(Arc::new(|| 0_u64));

    let asked = sent(host.wake(seconds(1)));

    assert!(matches!(asked[..], [(_, Control::Diagnose { round: 1, .. }), _]), "{asked:?}");
}
