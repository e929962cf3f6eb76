//! What a task that changes nodes takes, as one node has observed it.

use gridspan_topology::Time;

/// An estimate from the times between a gift and the next idleness. It counts what was stolen, not what
/// was run: a stolen task that spawns a thousand others is worth all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TaskTime {
    known_ns: u64,
    spell: Option<Spell>,
}

/// A time in which the node is not idle.
#[derive(Clone, Copy, Debug)]
struct Spell {
    since: Time,
    got: u64,
    gave: u64,
}

impl TaskTime {
    /// What a task takes; 0 as long as that is not known.
    pub(super) fn nanos(&self) -> u64 {
        self.known_ns
    }

    /// Tasks came, or were found when the node was idle.
    pub(super) fn got(&mut self, now: Time, tasks: u64) {
        let spell = self.spell.get_or_insert(Spell { since: now, got: 0, gave: 0 });
        spell.got = spell.got.saturating_add(tasks);
    }

    /// Tasks left.
    pub(super) fn gave(&mut self, tasks: u64) {
        if let Some(spell) = &mut self.spell {
            spell.gave = spell.gave.saturating_add(tasks);
        }
    }

    /// So many tasks wait on the node. Whether that shows for the first time what a task takes: those that
    /// neither wait nor run nor left are done.
    pub(super) fn left(&mut self, now: Time, stock: u64, workers: u32) -> bool {
        let Some(spell) = self.spell.filter(|_| self.known_ns == 0) else { return false };
        let others = spell.gave.saturating_add(stock).saturating_add(u64::from(workers));
        let done = spell.got.saturating_sub(others);
        if done > 0 {
            self.known_ns = sample(now, &spell, done, workers);
        }
        done > 0
    }

    /// The node has become idle.
    pub(super) fn ended(&mut self, now: Time, workers: u32) {
        let Some(spell) = self.spell.take() else { return };
        // Who gave more than came gave parts of tasks: what was done here is then the least they took.
        let done = if spell.gave < spell.got { spell.got - spell.gave } else { spell.got };
        if done > 0 {
            self.known_ns = blend(self.known_ns, sample(now, &spell, done, workers));
        }
    }
}

/// What each of the tasks took that were done since the spell began.
fn sample(now: Time, spell: &Spell, done: u64, workers: u32) -> u64 {
    let nanos = u128::from(now.0.saturating_sub(spell.since.0)) * u128::from(workers);
    u64::try_from(nanos / u128::from(done)).unwrap_or(u64::MAX).max(1)
}

/// An estimate moved a quarter of the way to a sample; the sample if there was none.
pub(super) fn blend(known: u64, sample: u64) -> u64 {
    if known == 0 { sample } else { known - known / 4 + sample / 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn five_tasks_of_which_one_was_given_away_in_forty_ms_take_ten_each() {
        let mut time = TaskTime::default();
        assert_eq!(time.nanos(), 0);

        time.got(Time(MS), 5);
        time.gave(1);
        time.ended(Time(41 * MS), 1);

        assert_eq!(time.nanos(), 10 * MS);
    }

    #[test]
    fn a_stolen_task_is_worth_what_it_spawned() {
        let mut time = TaskTime::default();

        time.got(Time(0), 1);
        time.gave(100);
        time.ended(Time(30 * MS), 2);

        assert_eq!(time.nanos(), 60 * MS);
    }

    #[test]
    fn later_samples_move_the_estimate_slowly() {
        assert_eq!(blend(0, 400), 400);
        assert_eq!(blend(400, 800), 500);
    }
}
