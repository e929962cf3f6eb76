//! A hierarchy in a few lines of text.

use super::group::Level;
use super::tree::Hierarchy;
use std::fmt;
use std::time::Duration;

/// Writes one line for the whole and one for each level.
///
/// ```
/// use gridspan_topology::{GridSpec, Hierarchy};
///
/// let grid = GridSpec::from_emulate("2x4,wan=32ms")?;
/// let text = Hierarchy::from_grid(&grid).to_string();
///
/// assert_eq!(text.lines().nth(1), Some("level 0: 1 group, RTT 64.0ms, 1gbit"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", count(self.nodes().len(), "node"), count(self.depth(), "level"))?;
        for (number, level) in self.levels().enumerate() {
            write!(f, "\nlevel {number}: {}", count(self.groups_at(number).len(), "group"))?;
            write_level(f, level)?;
        }
        Ok(())
    }
}

fn write_level(f: &mut fmt::Formatter<'_>, level: &Level) -> fmt::Result {
    if let Some(range) = level.rtt {
        write!(f, ", RTT {}", show_rtt(range.median))?;
        if range.min != range.max {
            write!(f, " ({} to {})", show_rtt(range.min), show_rtt(range.max))?;
        }
    }
    if let Some(range) = level.bandwidth.filter(|range| !range.median.is_unlimited()) {
        write!(f, ", {}", range.median)?;
    }
    if level.confidence < 1.0 {
        write!(f, ", confidence {:.2}", level.confidence)?;
    }
    Ok(())
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Formats a round trip in whole microseconds below 1 ms, and in milliseconds from there on.
pub(crate) fn show_rtt(rtt: Duration) -> String {
    let ms = rtt.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 0.9995 => format!("{:.0}us", ms * 1e3),
        _ if ms < 9.995 => format!("{ms:.2}ms"),
        _ => format!("{ms:.1}ms"),
    }
}
