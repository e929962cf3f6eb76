//! When checkpoints are made, and how many copies are kept.

use gridspan_topology::Bandwidth;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Mean time between failures of one node, from which [`CheckpointEvery::Auto`] computes its
/// interval: a month.
pub(crate) const NODE_MTBF: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Shortest interval of automatic checkpoints.
const AUTO_MIN: Duration = Duration::from_secs(1);

/// Shortest time without a progress point after which a warning says so.
const QUIET_MIN: Duration = Duration::from_secs(30);

/// How often a job makes checkpoints. One is made at main's next
/// [progress point](crate::Grid::progress) after it is due.
///
/// ```
/// use gridspan_runtime::CheckpointEvery;
/// use std::time::Duration;
///
/// let texts = [CheckpointEvery::Auto, CheckpointEvery::Points(100)].map(|it| it.to_string());
/// assert_eq!(texts, ["auto", "100steps"]);
/// # let _ = CheckpointEvery::Time(Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CheckpointEvery {
    /// After the interval that loses the least time, at least a second. It follows from the cost of
    /// the last checkpoint, which is the time for which PEs stood still plus the time that a PE
    /// took to encode and copy its part, and from the mean time between failures of any node (J. T.
    /// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006,
    /// equation 37). Of the two progress points around that time, the job takes the one that loses
    /// less. The first checkpoint of a job is made at its first progress point.
    Auto,
    /// After this time. The first checkpoint of a job is made at its first progress point.
    Time(Duration),
    /// At every n-th progress point.
    Points(u64),
}

impl fmt::Display for CheckpointEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::Time(time) => write!(f, "{}ns", time.as_nanos()),
            Self::Points(points) => write!(f, "{points}steps"),
        }
    }
}

/// The checkpoints of a job.
///
/// ```
/// use gridspan_runtime::{CheckpointEvery, Checkpoints};
/// use std::time::Duration;
///
/// let often = Checkpoints::every(CheckpointEvery::Time(Duration::from_secs(30)));
/// assert_eq!(often.with_copies(2).copies, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checkpoints {
    /// How often; `None` for never.
    pub every: Option<CheckpointEvery>,
    /// Number of nodes that keep each part in memory: 1 for the node itself, more for others, each on
    /// another host if its site has enough of them. Default 2.
    pub copies: u32,
    /// Whether the second copy is kept at another site, and further ones at yet others. Default no.
    pub protects_site: bool,
    /// Mean time between failures of one node. Default 30 days.
    pub node_mtbf: Duration,
    /// Mean bandwidth that all copies from one site to other sites may take together. Default
    /// unlimited.
    #[serde(default)]
    pub copy_rate: Option<Bandwidth>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { every: None, copies: 2, protects_site: false, node_mtbf: NODE_MTBF, copy_rate: None }
    }
}

impl Checkpoints {
    /// Makes checkpoints this often.
    #[must_use]
    pub fn every(every: CheckpointEvery) -> Self {
        Self { every: Some(every), ..Self::default() }
    }

    /// Sets how often the job makes checkpoints.
    #[must_use]
    pub fn with_every(mut self, every: CheckpointEvery) -> Self {
        self.every = Some(every);
        self
    }

    /// Sets the number of nodes that keep each part, at least 1.
    #[must_use]
    pub fn with_copies(mut self, copies: u32) -> Self {
        self.copies = copies;
        self
    }

    /// Sets whether the second copy is kept at another site, and further ones at yet others.
    #[must_use]
    pub fn protecting_sites(mut self, yes: bool) -> Self {
        self.protects_site = yes;
        self
    }

    /// Sets the mean time between failures of one node.
    #[must_use]
    pub fn with_node_mtbf(mut self, mtbf: Duration) -> Self {
        self.node_mtbf = mtbf;
        self
    }

    /// Sets the mean bandwidth that all copies from one site to other sites may take together.
    #[must_use]
    pub fn with_copy_rate(mut self, rate: Bandwidth) -> Self {
        self.copy_rate = Some(rate);
        self
    }

    /// Whether a checkpoint is due. `since`: time since the last one; `points`: number of progress
    /// points since then, with the present one; `cost`: time that the last one has cost.
    pub(crate) fn is_due(
        &self,
        since: Option<Duration>,
        points: u64,
        cost: Duration,
        nodes: u32,
    ) -> bool {
        match (self.every, since) {
            (None, _) => false,
            (Some(CheckpointEvery::Points(every)), _) => points >= every,
            (Some(_), None) => true,
            (Some(CheckpointEvery::Time(every)), Some(since)) => since >= every,
            (Some(CheckpointEvery::Auto), Some(since)) => {
                self.is_due_now(since, points, self.interval(cost, nodes))
            }
        }
    }

    /// Whether a checkpoint now loses less time than one at the next progress point. A checkpoint
    /// after a time *t* loses about the share *C*/*t* + *t*/2*M* of the time, with the cost *C* and
    /// the mean time between failures *M*. Two times lose the same if their product is the square
    /// of the best one. The next point is assumed to be as far away as the mean distance between
    /// points so far.
    fn is_due_now(&self, since: Duration, points: u64, interval: Duration) -> bool {
        let (now, interval) = (since.as_secs_f64(), interval.as_secs_f64());
        let next = now + now / points.max(1) as f64;
        now * next >= interval * interval
    }

    /// Time without a progress point of main after which a warning says so: three intervals, and at
    /// least [`QUIET_MIN`]. `None` if no checkpoints are made.
    pub(crate) fn patience(&self, cost: Duration, nodes: u32) -> Option<Duration> {
        let interval = match self.every? {
            CheckpointEvery::Auto => self.interval(cost, nodes),
            CheckpointEvery::Time(every) => every,
            CheckpointEvery::Points(_) => Duration::ZERO,
        };
        Some(interval.saturating_mul(3).max(QUIET_MIN))
    }

    /// The mean time until one of this many nodes is lost.
    pub(crate) fn time_to_loss(&self, nodes: u32) -> Duration {
        self.node_mtbf / nodes.max(1)
    }

    /// Time from a checkpoint of this cost to the next one, or `None` if the interval is not
    /// [`CheckpointEvery::Auto`].
    pub(crate) fn auto_interval(&self, cost: Duration, nodes: u32) -> Option<Duration> {
        (self.every == Some(CheckpointEvery::Auto)).then(|| self.interval(cost, nodes))
    }

    /// The interval that loses least time, from the end of a checkpoint to the next: equation 37 of
    /// Daly (2006). For costs that are small against the time between failures, it is that of J. W.
    /// Young, "A first order approximation to the optimum checkpoint interval" (1974).
    fn interval(&self, cost: Duration, nodes: u32) -> Duration {
        let mtbf = self.time_to_loss(nodes).as_secs_f64();
        let cost = cost.as_secs_f64();
        let ratio = cost / (2.0 * mtbf);
        let interval = match ratio < 1.0 {
            true => (2.0 * cost * mtbf).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost,
            false => mtbf,
        };
        Duration::try_from_secs_f64(interval).unwrap_or(Duration::MAX).max(AUTO_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_automatic_interval_is_that_of_daly() {
        let auto = Checkpoints::every(CheckpointEvery::Auto).with_node_mtbf(3_200 * SECOND);
        // Four nodes fail every 800 s; a cost of 1 s gives 39.3 s.
        assert!(!auto.is_due(Some(39 * SECOND), 3_900, SECOND, 4));
        assert!(auto.is_due(Some(40 * SECOND), 4_000, SECOND, 4));
        assert!(auto.is_due(None, 1, SECOND, 4), "the first one");
        assert!(!auto.is_due(Some(SECOND / 2), 1, Duration::ZERO, 4));
        // With a cost of 100 s, Young's interval would be 400 s; the best one is 336 s.
        assert!(!auto.is_due(Some(330 * SECOND), 33_000, 100 * SECOND, 4));
        assert!(auto.is_due(Some(340 * SECOND), 34_000, 100 * SECOND, 4));
        // A checkpoint that takes twice the mean time between failures.
        assert!(auto.is_due(Some(801 * SECOND), 80_100, 1_600 * SECOND, 4));
    }

    #[test]
    fn the_computed_interval_and_the_time_to_a_loss_are_stated() {
        let auto = Checkpoints::every(CheckpointEvery::Auto).with_node_mtbf(3_200 * SECOND);
        assert_eq!(auto.time_to_loss(4), 800 * SECOND);
        let interval = auto.auto_interval(SECOND, 4).unwrap();
        assert!((39 * SECOND..40 * SECOND).contains(&interval), "{interval:?}");
        let by_time = auto.with_every(CheckpointEvery::Time(SECOND));
        assert_eq!(by_time.auto_interval(SECOND, 4), None);
    }

    #[test]
    fn the_better_of_two_progress_points_is_taken() {
        let auto = Checkpoints::every(CheckpointEvery::Auto).with_node_mtbf(3_200 * SECOND);
        // The best interval is 39.3 s. A checkpoint each 30 s loses 1/30 + 30/1600 of the time, and
        // one each 60 s loses 1/60 + 60/1600.
        assert!(auto.is_due(Some(30 * SECOND), 1, SECOND, 4));
        // One each 20 s loses more than one each 40 s.
        assert!(!auto.is_due(Some(20 * SECOND), 1, SECOND, 4));
    }

    #[test]
    fn checkpoints_are_due_by_time_or_by_points() {
        let by_time = Checkpoints::every(CheckpointEvery::Time(3 * SECOND));
        assert!(!by_time.is_due(Some(2 * SECOND), 9, SECOND, 1));
        assert!(by_time.is_due(Some(3 * SECOND), 1, SECOND, 1));
        let by_points = Checkpoints::every(CheckpointEvery::Points(5));
        assert!(!by_points.is_due(None, 4, SECOND, 1));
        assert!(by_points.is_due(Some(SECOND), 5, SECOND, 1));
        assert!(!Checkpoints::default().is_due(None, 9, SECOND, 1));
    }

    #[test]
    fn main_has_three_intervals_and_at_least_half_a_minute_for_a_progress_point() {
        let patience = |every| Checkpoints::every(every).patience(Duration::ZERO, 4);
        assert_eq!(patience(CheckpointEvery::Time(SECOND)), Some(30 * SECOND));
        assert_eq!(patience(CheckpointEvery::Time(60 * SECOND)), Some(180 * SECOND));
        assert_eq!(patience(CheckpointEvery::Points(7)), Some(30 * SECOND));
        assert_eq!(Checkpoints::default().patience(SECOND, 4), None);
    }
}
