//! The result of a random program, and what main notes for the test.

use crate::world::{Account, DELIVERED};
use gridspan_runtime::Time;
use std::collections::BTreeMap;

/// What main has noted for the test, in all runs of a program.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) result: Option<Outcome>,
    pub(crate) taken: u32,
    pub(crate) postponed: BTreeMap<String, u32>,
    pub(crate) steps: BTreeMap<&'static str, u64>,
    /// The times at which main called for progress in the present run.
    pub(crate) points: Vec<(Time, bool)>,
}

/// The result of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) main: Account,
    pub(crate) lines: BTreeMap<(u8, u32), (Account, u64)>,
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    /// What differs from another result.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let mut texts = Vec::new();
        if self.main != other.main {
            texts.push(format!("main has {:?}, not {:?}", self.main, other.main));
        }
        for key in self.lines.keys().chain(other.lines.keys()) {
            let (mine, its) = (self.lines.get(key), other.lines.get(key));
            if mine != its && texts.len() < 5 {
                texts.push(format!("member {key:?} has {mine:?}, not {its:?}"));
                if let (Some((mine, _)), Some((its, _))) = (mine, its) {
                    let missing =
                        DELIVERED.with_borrow(|all| all.get(&(mine.xor ^ its.xor)).cloned());
                    texts.extend(missing.map(|text| format!("it lacks or repeats {text}")));
                }
            }
        }
        texts.extend(self.problems.iter().take(5).cloned());
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
