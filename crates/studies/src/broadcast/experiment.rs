//! The experiment of Gupta and Vadhiyar (2006), section 3: 60 broadcasts of decreasing size at
//! decreasing intervals, while other traffic loads the links around one cluster.

use super::contenders::{Contender, Player, Spending};
use super::packets::simulate_packets;
use super::teragrid::TeraGrid;
use gridspan_bcast::{Draft, Network, Sharing, SimulatedBroadcast, bound_s};

const BROADCASTS: u32 = 60;
const FIRST_BYTES: u64 = 1_000_000;
const FIRST_GAP_S: f64 = 90.0;
/// Ratio of each gap to the previous one: 3.9 s at the end, 27 minutes in all.
const GAP_FACTOR: f64 = 0.9475;

/// The first part of a message is its size divided by this number. After it, a contender that plans
/// midway may change its plan.
const MIDWAY: u64 = 4;
/// Minimum number of bytes of that first part, so that it shows the rates of the links.
const MIDWAY_MIN: u64 = 75_000;

/// The model that times broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Packets in queues, a model that no planner uses.
    Packets,
    /// Max-min fair flows, the model of our planner.
    Flows,
}

/// The experiment on one network with one schedule of loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BroadcastExperiment {
    /// The capacities that wide-area transfers share.
    pub sharing: Sharing,
    /// The seed of the loads.
    pub seed: u64,
    /// Maximum number of broadcasts, of the 60.
    pub broadcasts: usize,
    /// The model that times the broadcasts.
    pub judge: Judge,
    /// Evaluations for each plan of the paper's system.
    pub paper_evaluations: u64,
    /// Evaluations for each of our plans.
    pub our_evaluations: u64,
}

/// The times of one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The contender.
    pub contender: Contender,
    /// Time of each broadcast, in seconds.
    pub completion_s: Vec<f64>,
    /// Number of probes that it requested.
    pub probes: u64,
}

/// Fraction by which rounding may make a time less than the bound.
const ROUNDING: f64 = 1e-9;

/// The results of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The size of each broadcast in bytes.
    pub bytes: Vec<u64>,
    /// Whether there was load.
    pub is_loaded: Vec<bool>,
    /// Whether the load differs from that of the previous broadcast.
    pub has_changed: Vec<bool>,
    /// Lower bound of each broadcast, in seconds.
    pub bound_s: Vec<f64>,
    /// The times of the contenders, in the order of the argument.
    pub times: Vec<Times>,
}

impl BroadcastExperiment {
    /// Returns the starts of the broadcasts in seconds, and their sizes.
    fn schedule() -> Vec<(f64, u64)> {
        let (mut at_s, mut gap_s) = (0.0, FIRST_GAP_S);
        let mut schedule = Vec::new();
        for number in 0..BROADCASTS {
            let left = u64::from(BROADCASTS - number);
            schedule.push((at_s, FIRST_BYTES * left / u64::from(BROADCASTS)));
            at_s += gap_s;
            gap_s *= GAP_FACTOR;
        }
        schedule
    }

    /// Runs all broadcasts for each contender.
    pub fn run(&self, contenders: &[Contender]) -> Trial {
        let mut schedule = Self::schedule();
        schedule.truncate(self.broadcasts);
        let end_s = schedule.last().map_or(0.0, |last| last.0) + FIRST_GAP_S;
        let grid = TeraGrid::new(self.sharing, self.seed, end_s);
        let loads: Vec<Option<usize>> =
            schedule.iter().map(|&(at_s, _)| grid.load_at(at_s)).collect();
        let before = [None].into_iter().chain(loads.iter().copied());
        let bound = |&(at_s, bytes): &(f64, u64)| bound_s(&grid.at(at_s), grid.root(), bytes);
        Trial {
            bytes: schedule.iter().map(|&(_, bytes)| bytes).collect(),
            is_loaded: loads.iter().map(Option::is_some).collect(),
            has_changed: loads.iter().zip(before).map(|(now, before)| *now != before).collect(),
            bound_s: schedule.iter().map(bound).collect(),
            times: contenders.iter().map(|&who| self.play(&grid, &schedule, who)).collect(),
        }
    }

    fn play(&self, grid: &TeraGrid, schedule: &[(f64, u64)], contender: Contender) -> Times {
        let spending = Spending { paper: self.paper_evaluations, ours: self.our_evaluations };
        let mut player = Player::new(grid, contender, spending);
        let mut completion_s = Vec::with_capacity(schedule.len());
        for (number, &(at_s, bytes)) in schedule.iter().enumerate() {
            let draft = player.draft(at_s, bytes);
            let (network, bytes_sent) = player.burden(grid.at(at_s), bytes);
            let part = bytes / MIDWAY;
            let mut changed = None;
            if contender == Contender::OursMidway && part >= MIDWAY_MIN {
                let first = self.time(&network, &draft, part);
                let rest = player.midway(at_s, part, bytes - part, &first.edges);
                changed = rest.map(|rest| {
                    // Assumes that the rest starts only when all nodes have the first part, which
                    // overestimates the time.
                    let rest = self.time(&network, &rest, bytes - part);
                    let completion_s = first.completion_s + rest.completion_s;
                    SimulatedBroadcast { completion_s, edges: Vec::new() }
                });
            }
            let outcome = changed.unwrap_or_else(|| self.time(&network, &draft, bytes_sent));
            debug_assert!(
                outcome.completion_s >= bound_s(&network, grid.root(), bytes) * (1.0 - ROUNDING),
                "{contender:?} takes {} s, less than any broadcast can",
                outcome.completion_s
            );
            completion_s.push(outcome.completion_s);
            let next_s = schedule.get(number + 1).map_or(at_s, |next| next.0);
            player.observe(at_s, next_s, bytes, &outcome.edges);
        }
        Times { contender, completion_s, probes: player.probes }
    }

    fn time(&self, network: &Network, draft: &Draft, bytes: u64) -> SimulatedBroadcast {
        match self.judge {
            Judge::Flows => draft.simulate(network, bytes),
            Judge::Packets => simulate_packets(network, &draft.runs(bytes), draft.sending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shrink_linearly_and_gaps_exponentially() {
        let schedule = BroadcastExperiment::schedule();

        assert_eq!(schedule.len(), 60);
        assert_eq!((schedule[0].1, schedule[30].1, schedule[59].1), (1_000_000, 500_000, 16_666));
        assert_eq!(schedule[1].0, 90.0);
        assert!(schedule[59].0 > 1500.0 && schedule[59].0 < 1700.0);
    }

    #[test]
    fn no_broadcast_beats_the_bound_and_runs_are_reproducible() {
        let experiment = BroadcastExperiment {
            sharing: Sharing::SiteUplinks,
            seed: 5,
            broadcasts: 6,
            judge: Judge::Flows,
            paper_evaluations: 500,
            our_evaluations: 300,
        };
        let contenders = [Contender::MpichG2, Contender::Ours];

        let trial = experiment.run(&contenders);

        for times in &trial.times {
            let pairs = times.completion_s.iter().zip(&trial.bound_s);
            assert!(
                pairs.clone().all(|(time, bound)| time >= bound),
                "{:?}",
                pairs.collect::<Vec<_>>()
            );
        }
        let faster = trial.times[0].completion_s.iter().zip(&trial.times[1].completion_s);
        assert!(faster.filter(|(mpich, ours)| mpich > ours).count() >= 5);
        assert_eq!(trial, experiment.run(&contenders));
    }
}
