//! Finds what waits on a PE, without changing its state; see `coordinator/diagnosis.rs`.
//!
//! A PE answers at once, between two handlers, whether it is idle or not. The answer takes time
//! proportional to the state of the PE, and its size is bounded.

use super::Pe;
use super::core::Core;
use super::delivery::{Channels, broadcasts_of};
use crate::address::id::{ActorId, COORDINATOR, CollectionId, MAIN_PE};
use crate::message::pending_work::NAMED_MAX;
use crate::message::{Control, Findings, MainStatus, ReductionGroup, Wait, WaitKind, Waits};
use crate::pe::collective::is_stream;
use crate::pe::command::PeCommand;
use crate::pe::members::member::Member;

impl Pe {
    /// Returns the waits on this PE, and its members that are missing from the reductions and sync
    /// points in `about`.
    pub(crate) fn findings(&self, about: &[(ReductionGroup, u64)]) -> Findings {
        self.core.findings(about)
    }
}

impl Core {
    /// Answers the coordinator. On main's PE, the driver adds the status of main first.
    pub(in crate::pe) fn handle_diagnose(&mut self, round: u64, about: Vec<(ReductionGroup, u64)>) {
        if self.me == MAIN_PE {
            self.looks.diagnosed = Some((round, about));
            self.commands.push(PeCommand::Diagnose);
            return;
        }
        let findings = Box::new(self.findings(&about));
        self.post(COORDINATOR, Control::Diagnosed { round, findings });
    }

    /// Answers the coordinator from main's PE, unless it has answered already.
    pub fn diagnosed(&mut self, main: MainStatus) {
        if let Some((round, about)) = self.looks.diagnosed.take() {
            let findings = Findings { main: Some(main), ..self.findings(&about) };
            let findings = Box::new(findings);
            self.post(COORDINATOR, Control::Diagnosed { round, findings });
        }
    }

    fn findings(&self, about: &[(ReductionGroup, u64)]) -> Findings {
        let ready: u64 = self.queues.iter().map(|queue| queue.len() as u64).sum();
        let mut waits = Waits::default();
        for &(group, number) in about {
            waits.add_if_any(self.missing_from(group, number));
        }
        waits.add_if_any(self.held_messages());
        self.add_unreceived(&mut waits);
        self.add_questions(&mut waits);
        waits.add_if_any(self.open_tasks());
        self.add_timers(&mut waits);
        Findings {
            waits,
            created: self.created,
            processed: self.processed,
            ready,
            busy: u64::from(ready > 0),
            fullest: (ready > 0).then_some((ready, self.me)),
            main: None,
        }
    }

    /// The first members here that have not contributed to a reduction, or not reached a sync
    /// point. The coordinator knows their number. The members of a section are not known here.
    fn missing_from(&self, group: ReductionGroup, number: u64) -> Wait {
        let is_missing = |member: &&Member| match group {
            ReductionGroup::Collection(id) => {
                member.id.collection == id && member.reductions <= number
            }
            ReductionGroup::Sync(id) => member.id.collection == id && member.syncs <= number,
            ReductionGroup::Section(_) => false,
        };
        let local = self.collections.get(group.collection());
        let members = local.and_then(|local| self.members.get(local.info.kind.index()));
        let members = members.into_iter().flatten().flatten().filter(is_missing);
        let primary = members.filter(|member| !self.replicas.is_secondary(member.id));
        let wait = Wait::new(group.wait_kind(), 0).about(group.subject(number));
        primary.take(NAMED_MAX).fold(wait, |wait, member| wait.such_as(self.name_of(member.id)))
    }

    /// Messages and broadcasts that wait for earlier ones.
    fn held_messages(&self) -> Wait {
        let [at_tombstones, ..] = self.delivery.waiting();
        let count = at_tombstones + self.early_broadcasts();
        let mut wait = Wait::new(WaitKind::HeldMessage, count);
        for member in self.members.iter().flatten().flatten() {
            let Some(channels) = member.channels.as_deref() else { continue };
            wait.count += channels.held.len() as u64;
            if wait.examples.len() < NAMED_MAX
                && let Some((&first, _)) = channels.held.first_key_value()
            {
                wait = wait.such_as(self.awaited_by(member, channels, first));
            }
        }
        let early = self.collections.values().filter(|local| !local.broadcasts.early.is_empty());
        for local in early.take(NAMED_MAX) {
            let (next, id) = (local.broadcasts.next, local.info.id.0);
            wait =
                wait.such_as(format!("{} waits for broadcast {next} of collection {id}", self.me));
        }
        wait
    }

    /// Names the message or broadcast that the first held message of a member waits for.
    fn awaited_by(
        &self,
        member: &Member,
        channels: &Channels,
        (source, channel, held): (ActorId, i32, u64),
    ) -> String {
        let name = self.name_of(member.id);
        let is_broadcast = source == broadcasts_of(member.id.collection);
        let next = match is_broadcast {
            true => member.broadcasts,
            false => channels.expected.get((source, channel)).unwrap_or(0),
        };
        let source = self.source_name(source);
        match (is_broadcast, next < held) {
            (true, true) => format!("{name} waits for broadcast {next} of its collection"),
            (true, false) => format!("{name} waits for messages sent before broadcast {held}"),
            (false, true) => format!("{name} waits for message {next} from {source}"),
            (false, false) => {
                format!("{name} waits for a broadcast sent before message {held} from {source}")
            }
        }
    }

    /// Messages without a receiver here: for members that do not exist or that are on their way,
    /// and for collections that are not known yet.
    fn add_unreceived(&self, waits: &mut Waits) {
        let mut absent = Wait::new(WaitKind::AbsentMember, self.statistics.dead_letters);
        for &id in &self.looks.absent_members {
            absent = absent.such_as(self.name_of(id));
        }
        let mut moving = (self.departing.len() + self.arriving.len()) as u64;
        for (id, messages) in self.delivery.awaited_messages() {
            if self.is_stranded(id) {
                absent.count += messages;
                absent = absent.such_as(self.name_of(id));
            } else {
                moving += messages;
            }
        }
        let [.., early] = self.delivery.waiting();
        waits.add_if_any(absent);
        waits.add_if_any(Wait::new(WaitKind::Move, moving));
        waits.add_if_any(Wait::new(WaitKind::EarlyPacket, early));
    }

    /// Questions without an answer. Questions to pools count as tasks.
    fn add_questions(&self, waits: &mut Waits) {
        let mut questions = Wait::new(WaitKind::Question, 0);
        let mut tasks = Wait::new(WaitKind::Task, 0);
        let mut quiescence = Wait::new(WaitKind::Quiescence, 0);
        for question in self.waits.questions() {
            let (by, seconds) =
                (self.source_name(question.by), self.now.since(question.at).as_secs());
            match question.to {
                None => quiescence = quiescence.such_as(by),
                Some(to) => match self.tasks_of(to.collection) {
                    Some(task) => {
                        let at = format!("{by} waits for a task of type {task} on pe{}", key(to));
                        tasks = tasks.such_as(at);
                    }
                    None => {
                        questions.count += 1;
                        questions.seconds = questions.seconds.max(seconds);
                        if questions.examples.len() < NAMED_MAX {
                            let asked = format!("{by} asked {} {seconds} s ago", self.name_of(to));
                            questions = questions.such_as(asked);
                        }
                    }
                },
            }
        }
        waits.add_if_any(questions);
        waits.add_if_any(tasks);
        waits.add_if_any(quiescence);
    }

    /// The tasks of pools here.
    fn open_tasks(&self) -> Wait {
        let mut wait = Wait::new(WaitKind::Task, 0);
        for (&pool, hooks) in &self.membership.pools {
            let open = hooks.open;
            if open.roots + open.frames + open.ready > 0 {
                wait.count += open.roots;
                let place = format!("{} ({})", self.me, self.place_name());
                let task = self.tasks_of(pool).unwrap_or("an unknown type");
                wait = wait.such_as(format!(
                    "on {place}, {} of type {task} handed in, {} waiting for others, {} ready",
                    open.roots, open.frames, open.ready
                ));
            }
        }
        wait
    }

    /// Delayed messages of actors, and sleeps of main.
    fn add_timers(&self, waits: &mut Waits) {
        let mut timers = Wait::new(WaitKind::Timer, 0);
        for (id, message) in self.timers.delayed() {
            if timers.count == 0 {
                timers.seconds = id.0.since(self.now).as_secs();
            }
            timers.count += 1;
            if timers.examples.len() < NAMED_MAX {
                timers = timers.such_as(self.name_of(message.receiver()));
            }
        }
        waits.add_if_any(timers);
        if let Some(until) = self.looks.asleep_until() {
            let seconds = until.since(self.now).as_secs();
            waits.add(Wait::new(WaitKind::Sleep, 1).for_seconds(seconds));
        }
    }

    /// The name of a sender in a diagnosis.
    fn source_name(&self, id: ActorId) -> String {
        match id.collection {
            CollectionId::SYSTEM if key(id) == u128::from(MAIN_PE.0) => "main".to_owned(),
            CollectionId::SYSTEM => format!("pe{}", key(id)),
            _ if is_stream(id) => "unordered broadcasts".to_owned(),
            _ => self.name_of(id),
        }
    }
}

fn key(id: ActorId) -> u128 {
    id.key.0
}
