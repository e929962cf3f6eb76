//! What the processes that this one has started have used.

use std::error::Error;
use std::fs;

/// Returns the processor seconds, user and system, of the children of this process that have ended
/// and been waited for, and of the descendants that those have waited for. Linux only; the unit of
/// the count is 10 ms.
///
/// # Errors
///
/// If the system does not say it.
pub fn children_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let mut ticks = fields.split_ascii_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let (user, system) = (ticks.next().ok_or("no time")??, ticks.next().ok_or("no time")??);
    // Linux counts in hundredths of a second, whatever its own clock does.
    Ok((user + system) / 100.0)
}
