//! The most profitable knapsack, by branch and bound: choices that cannot exceed the best known
//! profit are pruned.
//!
//! The upper bound of a subtree is that of Dantzig (Discrete-variable extremum problems, Operations
//! Research 5, 1957): the remaining items by profit per weight, the last one in part.

use crate::random::NasRandom;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Largest weight of a drawn item.
const WEIGHT_MAX: u64 = 1000;
/// Profit of a drawn item beyond its weight.
const EXTRA: u64 = 100;

/// An item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    weight: u64,
    profit: u64,
}

/// Items, and a knapsack that cannot hold all of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Instance {
    /// Sorted by profit per weight, the highest first.
    items: Vec<Item>,
    capacity: u64,
}

/// Instance P08 of KNAPSACK_01: weights and profits. Source: J. Burkardt, KNAPSACK_01, Data for the
/// 01 Knapsack Problem, Florida State University, 2014; the instance is of D. Kreher and D.
/// Stinson, Combinatorial Algorithms, CRC Press, 1999.
const PUBLISHED: [(u64, u64); 24] = [
    (382_745, 825_594),
    (799_601, 1_677_009),
    (909_247, 1_676_628),
    (729_069, 1_523_970),
    (467_902, 943_972),
    (44_328, 97_426),
    (34_610, 69_666),
    (698_150, 1_296_457),
    (823_460, 1_679_693),
    (903_959, 1_902_996),
    (853_665, 1_844_992),
    (551_830, 1_049_289),
    (610_856, 1_252_836),
    (670_702, 1_319_836),
    (488_960, 953_277),
    (951_111, 2_067_538),
    (323_046, 675_367),
    (446_298, 853_655),
    (931_161, 1_826_027),
    (31_385, 65_731),
    (496_951, 901_489),
    (264_724, 577_243),
    (224_916, 466_257),
    (169_684, 369_261),
];
const PUBLISHED_CAPACITY: u64 = 6_404_180;

impl Instance {
    /// Optimal profit of instance P08.
    pub const PUBLISHED_OPTIMUM: u64 = 13_549_094;

    fn new(items: impl IntoIterator<Item = (u64, u64)>, capacity: u64) -> Self {
        let items = items.into_iter().map(|(weight, profit)| Item { weight, profit });
        let mut items: Vec<Item> = items.collect();
        items.sort_by(|a, b| (b.profit * a.weight).cmp(&(a.profit * b.weight)));
        Self { items, capacity }
    }

    /// Returns instance P08 of KNAPSACK_01.
    pub fn published() -> Self {
        Self::new(PUBLISHED, PUBLISHED_CAPACITY)
    }

    /// Draws items whose profits are their weights plus 100, and a knapsack for half of their total
    /// weight. Such instances are hard, since no item is much better than another (D. Pisinger,
    /// Where are the hard knapsack problems?, 2005, section 3, "strongly correlated").
    pub fn drawn(items: u32, seed: u64) -> Self {
        // The generator has its full period for odd seeds. It uses only the low bits, so the
        // product may wrap.
        let mut random = NasRandom::new(seed.wrapping_mul(2).wrapping_add(1));
        random.skip(1000);
        let weight = |_| 1 + (random.next_unit() * WEIGHT_MAX as f64) as u64;
        let weights: Vec<u64> = (0..items).map(weight).collect();
        let capacity = weights.iter().sum::<u64>() / 2;
        Self::new(weights.into_iter().map(|weight| (weight, weight + EXTRA)), capacity)
    }

    /// Number of items.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Computes the optimal profit by dynamic programming over the remaining capacity.
    pub fn best_by_table(&self) -> u64 {
        let mut best = vec![0; self.capacity as usize + 1];
        for item in &self.items {
            let weight = item.weight as usize;
            for room in (weight..best.len()).rev() {
                best[room] = best[room].max(best[room - weight] + item.profit);
            }
        }
        best[self.capacity as usize]
    }
}

/// A node of the search tree: the decisions on the first items, in order of profit per weight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartialPacking {
    /// Shared by the tasks of a PE; a stolen task carries a copy.
    instance: Arc<Instance>,
    /// Index of the next item to decide.
    next: u32,
    room: u64,
    profit: u64,
    grain: u32,
}

impl PartialPacking {
    /// The root of the tree, without decisions. One task decides the last `grain` items alone.
    pub fn none(instance: Instance, grain: u32) -> Self {
        let room = instance.capacity;
        Self { instance: Arc::new(instance), next: 0, room, profit: 0, grain }
    }

    /// Whether one task decides all remaining items.
    pub fn is_small(&self) -> bool {
        self.instance.items.len() as u32 <= self.next + self.grain
    }

    /// Profit of the items taken so far.
    pub fn profit(&self) -> u64 {
        self.profit
    }

    /// Returns the choice without the next item and then the one with it, each only if it fits and
    /// can exceed `best`.
    pub fn split(&self, best: u64) -> impl Iterator<Item = Self> {
        let item = self.instance.items.get(self.next as usize).copied();
        let next = self.next + 1;
        let without = item.map(|_| Self { next, ..self.clone() });
        let with = item.filter(|item| item.weight <= self.room).map(|item| Self {
            next,
            room: self.room - item.weight,
            profit: self.profit + item.profit,
            ..self.clone()
        });
        let can_win = move |choice: &Self| {
            upper(&choice.instance.items[next as usize..], choice.room, choice.profit) > best
        };
        without.into_iter().chain(with).filter(can_win)
    }

    /// Decides all remaining items. `share` publishes a profit and returns the best known one.
    /// Returns the number of choices examined.
    pub fn finish(&self, share: &mut impl FnMut(u64) -> u64) -> u64 {
        finish(&self.instance.items[self.next as usize..], self.room, self.profit, share)
    }
}

fn finish(items: &[Item], room: u64, profit: u64, share: &mut impl FnMut(u64) -> u64) -> u64 {
    let best = share(profit);
    let Some((item, rest)) = items.split_first() else { return 1 };
    if upper(items, room, profit) <= best {
        return 1;
    }
    let mut examined = 1;
    if item.weight <= room {
        examined += finish(rest, room - item.weight, profit + item.profit, share);
    }
    examined + finish(rest, room, profit, share)
}

/// Returns an upper bound of the total profit of any choice among `items`, with `room` left and
/// `profit` so far.
fn upper(items: &[Item], mut room: u64, mut profit: u64) -> u64 {
    for item in items {
        if item.weight > room {
            return profit + item.profit * room / item.weight;
        }
        (room, profit) = (room - item.weight, profit + item.profit);
    }
    profit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the optimal profit by trying all choices.
    fn best_of_all(items: &[Item], room: u64) -> u64 {
        let Some((item, rest)) = items.split_first() else { return 0 };
        let with = |room| item.profit + best_of_all(rest, room);
        best_of_all(rest, room).max(room.checked_sub(item.weight).map_or(0, with))
    }

    #[test]
    fn the_largest_seed_draws_the_items_of_the_seed_with_the_same_low_bits() {
        let (largest, low_bits) = (Instance::drawn(5, u64::MAX), Instance::drawn(5, (1 << 45) - 1));
        assert_eq!(largest.items, low_bits.items);
    }

    #[test]
    fn dynamic_programming_finds_the_best_of_all_choices() {
        for seed in 0..8 {
            let instance = Instance::drawn(12, seed);
            assert_eq!(instance.best_by_table(), best_of_all(&instance.items, instance.capacity));
        }
    }
}
