//! Tests of checkpoints that take too long.

use super::deadline::STEP_MAX;
use super::draining::questions_without_answer;
use super::image::MANIFEST_BYTES_MAX;
use super::*;
use crate::address::collection::Map;
use crate::address::id::{CollectionId, KindId, MAIN_PE, SectionId};
use crate::coordinator::CoordinatorPart;
use crate::coordinator::event::{CoordinatorCommand, CoordinatorEvent};
use crate::coordinator::host::CoordinatorHost;
use crate::job::program::Program;
use crate::message::{
    Content, Contribution, Control, DrainCounts, Image, MainRequest, Packet, PartSummary,
    ReductionGroup, RestorePlan,
};
use crate::reduce::{Op, Partial, Target, Value};
use crate::{Actor, Context, Ix1, Job};
use gridspan_topology::{Layout, Time};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

/// Messages about checkpoints, in short, and their receivers.
type Messages = Vec<(u32, String)>;
/// Answers to main, by slot.
type Answers = Vec<(u64, Result<u64, String>)>;

fn layout() -> Layout {
    Layout::new(vec![("a".to_owned(), vec![2])])
}

/// The coordinator of a job on two PEs, in real time, and its warnings.
struct Coordination {
    host: CoordinatorHost,
    warnings: Arc<Mutex<Vec<String>>>,
    now: Time,
    /// Controls that the coordinator has sent since the last `look`.
    sent: Vec<(PeId, Control)>,
    /// Number of answers to main, and of manifests, which main's PE counts as handled.
    handled: u64,
}

impl Coordination {
    fn new() -> Self {
        Self::of(|job| Program::new(job, layout()).unwrap())
    }

    /// The coordination of the program that `bind` makes of the job.
    fn of(bind: impl FnOnce(Job) -> Program) -> Self {
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let told = warnings.clone();
        let job = Job::new("late")
            .actor::<Idle>()
            .on_warning(move |warning| told.lock().unwrap().push(warning.to_string()))
            .main(async |_| Ok::<(), JobError>(()));
        let mut host = bind(job).coordinator_host(NodeId(0));
        host.set_stopwatch(Arc::new(|| 0_u64));
        Self { host, warnings, now: Time::ZERO, sent: Vec::new(), handled: 0 }
    }

    fn obey(&mut self, commands: Vec<CoordinatorCommand>) {
        let control = |command| match command {
            CoordinatorCommand::Send { to, packet: Packet(Content::Control(control)) } => {
                Some((to, *control))
            }
            _ => None,
        };
        let sent: Vec<_> = commands.into_iter().filter_map(control).collect();
        let is_counted = |(_, control): &&(PeId, Control)| match control {
            Control::Reply { .. } => true,
            Control::Checkpoint(message) => message.is_manifest(),
            _ => false,
        };
        self.handled += sent.iter().filter(is_counted).count() as u64;
        self.sent.extend(sent);
    }

    fn tell(&mut self, from: PeId, control: Control) {
        let event = CoordinatorEvent::Packet { from, packet: Packet::control(control) };
        let commands = self.host.handle(self.now, event);
        self.obey(commands);
    }

    /// Runs the timers until this second.
    fn pass_until(&mut self, second: u64) {
        let until = Time(second * 1_000_000_000);
        while let Some(due) = self.host.next_wakeup().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let commands = self.host.wake(self.now);
            self.obey(commands);
        }
        self.now = until;
    }

    /// The first warning that begins with `start`.
    fn warning_about(&self, start: &str) -> Option<String> {
        let warnings = self.warnings.lock().unwrap();
        warnings.iter().find(|warning| warning.starts_with(start)).cloned()
    }

    fn ask(&mut self, slot: u64) {
        self.ask_with(slot, Bytes::new());
    }

    fn ask_with(&mut self, slot: u64, progress: Bytes) {
        let request = MainRequest::Checkpoint { progress, phases: 0, pause: None };
        self.tell(MAIN_PE, Control::MainRequest { slot, request });
    }

    fn say(&mut self, from: PeId, message: CheckpointMessage) {
        self.tell(from, Control::Checkpoint(Box::new(message)));
    }

    fn drained(&mut self, from: PeId, round: u64) {
        let processed = if from == MAIN_PE { self.handled } else { 0 };
        self.counted(from, round, DrainCounts { processed, ..DrainCounts::default() });
    }

    /// Lets a PE answer a round of the last checkpoint.
    fn counted(&mut self, from: PeId, round: u64, counts: DrainCounts) {
        let checkpoint = self.host.coordinator().unwrap().checkpoints.last;
        self.say(from, CheckpointMessage::Drained { checkpoint, round, counts });
    }

    fn encoded(&mut self, from: PeId, checkpoint: u64) {
        let part = PartSummary { segments: vec![8], ..PartSummary::default() };
        self.say(from, CheckpointMessage::Encoded { checkpoint, part, took: Duration::ZERO });
    }

    /// The messages about checkpoints and the answers to main since the last look.
    fn look(&mut self) -> (Messages, Answers) {
        let (mut messages, mut answers) = (Vec::new(), Vec::new());
        for (to, control) in std::mem::take(&mut self.sent) {
            match control {
                Control::Checkpoint(message) => messages.push((
                    to.0,
                    match *message {
                        CheckpointMessage::Drain { checkpoint, round, captures: false } => {
                            format!("drain {checkpoint}.{round}")
                        }
                        CheckpointMessage::Drain { checkpoint, round, captures: true } => {
                            format!("drain {checkpoint}.{round}, capture")
                        }
                        CheckpointMessage::Captured { checkpoint, .. } => {
                            format!("captured {checkpoint}")
                        }
                        CheckpointMessage::Resume { checkpoint } => format!("resume {checkpoint}"),
                        other => format!("{other:?}"),
                    },
                )),
                Control::Reply { slot, answer } => {
                    let answer: Result<(u64, Duration), String> = answer.open().unwrap();
                    answers.push((slot, answer.map(|(number, _)| number)));
                }
                // Questions of the stall watch.
                _ => {}
            }
        }
        (messages, answers)
    }

    /// The manifest of the checkpoint that is complete since the last look.
    fn manifest(&mut self) -> Bytes {
        let manifest = |(_, control)| match control {
            Control::Checkpoint(message) => match *message {
                CheckpointMessage::Complete { manifest, .. } => Some(manifest),
                _ => None,
            },
            _ => None,
        };
        self.sent.drain(..).find_map(manifest).expect("a checkpoint is complete")
    }

    fn assert_told(&mut self, text: &str) {
        let both = [0, 1].map(|pe| (pe, text.to_owned()));
        let (messages, answers) = self.look();
        assert_eq!((messages, answers), (both.to_vec(), vec![]));
    }

    /// Checks that both PEs continue with a checkpoint, and that main learns its number.
    fn assert_captured(&mut self, checkpoint: u64, slot: u64) {
        let (messages, answers) = self.look();
        assert_eq!(messages, [0, 1].map(|pe| (pe, format!("captured {checkpoint}"))));
        assert_eq!(answers, [(slot, Ok(checkpoint))]);
    }

    /// Checks that both PEs continue, and that main learns why.
    fn assert_given_up(&mut self, checkpoint: u64, slot: u64, expected: &str) {
        let (messages, answers) = self.look();
        assert_eq!(messages, [0, 1].map(|pe| (pe, format!("resume {checkpoint}"))));
        let [(answered, Err(reason))] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(*answered, slot);
        assert!(reason.contains(expected), "{reason}");
    }

    /// Checks that the request is refused at once, and no PE stops.
    fn assert_refused(&mut self, slot: u64, expected: &str) {
        let (messages, answers) = self.look();
        assert!(messages.is_empty(), "{messages:?}");
        let [(answered, Err(reason))] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(*answered, slot);
        assert!(reason.contains(expected), "{reason}");
    }
}

const PE_1: PeId = PeId(1);

#[test]
fn a_pe_that_does_not_stop_in_time_lets_the_others_continue_and_is_named() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    job.drained(MAIN_PE, 1);
    let handler = Some(("a handler of Idle".to_owned(), 1_000_000_000));
    job.tell(PE_1, Control::Inside { handler });

    job.pass_until(STEP_MAX.as_secs() - 1);
    let (messages, answers) = job.look();
    assert!(messages.is_empty() && answers.is_empty(), "{messages:?} {answers:?}");
    let warning = job.warnings.lock().unwrap().clone();
    assert_eq!(warning.len(), 1, "once while it waits: {warning:?}");
    assert!(warning[0].starts_with("the job stands still for checkpoint 1: pe1"), "{warning:?}");

    job.pass_until(STEP_MAX.as_secs());

    job.assert_given_up(1, 3, "has been inside a handler of Idle for");
    let warning = job.warnings.lock().unwrap().last().cloned().unwrap();
    assert!(warning.starts_with("checkpoint 1 is given up, and the job goes on: "), "{warning}");
}

#[test]
fn no_checkpoint_begins_before_late_pes_have_answered() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    job.drained(MAIN_PE, 1);
    job.pass_until(STEP_MAX.as_secs());
    job.assert_given_up(1, 3, "pe1");

    job.ask(4);
    job.assert_refused(4, "the checkpoint before was given up, and pe1");
    let is_to_pause = |job: &Coordination| job.host.coordinator().unwrap().is_to_pause();
    assert!(is_to_pause(&job), "no rebalance begins");
    // Its answer to the first checkpoint does not count for the next, whose rounds have the same
    // numbers.
    job.drained(PE_1, 1);
    assert_eq!(job.look(), (vec![], vec![]));
    assert!(!is_to_pause(&job));
    job.ask(5);
    job.assert_told("drain 2.1");
    job.drained(MAIN_PE, 1);
    assert_eq!(job.look(), (vec![], vec![]), "the other PE has not answered");
    job.drained(PE_1, 1);
    job.assert_told("drain 2.2, capture");
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, 2));
    job.assert_captured(2, 5);
}

#[test]
fn replicas_that_end_late_begin_again_before_the_next_checkpoint() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    let stops_pes = |job: &Coordination| job.host.coordinator().unwrap().checkpoints.stops_pes();
    assert!(stops_pes(&job));
    let counts = |replicas| DrainCounts { replicas, ..DrainCounts::default() };
    job.counted(MAIN_PE, 1, counts(1));
    job.pass_until(STEP_MAX.as_secs());
    job.assert_given_up(1, 3, "pe1");
    job.counted(PE_1, 1, counts(2));
    job.ask(4);
    assert_eq!(job.look(), (vec![], vec![]), "they have not begun again");
    assert!(!stops_pes(&job), "PEs go on meanwhile");
    // The next checkpoint waits for them until its deadline, which is twice as long now.
    job.pass_until(3 * STEP_MAX.as_secs() - 1);
    assert_eq!(job.look(), (vec![], vec![]));
    job.pass_until(3 * STEP_MAX.as_secs());
    job.assert_given_up(2, 4, "the start of replicas");
    job.ask(5);
    for missing in [3, 2, 1] {
        assert_eq!(job.look(), (vec![], vec![]), "{missing} have not begun again");
        job.say(MAIN_PE, CheckpointMessage::Rebuilt);
    }
    job.assert_told("drain 3.1");
}

#[test]
fn no_part_is_captured_for_a_checkpoint_that_will_be_postponed() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    for (round, told) in [(1, Some("drain 1.2")), (2, None)] {
        for pe in [MAIN_PE, PE_1] {
            job.counted(pe, round, DrainCounts { unmovable: 1, ..DrainCounts::default() });
        }
        told.into_iter().for_each(|told| job.assert_told(told));
    }
    job.assert_given_up(1, 3, "wait within an async method");
}

#[test]
fn parts_are_captured_again_if_something_was_in_flight_in_the_round_before() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    let counts = |created, processed| DrainCounts { created, processed, ..DrainCounts::default() };
    let (first, second) = (counts(0, 0), counts(5, 5));

    job.counted(MAIN_PE, 1, first);
    job.counted(PE_1, 1, first);
    job.assert_told("drain 1.2, capture");
    // A message has arrived and was passed on between the rounds.
    job.counted(MAIN_PE, 2, first);
    job.counted(PE_1, 2, second);
    job.assert_told("drain 1.3, capture");
    job.counted(MAIN_PE, 3, first);
    job.counted(PE_1, 3, second);

    job.assert_captured(1, 3);
}

#[test]
fn an_update_of_a_pe_ends_a_round_if_nothing_is_in_flight_any_more() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    let created = DrainCounts { created: 2, ..DrainCounts::default() };
    let waiting = |waiting| DrainCounts { waiting, ..DrainCounts::default() };
    let nothing = (vec![], vec![]);

    // Main's PE is near. Two messages of the other one arrive after its answer.
    job.counted(MAIN_PE, 1, waiting(0));
    job.counted(MAIN_PE, 1, waiting(1));
    job.counted(PE_1, 1, created);
    assert_eq!(job.look(), nothing);
    job.counted(MAIN_PE, 1, waiting(2));
    job.assert_told("drain 1.2, capture");
    job.pass_until(1);
    assert_eq!(job.look(), nothing, "the pause before the next round is over");

    // PEs that capture their parts report no changes, and late updates do not count.
    job.counted(MAIN_PE, 1, waiting(3));
    job.counted(MAIN_PE, 2, waiting(2));
    job.counted(MAIN_PE, 2, waiting(3));
    job.counted(PE_1, 2, created);

    job.assert_captured(1, 3);
}

/// Lets both PEs encode a checkpoint, and PE 0 keep its part.
fn half_stored(job: &mut Coordination, slot: u64, checkpoint: u64) {
    job.ask(slot);
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.encoded(pe, checkpoint));
    let (_, answers) = job.look();
    assert_eq!(answers, [(slot, Ok(checkpoint))]);
    job.say(MAIN_PE, CheckpointMessage::Kept { checkpoint, part: MAIN_PE });
}

/// Lets both PEs answer a checkpoint before they have a manifest of at least this size.
fn answer_before_the_manifest(progress: usize) {
    let mut job = Coordination::new();
    job.ask_with(3, vec![0_u8; progress].into());
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    for pe in [MAIN_PE, PE_1] {
        job.encoded(pe, 1);
        job.say(pe, CheckpointMessage::Kept { checkpoint: 1, part: pe });
    }
    let (messages, _) = job.look();
    assert!(messages.iter().any(|(_, text)| text.starts_with("Complete")), "it is under way");
    job.handled -= 1;

    job.ask(4);
    job.assert_told("drain 2.1");
    for round in 1..=3 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
        assert_eq!(job.look(), (vec![], vec![]), "the next round begins after a pause");
        job.pass_until(round);
        job.assert_told(&format!("drain 2.{}", round + 1));
    }
    // Main's PE handles the manifest.
    job.handled += 1;
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, 4));
    job.assert_told("drain 2.5, capture");
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, 5));
    job.assert_captured(2, 4);
}

#[test]
fn the_next_checkpoint_waits_until_a_large_manifest_has_arrived() {
    answer_before_the_manifest(64 << 10);
}

#[test]
fn the_next_checkpoint_waits_until_a_small_manifest_has_arrived() {
    answer_before_the_manifest(0);
}

#[test]
fn a_checkpoint_whose_manifest_is_too_large_names_what_takes_most_of_it() {
    let mut job = Coordination::new();
    job.ask_with(3, vec![0_u8; MANIFEST_BYTES_MAX].into());
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, 1));
    job.look();
    [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, 2));
    job.assert_given_up(1, 3, "6291456 of them for the state of main");
}

/// The coordination of a job that goes back to checkpoint 1, after which its folder has two.
fn gone_back() -> Coordination {
    let mut before = Coordination::new();
    half_stored(&mut before, 3, 1);
    before.say(PE_1, CheckpointMessage::Kept { checkpoint: 1, part: PE_1 });
    let image = Image::new(before.manifest()).unwrap();
    Coordination::of(|job| {
        let plan = RestorePlan::restart(image.layout(), &layout());
        Program::restored(job, layout(), image, plan).unwrap().of_run(8, 3)
    })
}

#[test]
fn a_copy_that_cannot_be_made_again_after_a_loss_causes_one_warning() {
    let mut job = gone_back();
    job.say(MAIN_PE, CheckpointMessage::Restored { items: 0 });
    job.assert_told("resume 1");
    for checkpoint in [9, 1, 1] {
        let reason = "memory is scarce".to_owned();
        job.say(PE_1, CheckpointMessage::NotKept { checkpoint, reason });
    }

    assert_eq!(job.look(), (vec![(MAIN_PE.0, "LacksCopy".to_owned())], vec![]), "the job goes on");
    let missing =
        "a copy of a part of checkpoint 1 is missing until the next one: memory is scarce";
    assert_eq!(*job.warnings.lock().unwrap(), [missing]);
}

#[test]
fn a_job_that_goes_back_does_not_use_the_numbers_of_later_checkpoints_again() {
    let mut job = gone_back();

    job.say(MAIN_PE, CheckpointMessage::Restored { items: 0 });
    job.assert_told("resume 1");
    job.ask(4);
    job.assert_told("drain 4.1");
}

/// An actor that checkpoints leave out.
#[derive(Serialize, Deserialize)]
struct Server;

impl Actor for Server {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

#[test]
fn a_checkpoint_leaves_out_the_reductions_of_the_members_that_it_leaves_out() {
    let mut job =
        Coordination::of(|job| Program::new(job.transient::<Server>(), layout()).unwrap());
    let types = job.host.coordinator().unwrap().common.actor_types();
    for (number, name) in (0..).zip(["Idle", "Server"]) {
        let kind = types.iter().position(|it| it.name.ends_with(name)).unwrap();
        let (kind, map, shape, members) = (KindId(kind as u16), Map::Block, None, 2);
        let request = MainRequest::Create { kind, map, shape, members, created: 9 };
        job.tell(MAIN_PE, Control::MainRequest { slot: 8, request });
        // One of the two members has contributed.
        job.tell(
            MAIN_PE,
            Control::Contribution(Contribution {
                group: ReductionGroup::Collection(CollectionId(number)),
                sequence: 0,
                count: 1,
                expected: 0,
                op: Op::Sum,
                target: Target::Main,
                partial: Partial::Plain(Value::U64(7)),
            }),
        );
    }
    job.sent.clear();

    half_stored(&mut job, 3, 1);
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 1, part: PE_1 });

    let image = Image::new(job.manifest()).unwrap();
    let coordinator = CoordinatorPart::decode(&image.inner().coordinator).unwrap();
    let infos = image.inner().collections.iter().map(|(info, _)| info);
    let are_under_way: Vec<bool> =
        infos.map(|info| coordinator.operations(info).unwrap().is_under_way).collect();
    assert_eq!(are_under_way, [true, false]);
}

/// A job whose groups of `Idle` can change their size, with these collections of `Idle` in this
/// order. One member of a section, the oldest of whose collections is this one, has contributed.
fn with_contribution(maps: [Map; 2], oldest: CollectionId) -> Coordination {
    let bind = |job: Job| {
        let job = job.resizable_group::<Idle>(|_| (), |_, _, _| ());
        Program::new(job, layout()).unwrap()
    };
    let mut job = Coordination::of(bind);
    let types = job.host.coordinator().unwrap().common.actor_types();
    let kind = types.iter().position(|it| it.name.ends_with("Idle")).unwrap();
    for map in maps {
        let (kind, shape, members) = (KindId(kind as u16), None, 2);
        let request = MainRequest::Create { kind, map, shape, members, created: 9 };
        job.tell(MAIN_PE, Control::MainRequest { slot: 8, request });
    }
    let contribution = Contribution {
        group: ReductionGroup::Section(SectionId { collection: oldest, name: 5 }),
        sequence: 0,
        count: 1,
        expected: 3,
        op: Op::Sum,
        target: Target::Main,
        partial: Partial::Plain(Value::U64(7)),
    };
    job.tell(MAIN_PE, Control::Contribution(contribution));
    job.sent.clear();
    job
}

#[test]
fn a_section_that_may_have_members_of_a_resizable_group_postpones_a_checkpoint() {
    let (array, group) = (Map::Block, Map::PerPe);
    // A group that is older than the oldest collection of a section has no member in it.
    for (maps, oldest, is_postponed) in [([array, group], 0, true), ([group, array], 1, false)] {
        let mut job = with_contribution(maps, CollectionId(oldest));
        job.ask(3);
        for round in 1..=2 {
            assert!(job.look().1.is_empty(), "round {round}");
            [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
            job.pass_until(round);
        }

        match is_postponed {
            true => job.assert_given_up(1, 3, "the group of"),
            false => assert_eq!(job.look().1, [(3, Ok(1))]),
        }
    }
}

#[test]
fn questions_that_postpone_a_checkpoint_are_those_of_main_or_of_actors() {
    let reason = |questions, questions_of_main| {
        let counts = DrainCounts { questions, questions_of_main, ..DrainCounts::default() };
        questions_without_answer(&counts)
    };

    assert_eq!(reason(1, 0), "1 question of an actor waits for an answer");
    assert_eq!(reason(2, 2), "2 questions of main wait for an answer");
    let both = "1 question of main and 2 questions of actors wait for an answer";
    assert_eq!(reason(3, 1), both);
}

#[test]
fn counts_of_faulty_pes_are_added_without_overflow() {
    let mut job = Coordination::new();
    job.ask(3);
    job.assert_told("drain 1.1");
    for pe in [MAIN_PE, PE_1] {
        let counts = DrainCounts {
            created: u64::MAX,
            processed: u64::MAX,
            waiting: u64::MAX,
            replicas: u64::MAX,
            ..DrainCounts::default()
        };
        job.counted(pe, 1, counts);
    }
    job.assert_told("drain 1.2, capture");
}

mod storing;
