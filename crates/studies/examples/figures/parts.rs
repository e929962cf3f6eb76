//! The parts of the figures: the suites of the benches, and commands.

use crate::programs::Programs;
use crate::{broadcasts, campaign};
use gridspan_studies::figures::{PageRun, records_path};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A part, measured as a whole.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Maximum time of the measurement.
    pub(crate) limit: Duration,
    pub(crate) work: Work,
}

/// How a part is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// By the bench of this name, with a filter.
    Bench(Option<&'static str>),
    /// By `gridctl bench bcast`.
    Broadcasts,
    /// By the fault campaign, in this process.
    Campaign,
}

const fn part(name: &'static str, limit_s: u64, work: Work) -> Part {
    Part { name, limit: Duration::from_secs(limit_s), work }
}

/// All parts, in order. Their limits add up to at most 30 minutes.
pub(crate) const PARTS: &[Part] = &[
    part("local", 110, Work::Bench(None)),
    part("network", 140, Work::Bench(None)),
    part("wide_area", 200, Work::Bench(None)),
    part("topology", 60, Work::Bench(None)),
    part("balance", 60, Work::Bench(Some("cut"))),
    part("tasks", 80, Work::Bench(None)),
    part("calls", 340, Work::Bench(None)),
    part("simulator", 160, Work::Bench(None)),
    part("stealing", 30, Work::Bench(Some("thousand"))),
    part("bcast", 60, Work::Broadcasts),
    part("campaign", 500, Work::Campaign),
];

impl Part {
    /// Measures the part. Fails if its program fails, or takes longer than the limit.
    pub(crate) fn measure(
        &self,
        programs: &Programs,
        root: &Path,
        target: &Path,
    ) -> Result<PageRun, Box<dyn Error>> {
        let begin = Instant::now();
        let records = match self.work {
            Work::Bench(filter) => {
                let path = records_path(target, self.name);
                let before = fs::read_to_string(&path).unwrap_or_default().len();
                let arguments: Vec<&str> = ["--bench"].into_iter().chain(filter).collect();
                programs.run(self.name, &arguments, root, self.limit)?;
                let text = fs::read_to_string(&path)?;
                gridspan_studies::figures::parse_records(text.get(before..).unwrap_or_default())
            }
            Work::Broadcasts => broadcasts::measure(programs, root, self.limit)?,
            Work::Campaign => campaign::measure(self.limit)?,
        };
        Ok(PageRun { suite: self.name.to_owned(), took_s: begin.elapsed().as_secs(), records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_studies::figures::ROWS;

    #[test]
    fn all_parts_together_take_at_most_thirty_minutes() {
        let sum: Duration = PARTS.iter().map(|part| part.limit).sum();
        assert!(sum <= crate::TIME_MAX, "{sum:?}");
    }

    #[test]
    fn every_row_of_the_page_has_its_part() {
        for row in ROWS {
            assert!(PARTS.iter().any(|part| part.name == row.suite), "{}", row.figure);
        }
    }
}
