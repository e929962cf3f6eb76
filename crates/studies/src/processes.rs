//! Finds the processes that a study has started, and measures their processor time and that of this
//! process.

use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fs;

/// Environment variable that holds the number of the node that a process runs.
const NODE: &str = "GRIDSPAN_NODE";

/// Returns the processor seconds of all threads of this process.
pub fn process_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the processes that a process has started and that have not been waited for, by ascending
/// number. Linux only; empty elsewhere.
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let child = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let process: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let status = fs::read_to_string(path.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        (line.trim().parse() == Ok(parent)).then_some(process)
    };
    let mut children: Vec<u32> = entries.filter_map(child).collect();
    children.sort_unstable();
    children
}

/// Returns the processes of nodes that a launcher has started on this machine and that run, in the
/// order of their nodes. Linux only; empty elsewhere.
pub fn node_processes(launcher: u32) -> Vec<u32> {
    // Process ids wrap around, so their order is not that of the nodes.
    let numbered = |process| Some((number_of_node(process)?, process));
    let mut found: Vec<(u32, u32)> = children(launcher).into_iter().filter_map(numbered).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, process)| process).collect()
}

/// Returns the number of the node that a process runs, from its environment.
fn number_of_node(process: u32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let begin = format!("{NODE}=");
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(begin.as_bytes()))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A process and its processor times, as a line of `/proc/PID/stat` has them. Linux only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessTimes {
    /// The process.
    pub process: u32,
    /// The process that started it, or that adopted it when that process ended.
    pub parent: u32,
    /// Processor seconds of its threads, in steps of 10 ms.
    pub own_s: f64,
    /// Processor seconds of its children that have ended and were waited for, with those of their
    /// own children. Linux adds them in nanoseconds, and cuts off the sum to steps of 10 ms.
    pub children_s: f64,
}

impl ProcessTimes {
    /// Reads a line of `/proc/PID/stat`; `None` if it is another text.
    pub fn parse(line: &str) -> Option<Self> {
        let (process, rest) = line.split_once(" (")?;
        // The name of the program, in parentheses, may have spaces and parentheses.
        let (_, fields) = rest.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace().skip(1);
        let (process, parent) = (process.parse().ok()?, fields.next()?.parse().ok()?);
        // Nine fields, such as the terminal and the page faults, are between.
        let mut ticks = fields.skip(9).map(str::parse::<f64>);
        let mut seconds = || {
            let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
            // Linux reports hundredths of a second, whatever the rate of its internal timer.
            Some((user + system) / 100.0)
        };
        Some(Self { process, parent, own_s: seconds()?, children_s: seconds()? })
    }

    /// Returns those of all processes of this machine. Empty where there is no `/proc`.
    pub fn of_all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            // `self` and `thread-self` would count this process more than once.
            path.file_name()?.to_str()?.parse::<u32>().ok()?;
            // A process may end before it is read.
            let line = fs::read(path.join("stat")).ok()?;
            Self::parse(&String::from_utf8_lossy(&line))
        };
        entries.filter_map(read).collect()
    }
}

/// Returns the processor seconds of the children of this process that have ended and were waited
/// for, with those of their children. In steps of 10 ms; Linux only.
///
/// # Errors
///
/// If the system does not report them.
pub fn children_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let times = ProcessTimes::parse(&stat).ok_or("/proc/self/stat has no times")?;
    Ok(times.children_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan::variables;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_until_it_was_waited_for() {
        if !cfg!(target_os = "linux") {
            return;
        }
        // `cat` ends when its input ends.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn processes_of_nodes_are_in_the_order_of_their_nodes() {
        if !cfg!(target_os = "linux") {
            return;
        }
        // Each `cat` ends when its input ends.
        let mut started =
            [(variables::NODE, "12"), (variables::NODE, "3"), (variables::NODES, "2")].map(
                |(name, value)| {
                    Command::new("cat").env(name, value).stdin(Stdio::piped()).spawn().unwrap()
                },
            );
        let [twelfth, third, _] = started.each_ref().map(|child| child.id());
        assert_eq!(node_processes(std::process::id()), [third, twelfth]);
        for child in &mut started {
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_time_of_this_process_grows_while_it_computes() {
        let before = process_seconds();
        let sum: u64 = (0..1_000_000).map(std::hint::black_box).sum();
        assert!(process_seconds() > before, "{sum}");
    }

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

    #[test]
    fn times_are_read_from_a_line_of_proc() {
        // The name of the program is `a ) S 1 (b`.
        let line = "4711 (a ) S 1 (b) Z 12 4711 4711 0 -1 4194560 1277 39000 7 8 250 125 1000 500 \
                    20 0 4 0 81133 7995392 1088 18446744073709551615\n";
        let times = ProcessTimes { process: 4711, parent: 12, own_s: 3.75, children_s: 15.0 };
        assert_eq!(ProcessTimes::parse(line), Some(times));
        assert_eq!(ProcessTimes::parse("cpu  250 125 1000 500 20 0 4 0 81133 7995392 1088"), None);
        assert_eq!(ProcessTimes::parse("4711 (sh) S 12 4711 4711 0 -1 4194560 1 2 3 4 5 6"), None);
    }

    #[test]
    fn this_process_is_among_all_once_with_its_parent() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let all = ProcessTimes::of_all();
        let own = all.iter().filter(|times| times.process == std::process::id());
        let parents = own.map(|times| times.parent).collect::<Vec<u32>>();
        assert_eq!(parents, [std::os::unix::process::parent_id()]);
    }
}
