//! Broadcasts, multicasts and single messages of one sender arrive in the order in which they were
//! sent.

use gridspan_runtime::{
    Actor, CollectionRef, Context, Grid, Ix1, Job, JobError, Op, PeId, Priority, SectionRef, Time,
    To,
};
use gridspan_sim::{FaultPlan, SessionFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MEMBERS: usize = 11;
/// Number of main as a sender.
const MAIN: usize = MEMBERS;
/// Priorities of messages. Those of one priority are in order.
const PRIORITIES: [i32; 2] = [0, 7];

/// Numbers of messages that a sender has sent so far at each priority.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Said {
    to_all: [u64; 2],
    to_one: [[u64; MEMBERS]; 2],
}

/// A message with the numbers of messages that precede it, from the same sender at the same
/// priority.
#[derive(Clone, Serialize, Deserialize)]
enum Word {
    All { before: u64, to_one: [u64; MEMBERS] },
    One { before: u64, to_all: u64 },
    Several { before: [u64; MEMBERS], to_all: u64 },
}

impl Said {
    fn all(&mut self, priority: usize) -> Word {
        self.to_all[priority] += 1;
        Word::All { before: self.to_all[priority] - 1, to_one: self.to_one[priority] }
    }

    fn one(&mut self, priority: usize, to: usize) -> Word {
        self.to_one[priority][to] += 1;
        Word::One { before: self.to_one[priority][to] - 1, to_all: self.to_all[priority] }
    }

    /// Number of deliveries of all messages.
    fn receivers(&self) -> u64 {
        MEMBERS as u64 * self.to_all.iter().sum::<u64>() + self.to_one.iter().flatten().sum::<u64>()
    }

    fn some(&mut self, priority: usize) -> Word {
        let before = self.to_one[priority];
        (0..MEMBERS).filter(in_section).for_each(|to| self.to_one[priority][to] += 1);
        Word::Several { before, to_all: self.to_all[priority] }
    }
}

fn in_section(member: &usize) -> bool {
    !member.is_multiple_of(3)
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Word {
        from: usize,
        priority: usize,
        word: Word,
    },
    /// Send messages, and repeat that `left` times.
    Speak {
        left: u32,
        section: SectionRef<Speaker>,
    },
    Count,
}

#[derive(Serialize, Deserialize)]
struct Speaker {
    dice: Dice,
    said: Said,
    /// By priority and sender: the number of single messages and multicasts received, and that of
    /// broadcasts.
    heard: [[(u64, u64); MEMBERS + 1]; 2],
}

impl Actor for Speaker {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(seed: u64, cx: &mut Context<'_, Self>) -> Self {
        let dice = Dice::new(seed * 1000 + cx.index().0 as u64);
        Self { dice, said: Said::default(), heard: [[(0, 0); MEMBERS + 1]; 2] }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Word { from, priority, word } => self.hear((from, priority), &word, cx),
            Msg::Speak { left, section } => self.speak(left, section, cx),
            Msg::Count => {
                let heard = self.heard.iter().flatten().map(|(one, all)| one + all).sum::<u64>();
                cx.contribute(Op::Sum, heard, To::main());
                cx.contribute(Op::Sum, self.said.receivers(), To::main());
            }
        }
    }
}

impl Speaker {
    fn below(&mut self, end: u64) -> u64 {
        self.dice.below(end)
    }

    fn hear(&mut self, (from, priority): (usize, usize), word: &Word, cx: &mut Context<'_, Self>) {
        let me = cx.index().0 as usize;
        let (to_one, to_all) = &mut self.heard[priority][from];
        let heard = (*to_one, *to_all);
        let due = match word {
            Word::All { before, to_one } => (to_one[me], *before),
            Word::One { before, to_all } => (*before, *to_all),
            Word::Several { before, to_all } => (before[me], *to_all),
        };
        match word {
            Word::All { .. } => *to_all += 1,
            Word::One { .. } | Word::Several { .. } => *to_one += 1,
        }
        if heard != due {
            cx.fail(format!(
                "{me} has {heard:?} of {from}, but got the message that follows {due:?}"
            ));
        }
    }

    fn speak(&mut self, left: u32, section: SectionRef<Self>, cx: &mut Context<'_, Self>) {
        let (from, all) = (cx.index().0 as usize, cx.collection());
        for _ in 0..self.below(6) {
            let priority = self.below(2) as usize;
            let word = |word| Msg::Word { from, priority, word };
            let rank = PRIORITIES[priority];
            match self.below(10) {
                0..2 => cx.broadcast_with(Priority(rank), &all, word(self.said.all(priority))),
                2 => cx.multicast_with(Priority(rank), &section, word(self.said.some(priority))),
                _ => {
                    let to = self.below(MEMBERS as u64) as usize;
                    let message = word(self.said.one(priority, to));
                    cx.send_with(Priority(rank), &all.at(Ix1(to as i32)), message);
                }
            }
        }
        if self.below(3) == 0 {
            let pes = u64::from(cx.layout().pe_count());
            let pe = PeId(self.below(pes) as u32);
            cx.migrate_to(pe);
        }
        if left > 0 {
            let delay = Duration::from_micros(self.below(20_000));
            cx.send_after(delay, &cx.me(), Msg::Speak { left: left - 1, section });
        }
    }
}

async fn talk(grid: &Grid, seed: u64, turns: u32) -> Result<(u64, u64), JobError> {
    let all = grid.create::<Speaker>(Ix1::range(MEMBERS as u32), |_| seed).await?;
    let some = (0..MEMBERS).filter(in_section).map(|index| Ix1(index as i32));
    let section = all.section(1, some);
    all.broadcast(Msg::Speak { left: turns, section: section.clone() });
    let mut said = Said::default();
    let word = |word| Msg::Word { from: MAIN, priority: 0, word };
    for turn in 0..turns as usize {
        let to = (turn * 7 + seed as usize) % MEMBERS;
        match turn % 3 {
            0 => all.broadcast(word(said.all(0))),
            1 => all.multicast(&section, word(said.some(0))),
            _ => all.member(Ix1(to as i32)).send(word(said.one(0, to))),
        }
        if turn % 5 == 0 {
            grid.sleep(Duration::from_millis(3)).await?;
        }
    }
    grid.quiescence().await?;
    all.broadcast(Msg::Count);
    let heard: u64 = all.reduction(Op::Sum).await?;
    let by_members: u64 = all.reduction(Op::Sum).await?;
    Ok((heard, by_members + said.receivers()))
}

/// Breaks of connections. Hundreds of frames are under way at a time, and a broken connection sends
/// them all again.
fn fragile() -> SessionFaults {
    SessionFaults::default().with_bulk_bytes(200).with_disconnect(0.002)
}

/// Lets the members talk for some turns while these faults happen.
fn talk_under(sessions: SessionFaults, seed: u64, turns: u32) -> SimReport {
    let spec = GridSpec::from_emulate("3x2,wan=8ms").unwrap();
    let job = Job::new("speakers").actor::<Speaker>().seed(seed).main(async move |grid| {
        let (heard, said) = talk(&grid, seed, turns).await?;
        assert_eq!(heard, said);
        Ok(())
    });
    let faults = FaultPlan::default()
        .with_local_delay(0.1)
        .with_delay_max(Duration::from_millis(30))
        .with_reorder(true)
        .with_sessions(sessions);
    let options =
        SimOptions::with_seed(seed).with_faults(faults).with_time_limit(Duration::from_secs(100));
    let report = Simulation::new(job, spec, options).unwrap().run();
    assert_eq!(report.outcome, Ok(()), "seed {seed}: {}", report.pending);
    report
}

#[test]
fn messages_of_one_sender_arrive_in_order_while_members_move_and_connections_break() {
    for seed in 0..12 {
        let report = talk_under(fragile(), seed, 40);
        assert!(report.statistics.migrations > 30, "seed {seed}");
    }
}

#[test]
fn the_plan_decides_whether_acknowledgements_are_lost_and_frames_are_late() {
    let never = fragile().with_acknowledgement_loss(0.0).with_late(0.0);
    let often = fragile().with_acknowledgement_loss(0.5).with_late(1.0);

    let [never, often] = [never, often].map(|sessions| talk_under(sessions, 3, 40).faults);

    assert!(never.cut_off > 0, "{never:?}");
    assert_eq!((never.acknowledgements_lost, never.late), (0, 0), "{never:?}");
    assert!(often.acknowledgements_lost > 0 && often.late > 0, "{often:?}");
}

/// Records the letters that it receives, with their times.
#[derive(Default, Serialize, Deserialize)]
struct Listener {
    heard: Vec<(char, Time)>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Tell {
    Letter(char),
    /// Send a letter to that member, one to all, another to that member, and another to all.
    Say(i32),
    /// Contribute the received letters with their times, if this is the member.
    Report(i32),
}

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Tell;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self::default()
    }

    fn handle(&mut self, message: Tell, cx: &mut Context<'_, Self>) {
        let all: CollectionRef<Self> = cx.collection();
        match message {
            Tell::Letter(letter) => self.heard.push((letter, cx.now())),
            Tell::Say(to) => {
                cx.send(&all.at(Ix1(to)), Tell::Letter('a'));
                cx.broadcast(&all, Tell::Letter('b'));
                cx.send(&all.at(Ix1(to)), Tell::Letter('c'));
                cx.broadcast(&all, Tell::Letter('d'));
                self.heard.push(('0', cx.now()));
            }
            Tell::Report(of) => {
                let mine = if cx.index().0 == of { self.heard.clone() } else { Vec::new() };
                let report = mine.iter().map(|(letter, at)| (*letter as u8, at.as_nanos()));
                let report: Vec<u8> = report
                    .flat_map(|(letter, at)| [vec![letter], at.to_le_bytes().to_vec()].concat())
                    .collect();
                cx.contribute(Op::Concat, report, To::main());
            }
        }
    }
}

/// The letters that each member received, with the milliseconds since the speaker began.
fn hears(spec: &str, change: &str, speaker: i32, to: i32) -> Vec<Vec<(char, u64)>> {
    let spec = GridSpec::from_emulate(spec).unwrap().with_change(change).unwrap();
    let pes = spec.layout().pe_count();
    let (out, results) = std::sync::mpsc::channel();
    let job = Job::new("letters").actor::<Listener>().main(async move |grid| {
        let all = grid.create::<Listener>(Ix1::range(pes), |_| ()).await?;
        all.member(Ix1(speaker)).send(Tell::Say(to));
        grid.quiescence().await?;
        let mut heard = Vec::new();
        for member in 0..pes as i32 {
            all.broadcast(Tell::Report(member));
            let bytes: Vec<u8> = all.reduction(Op::Concat).await?;
            let letters = bytes.chunks(9).map(|chunk| {
                (chunk[0] as char, u64::from_le_bytes(chunk[1..].try_into().unwrap()))
            });
            heard.push(letters.collect::<Vec<_>>());
        }
        out.send(heard).map_err(|_| "the test has ended")?;
        Ok(())
    });
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let heard = results.recv().unwrap();
    let begin = heard[speaker as usize].iter().find(|(letter, _)| *letter == '0').unwrap().1;
    let since = |at: u64| at.saturating_sub(begin) / 1_000_000;
    let all = heard.into_iter().map(|letters| letters.into_iter().filter(|&(c, _)| c != '0'));
    all.map(|letters| letters.map(|(letter, at)| (letter, since(at))).collect()).collect()
}

fn letters(heard: &[(char, u64)]) -> String {
    heard.iter().map(|(letter, _)| letter).collect()
}

#[test]
fn an_inserted_member_receives_the_next_broadcast_of_main() {
    let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();
    let (out, results) = std::sync::mpsc::channel();
    let job = Job::new("letters").actor::<Listener>().main(async move |grid| {
        let all = grid.create::<Listener>(Ix1::range(2), |_| ()).await?;
        all.insert_on(Ix1(9), (), PeId(3));
        all.broadcast(Tell::Letter('a'));
        grid.quiescence().await?;
        all.broadcast(Tell::Report(9));
        let heard: Vec<u8> = all.reduction(Op::Concat).await?;
        out.send(heard.first().copied()).map_err(|_| "the test has ended")?;
        Ok(())
    });
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    assert_eq!(results.recv().unwrap(), Some(b'a'));
}

#[test]
fn a_broadcast_waits_for_an_earlier_message_only_at_its_receiver() {
    // Broadcasts go through the first node.
    let heard = hears("3x1,wan=5ms", "at 0s link b-c latency=200ms", 1, 2);

    assert_eq!(letters(&heard[2]), "abcd");
    assert!(heard[2][0].1 >= 200, "{heard:?}");
    assert_eq!(letters(&heard[0]), "bd");
    assert!(heard[0][1].1 < 20 && heard[1][1].1 < 20, "{heard:?}");
}

#[test]
fn a_message_waits_for_an_earlier_broadcast_on_a_longer_path() {
    let heard = hears("3x1,wan=5ms", "at 0s link a-b latency=100ms", 1, 2);

    assert_eq!(letters(&heard[2]), "abcd");
    assert!(heard[2][0].1 < 20 && heard[2][2].1 >= 100, "{heard:?}");
}

#[test]
fn a_message_to_the_sender_itself_waits_for_the_broadcast_before_it() {
    // Member 1, on the second node, sends to itself.
    let heard = hears("2x1,wan=5ms", "at 0s link a-b latency=50ms", 1, 1);

    assert_eq!(letters(&heard[1]), "abcd");
    assert!(heard[1][0].1 < 5 && heard[1][2].1 >= 100, "{heard:?}");
}
