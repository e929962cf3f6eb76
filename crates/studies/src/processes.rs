//! The processor time of programs that a study has started.

use std::error::Error;

/// Returns the processor seconds of the children of this process that have ended and were waited
/// for, with those of their own children. In steps of 10 ms; Linux only.
///
/// # Errors
///
/// If the system does not tell them.
pub fn children_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let mut ticks = fields.split_ascii_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let (user, system) = (ticks.next().ok_or("no time")??, ticks.next().ok_or("no time")??);
    // Linux counts in hundredths of a second, whatever its own clock does.
    Ok((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::children_seconds;
    use std::process::Command;

    #[test]
    fn the_time_of_a_child_counts_once_it_was_waited_for() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let before = children_seconds().unwrap();
        // Several times the step of 10 ms, however fast the machine is.
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(children_seconds().unwrap() > before);
    }
}
