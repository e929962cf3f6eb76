//! The nodes on which new tasks appear: the five load distributions of Zhang et al. (2007), section
//! 5.1.

use gridspan_topology::dice::Dice;

/// How tasks are spread over the nodes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSpread {
    /// Uniformly over all nodes.
    All,
    /// Uniformly over the first half of the nodes.
    Half,
    /// Uniformly over the first eighth.
    Eighth,
    /// The number of the node is binomial, Bi(n, 1/3): around node n/3 with a deviation of
    /// sqrt(2n)/3.
    BinomialThird,
    /// The number of the node is binomial, Bi(n, 1/8).
    BinomialEighth,
}

impl LoadSpread {
    /// All distributions, in the order of figures 4 to 8 of Zhang et al. (2007).
    pub const ALL: [Self; 5] =
        [Self::All, Self::Half, Self::Eighth, Self::BinomialThird, Self::BinomialEighth];

    /// Returns the name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Half => "half",
            Self::Eighth => "1/8",
            Self::BinomialThird => "Bi(n,1/3)",
            Self::BinomialEighth => "Bi(n,1/8)",
        }
    }

    /// Returns for each batch how many of its `tasks` tasks appear on each of `nodes` nodes, of
    /// which there is at least one. The result depends on the arguments alone, so that all policies
    /// get the same load.
    pub fn batches(self, nodes: u32, tasks: u64, batches: usize, seed: u64) -> Vec<Vec<u64>> {
        let mut dice = Dice::new(seed);
        let nodes = nodes.max(1) as usize;
        let table = match self {
            Self::BinomialThird => binomial(nodes, 1.0 / 3.0),
            Self::BinomialEighth => binomial(nodes, 1.0 / 8.0),
            _ => Vec::new(),
        };
        let mut node = || match self {
            Self::All => dice.below(nodes),
            Self::Half => dice.below(nodes.div_ceil(2)),
            Self::Eighth => dice.below(nodes.div_ceil(8)),
            Self::BinomialThird | Self::BinomialEighth => {
                let thrown = dice.unit();
                table.partition_point(|&up_to| up_to <= thrown).min(nodes - 1)
            }
        };
        let mut batch = || {
            let mut counts = vec![0; nodes];
            (0..tasks).for_each(|_| counts[node()] += 1);
            counts
        };
        (0..batches).map(|_| batch()).collect()
    }
}

/// Returns the probabilities that Bi(n, p) is at most 0, 1, ...
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let mut logarithm = n as f64 * (1.0 - p).ln();
    let mut sum = 0.0;
    (0..=n)
        .map(|k| {
            sum += logarithm.exp();
            logarithm += ((n - k) as f64 / (k + 1) as f64 * p / (1.0 - p)).ln();
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binomial_load_has_its_mean_and_deviation() {
        let batches = LoadSpread::BinomialEighth.batches(1024, 5120, 10, 1);

        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for (node, &tasks) in batches.iter().flat_map(|batch| batch.iter().enumerate()) {
            sum += node as f64 * tasks as f64;
            squares += (node as f64).powi(2) * tasks as f64;
            count += tasks as f64;
        }

        // np = 128, np(1 - p) = 112; the deviation of the mean of 51,200 is 0.05.
        let mean = sum / count;
        assert_eq!(count, 51_200.0);
        assert!((mean - 128.0).abs() < 0.2, "{mean}");
        assert!((squares / count - mean * mean - 112.0).abs() < 3.0);
    }

    #[test]
    fn an_eighth_of_the_nodes_get_all_the_tasks() {
        let batches = LoadSpread::Eighth.batches(64, 320, 2, 1);

        for batch in batches {
            assert_eq!(batch[..8].iter().sum::<u64>(), 320);
            assert!(batch[..8].iter().all(|&tasks| tasks > 0), "{batch:?}");
        }
    }
}
