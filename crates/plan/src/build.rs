//! Makes the graph of a job from its recording.

mod beside;

use crate::barriers::{self, Done};
use crate::costs::{Costs, Message, median};
use crate::dependencies::{self, Needs, Received};
use crate::error::ForecastError;
use crate::recorded_grid::RecordedGrid;
use crate::trace::{Firing, Handling, JobTrace, TracedActor};
use gridspan_record::{DriverKind, Recording, Span, TASK};
use std::collections::{BTreeMap, BTreeSet};

/// Largest share of the spans whose sender may be missing.
const MISSING_MAX: f64 = 0.01;
/// Largest number of rounds that are distinguished; messages of later ones belong to none.
const ROUNDS_MAX: u32 = 1 << 20;
/// A type has rounds if the median of its actors' numbers of firings is at least this.
const FIRINGS_MIN: f64 = 3.0;

const MAIN_PE: u32 = 0;

/// A span, with its sender.
struct Seen<'a> {
    span: &'a Span,
    pe: u32,
    kind: u32,
    actor: u32,
    /// The span that sent its message, or set the timer that did.
    sender: Option<u32>,
    /// Time of the timer that sent its message, if one did.
    delay_ns: Option<u64>,
    /// Number of spans of messages that it sent.
    sends: u32,
}

/// Spans of actors, in the order of time, and the actors.
struct Spans<'a> {
    seen: Vec<Seen<'a>>,
    kinds: Vec<String>,
    actors: Vec<TracedActor>,
    /// The spans of each actor, in order.
    by_actor: Vec<Vec<u32>>,
}

/// Returns the graph of a recording that has all spans, and the costs of its messages.
pub(crate) fn build(recording: &Recording) -> Result<(JobTrace, Costs), ForecastError> {
    let grid = RecordedGrid::of(&recording.header);
    let is_simulated = recording.header.driver == DriverKind::Simulated;
    let mut spans = Spans::of(recording);
    spans.find_senders(recording)?;
    let messages = spans.messages();
    let costs = Costs::of(recording, &messages, &grid, is_simulated);
    let (mut handlings, mut firings, firing_at) = spans.parts(recording, &costs);
    let beside = spans.beside(recording, &spans.places(), &grid, is_simulated);
    let (barriers, barrier_of) =
        barriers::barriers(beside, &spans.done(&grid), &grid, is_simulated);
    for (handling, barrier) in handlings.iter_mut().zip(barrier_of) {
        handling.barrier = barrier;
    }
    let has_steps = handlings.iter().any(|handling| handling.step.is_some());
    let rounds = match has_steps {
        true => rounds_of_steps(&mut handlings),
        false => rounds_of_firings(&spans.actors, spans.kinds.len(), &mut firings, &handlings),
    };
    let round_done_ns = spans.round_done_ns(&handlings, &firings, &firing_at, rounds);
    let Spans { kinds, actors, .. } = spans;
    let pes = grid.pes();
    let trace = JobTrace {
        kinds,
        actors,
        handlings,
        firings,
        barriers,
        pes,
        rounds,
        round_done_ns,
        has_steps,
    };
    Ok((trace, costs))
}

impl<'a> Spans<'a> {
    /// Collects the spans of actors.
    fn of(recording: &'a Recording) -> Self {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        let mut seen = Vec::new();
        for record in &recording.pes {
            for span in record.spans.iter().filter(|span| span.kind < TASK && span.actor != 0) {
                let next = names.len() as u32;
                let kind = *names.entry(record.type_name(span.kind)).or_insert(next);
                let pe = record.pe;
                let (sender, delay_ns) = (None, None);
                seen.push(Seen { span, pe, kind, actor: 0, sender, delay_ns, sends: 0 });
            }
        }
        seen.sort_by_key(|seen| (seen.span.begin_ns, seen.pe, seen.span.number));
        let mut first: BTreeMap<u64, (u32, u32, u64)> = BTreeMap::new();
        for Seen { span, pe, kind, .. } in &seen {
            first.entry(span.actor).or_insert((*kind, *pe, span.number));
        }
        let mut order: Vec<_> = first.into_iter().map(|(hash, place)| (place, hash)).collect();
        order.sort_unstable();
        let number = |(at, (_, hash)): (usize, &((u32, u32, u64), u64))| (*hash, at as u32);
        let numbers: BTreeMap<u64, u32> = order.iter().enumerate().map(number).collect();
        let mut by_actor = vec![Vec::new(); order.len()];
        for (at, seen) in seen.iter_mut().enumerate() {
            seen.actor = numbers[&seen.span.actor];
            by_actor[seen.actor as usize].push(at as u32);
        }
        let actor = |((kind, pe, _), _)| TracedActor { kind, pe, firings: 0..0 };
        let actors = order.into_iter().map(actor).collect();
        let mut kinds = vec![String::new(); names.len()];
        for (name, number) in names {
            kinds[number as usize] = name.to_owned();
        }
        Self { seen, kinds, actors, by_actor }
    }

    /// The spans by PE and number.
    fn places(&self) -> BTreeMap<(u32, u64), u32> {
        let key = |(at, seen): (usize, &Seen<'_>)| ((seen.pe, seen.span.number), at as u32);
        self.seen.iter().enumerate().map(key).collect()
    }

    /// Finds the span that sent the message of each span.
    fn find_senders(&mut self, recording: &Recording) -> Result<(), ForecastError> {
        let places = self.places();
        self.find_timers(recording, &places);
        let mut missing = 0;
        for at in 0..self.seen.len() {
            let Some(cause) = &self.seen[at].span.cause else { continue };
            let Some(number) = cause.span else { continue };
            match places.get(&(cause.pe, number)) {
                // A cause is earlier, unless clocks are wrong.
                Some(&sender) if (sender as usize) < at => {
                    self.seen[at].sender = Some(sender);
                    self.seen[sender as usize].sends += 1;
                }
                _ => missing += 1,
            }
        }
        let share = f64::from(missing) / self.seen.len().max(1) as f64;
        if share > MISSING_MAX {
            if self.wait_for_tasks(recording) > missing / 2 {
                return Err(ForecastError::ActorsOfTasks);
            }
            return Err(ForecastError::Sampled { percent: (share * 100.0).ceil() as u32 });
        }
        Ok(())
    }

    /// Finds the spans that set timers. The message of a timer to another actor counts as sent by
    /// the runtime: on another grid, the timer and its receiver may be on different PEs.
    fn find_timers(&mut self, recording: &Recording, places: &BTreeMap<(u32, u64), u32>) {
        for record in &recording.pes {
            for timed in &record.timed {
                let find = |number| places.get(&(record.pe, number)).copied();
                let (Some(at), Some(setter)) = (find(timed.number), find(timed.set_by)) else {
                    continue;
                };
                let [seen, by] = [at, setter].map(|at| &self.seen[at as usize]);
                if seen.actor != by.actor || seen.span.cause.is_some() || setter >= at {
                    continue;
                }
                // The wait is longer than the delay if the PE was busy when the timer was due, and
                // shorter if the handler set the timer before its end.
                let waited_ns = seen.span.begin_ns.saturating_sub(by.span.end_ns());
                let delay_ns = timed.delay_ns.min(waited_ns);
                let seen = &mut self.seen[at as usize];
                (seen.sender, seen.delay_ns) = (Some(setter), Some(delay_ns.max(1)));
                self.seen[setter as usize].sends += 1;
            }
        }
    }

    /// Number of spans whose message a task has sent.
    fn wait_for_tasks(&self, recording: &Recording) -> u32 {
        let mut tasks = BTreeSet::new();
        for record in &recording.pes {
            let of_tasks = record.spans.iter().filter(|span| span.kind == TASK);
            tasks.extend(of_tasks.map(|span| (record.pe, span.number)));
        }
        let causes = self.seen.iter().filter_map(|seen| seen.span.cause.as_ref());
        let senders = causes.filter_map(|cause| Some((cause.pe, cause.span?)));
        senders.filter(|sender| tasks.contains(sender)).count() as u32
    }

    fn messages(&self) -> Vec<Message> {
        let received = self.seen.iter().filter_map(|seen| {
            let sender = seen.sender?;
            let from = &self.seen[sender as usize];
            let cause = seen.span.cause.as_ref()?;
            Some(Message {
                sender,
                kinds: (from.kind, seen.kind),
                pes: (from.pe, seen.pe),
                bytes: cause.bytes,
                left_ns: cause.sent_ns.max(from.span.end_ns()),
                received_ns: cause.received_ns,
            })
        });
        received.collect()
    }

    /// Makes handlings and firings. Also returns the firing of each span that fires.
    fn parts(
        &mut self,
        recording: &Recording,
        costs: &Costs,
    ) -> (Vec<Handling>, Vec<Firing>, BTreeMap<u32, u32>) {
        let speed = |pe: u32| recording.header.pes.get(pe as usize).map_or(1.0, |pe| pe.speed);
        let work = |seen: &Seen<'_>| seen.span.duration_ns as f64 * speed(seen.pe);
        let plain = self.plain_work(&work);
        let mut handlings: Vec<Handling> =
            self.seen.iter().map(|it| self.handling(it, costs)).collect();
        let mut firings: Vec<Firing> = Vec::new();
        let mut firing_at: BTreeMap<u32, u32> = BTreeMap::new();
        for (actor, order) in self.by_actor.iter().enumerate() {
            let begin = firings.len() as u32;
            let received: Vec<Received> =
                order.iter().map(|at| self.received(*at, order)).collect();
            let Needs { firing_of, is_independent } = dependencies::needs(&received);
            let fired = received.iter().filter(|received| received.has_fired).count();
            firings.resize_with(begin as usize + fired, Firing::default);
            let mut next = begin;
            for (place, at) in order.iter().enumerate() {
                let seen = &self.seen[*at as usize];
                let all = work(seen);
                let needed_by = begin + firing_of[place] as u32;
                firings[needed_by as usize].needs += 1;
                let handling = &mut handlings[*at as usize];
                handling.needed_by = needed_by;
                handling.work_ns = all;
                if received[place].has_fired {
                    let usual = plain.get(&self.kinds_of(seen)).copied().unwrap_or(0.0);
                    handling.work_ns = if is_independent { 0.0 } else { usual.min(all) };
                    let firing = &mut firings[next as usize];
                    firing.work_ns = all - handling.work_ns;
                    firing.is_independent = is_independent;
                    firing_at.insert(*at, next);
                    next += 1;
                }
            }
            self.actors[actor].firings = begin..next;
        }
        for (at, seen) in self.seen.iter().enumerate() {
            if let Some(firing) = seen.sender.and_then(|sender| firing_at.get(&sender)) {
                firings[*firing as usize].sends.push(at as u32);
            }
        }
        (handlings, firings, firing_at)
    }

    /// When each round was done in the recording.
    fn round_done_ns(
        &self,
        handlings: &[Handling],
        firings: &[Firing],
        firing_at: &BTreeMap<u32, u32>,
        rounds: u32,
    ) -> Vec<u64> {
        let mut done = vec![0; rounds as usize];
        for (at, seen) in self.seen.iter().enumerate() {
            let firing = firing_at.get(&(at as u32)).map(|firing| &firings[*firing as usize]);
            let round = handlings[at].round.max(firing.and_then(|firing| firing.round));
            if let Some(done) = round.and_then(|round| done.get_mut(round as usize)) {
                *done = seen.span.end_ns().max(*done);
            }
        }
        done
    }

    fn handling(&self, seen: &Seen<'_>, costs: &Costs) -> Handling {
        let sender = seen.sender.filter(|_| seen.delay_ns.is_none());
        let from_kind = sender.map(|sender| self.seen[sender as usize].kind);
        let known = seen.span.cause.as_ref().map_or(0, |cause| u64::from(cause.bytes));
        let typical = from_kind.and_then(|from| costs.bytes.get(&(from, seen.kind))).copied();
        let bytes = if known > 0 { known } else { typical.unwrap_or(0) };
        let (actor, step, delay_ns) = (seen.actor, seen.span.step, seen.delay_ns.unwrap_or(0));
        Handling { actor, step, bytes, from_kind, delay_ns, ..Handling::default() }
    }

    fn received(&self, at: u32, order: &[u32]) -> Received {
        let seen = &self.seen[at as usize];
        Received {
            // A timer is not a message of an actor: it needs none of those that came meanwhile.
            sender: seen
                .sender
                .filter(|_| seen.delay_ns.is_none())
                .map(|sender| self.seen[sender as usize].actor),
            step: seen.span.step,
            // The last span counts, too, for what an actor does at its end, such as to report.
            has_fired: seen.sends > 0 || order.last() == Some(&at),
        }
    }

    /// The type of a span's actor, and that of the sender of its message.
    fn kinds_of(&self, seen: &Seen<'_>) -> (u32, Option<u32>) {
        (seen.kind, seen.sender.map(|sender| self.seen[sender as usize].kind))
    }

    /// The median time of handlers that send nothing, by the types of receiver and sender.
    fn plain_work(&self, work: &impl Fn(&Seen<'_>) -> f64) -> BTreeMap<(u32, Option<u32>), f64> {
        let mut all: BTreeMap<(u32, Option<u32>), Vec<f64>> = BTreeMap::new();
        for seen in self.seen.iter().filter(|seen| seen.sends == 0) {
            all.entry(self.kinds_of(seen)).or_default().push(work(seen));
        }
        all.into_iter().filter_map(|(kinds, work)| Some((kinds, median(work)?))).collect()
    }

    /// When main could have the results of each handling.
    fn done(&self, grid: &RecordedGrid) -> Vec<Done> {
        let known = |(at, seen): (usize, &Seen<'_>)| Done {
            handling: at as u32,
            known_ns: seen.span.end_ns().saturating_add(grid.latency_ns(seen.pe, MAIN_PE) as u64),
        };
        self.seen.iter().enumerate().map(known).collect()
    }
}

/// Numbers the rounds, which are steps. Returns how many there are.
fn rounds_of_steps(handlings: &mut [Handling]) -> u32 {
    let steps: BTreeSet<u64> = handlings.iter().filter_map(|handling| handling.step).collect();
    let rounds: BTreeMap<u64, u32> = steps.into_iter().zip(0..ROUNDS_MAX).collect();
    for handling in handlings {
        handling.round = handling.step.and_then(|step| rounds.get(&step).copied());
    }
    rounds.len() as u32
}

/// Numbers the rounds, which are the firings of the actors of one type: among the types that fire
/// several times, the one that computes most. Returns how many there are.
fn rounds_of_firings(
    actors: &[TracedActor],
    kinds: usize,
    firings: &mut [Firing],
    handlings: &[Handling],
) -> u32 {
    let mut work = vec![0.0; kinds];
    let mut fired = vec![Vec::new(); kinds];
    for handling in handlings {
        work[actors[handling.actor as usize].kind as usize] += handling.work_ns;
    }
    for actor in actors {
        let range = actor.firings.start as usize..actor.firings.end as usize;
        work[actor.kind as usize] += firings[range].iter().map(|it| it.work_ns).sum::<f64>();
        fired[actor.kind as usize].push(actor.firings.len() as f64);
    }
    let is_round = |kind: &usize| median(fired[*kind].clone()).is_some_and(|it| it >= FIRINGS_MIN);
    let main = (0..kinds).filter(is_round).max_by(|a, b| work[*a].total_cmp(&work[*b]));
    let Some(main) = main else { return 0 };
    let mut rounds = 0;
    for actor in actors.iter().filter(|actor| actor.kind as usize == main) {
        for (round, firing) in (0..ROUNDS_MAX).zip(actor.firings.clone()) {
            firings[firing as usize].round = Some(round);
            rounds = rounds.max(round + 1);
        }
    }
    rounds
}

#[cfg(test)]
mod tests;
