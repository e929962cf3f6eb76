//! Actors that migrate all the time while they send each other messages, to test whether messages
//! are lost, duplicated or reordered, and to measure the rate of migrations.
//!
//! Each actor sends numbered messages to others, migrates, and repeats this where it arrives. All
//! actors count messages; at the end none may be missing.

use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, JobError, Op, PeId, To};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of actors: enough that several are in transit between any two PEs at any time.
const ACTORS: u32 = 256;
/// Number of messages that an actor sends between two migrations.
const MESSAGES: u32 = 2;
/// Number of values in each report.
const NUMBERS: usize = 4;

/// Registers the actors of this module with the job.
pub(crate) fn register(job: Job) -> Job {
    job.actor::<MigratingActor>()
}

#[derive(Serialize, Deserialize)]
struct MigratingActor {
    dice: u64,
    /// Number of remaining migrations.
    left: u64,
    arrivals: u64,
    sent: BTreeMap<u32, u64>,
    received: BTreeMap<u32, u64>,
    /// Number of messages that arrived out of their sender's order.
    wrong: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    Migrate,
    Numbered { from: u32, number: u64 },
    Report,
}

impl MigratingActor {
    /// Draws a number below `end` from the linear congruential generator of Knuth's MMIX (TAOCP,
    /// volume 2, 3.3.4).
    fn below(&mut self, end: u32) -> u32 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005);
        self.dice = self.dice.wrapping_add(1_442_695_040_888_963_407);
        (((self.dice >> 32) * u64::from(end)) >> 32) as u32
    }

    fn migrate(&mut self, cx: &mut Context<'_, Self>) {
        let me = cx.index().0 as u32;
        for _ in 0..MESSAGES {
            let to = self.below(ACTORS);
            let number = self.sent.entry(to).or_default();
            let message = Message::Numbered { from: me, number: *number };
            *number += 1;
            cx.send(&cx.collection().at(Ix1(to as i32)), message);
        }
        if self.left > 0 {
            self.left -= 1;
            let pes = cx.layout().pe_count();
            let to = (cx.pe().0 + 1 + self.below(pes - 1)) % pes;
            cx.migrate_to(PeId(to));
            cx.send(&cx.me(), Message::Migrate);
        }
    }
}

impl Actor for MigratingActor {
    type Index = Ix1;
    type Init = u64;
    type Message = Message;

    fn create(left: u64, cx: &mut Context<'_, Self>) -> Self {
        let (sent, received) = (BTreeMap::new(), BTreeMap::new());
        Self { dice: cx.index().0 as u64, left, arrivals: 0, sent, received, wrong: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Migrate => self.migrate(cx),
            Message::Numbered { from, number } => {
                let expected = self.received.entry(from).or_default();
                self.wrong += u64::from(*expected != number);
                *expected += 1;
            }
            Message::Report => {
                let sum = |counts: &BTreeMap<u32, u64>| counts.values().sum::<u64>();
                let numbers: [u64; NUMBERS] =
                    [self.arrivals, sum(&self.sent), sum(&self.received), self.wrong];
                cx.contribute(Op::Sum, numbers.to_vec(), To::main());
            }
        }
    }

    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {
        self.arrivals += 1;
    }
}

/// Makes the actors migrate `migrations` times in total, and fails if migrations or messages are
/// missing, or messages arrived out of order.
pub(crate) async fn run(grid: &Grid, migrations: u64) -> Result<(), JobError> {
    if grid.layout().pe_count() < 2 {
        return Err("actors cannot migrate with only one PE; use several, such as -n 2".into());
    }
    let (each, rest) = (migrations / u64::from(ACTORS), migrations % u64::from(ACTORS));
    let share = |ix: Ix1| each + u64::from((ix.0 as u64) < rest);
    let actors = grid.create::<MigratingActor>(Ix1::range(ACTORS), share).await?;
    let begin = grid.now().await?;
    actors.broadcast(Message::Migrate);
    grid.quiescence().await?;
    let took = grid.now().await?.since(begin);
    actors.broadcast(Message::Report);
    let numbers: Vec<u64> = actors.reduction(Op::Sum).await?;
    let &[arrivals, sent, received, wrong] = numbers.as_slice() else {
        return Err("a report has an unexpected length".into());
    };
    println!("{arrivals} migrations in {:.1} s: {}", seconds(took), rate(arrivals, took));
    println!("{sent} messages sent, {received} received, {wrong} out of order");
    verify(migrations, [arrivals, sent, received, wrong])
}

/// Fails unless the actors have migrated `migrations` times, and have received all messages in
/// order: [`MESSAGES`] of each actor before its first migration, and as many after each.
fn verify(migrations: u64, numbers: [u64; NUMBERS]) -> Result<(), JobError> {
    let bursts = migrations.saturating_add(u64::from(ACTORS));
    let messages = bursts.saturating_mul(u64::from(MESSAGES));
    if numbers == [migrations, messages, messages, 0] {
        println!("verified: yes ({migrations} migrations, {messages} messages in order)");
        return Ok(());
    }
    Err(format!(
        "verified: no ({migrations} migrations and {messages} messages in order were requested)"
    )
    .into())
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn rate(count: u64, time: Duration) -> String {
    format!("{:.0} a second", count as f64 / seconds(time).max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_migrations_and_lost_or_disordered_messages_are_failures() {
        // 256 actors send two messages each, and two more after each of 10 migrations.
        verify(10, [10, 532, 532, 0]).unwrap();
        for wrong in [[9, 532, 532, 0], [10, 530, 530, 0], [10, 532, 531, 0], [10, 532, 532, 1]] {
            let error = verify(10, wrong).unwrap_err().to_string();
            assert!(error.contains("verified: no (10 migrations and 532"), "{wrong:?}: {error}");
        }
    }
}
