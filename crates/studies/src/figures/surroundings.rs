//! The surroundings of a run of measurements: the machine, the day, the commit, and the files of
//! records.

use super::record::{FigureRecord, FigureRun, parse_records};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

impl FigureRun {
    /// Describes the run of this process. Values that the system does not give are left out.
    pub fn of_this_process() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let id = format!("{}-{}", now.as_millis(), std::process::id());
        let compiler = output("rustc", &["--version"]).unwrap_or_default();
        // `rustc 1.90.0 (hash date)`
        let compiler = compiler.split(" (").next().unwrap_or_default().to_owned();
        let date = date_of(now.as_secs());
        Self { id, date, commit: commit(), machine: machine(), compiler }
    }
}

/// Returns the folder that cargo builds into, given the path of a bench or an example.
pub fn target_folder(program: &Path) -> PathBuf {
    // The program is in `release/deps` or `release/examples` there.
    program.ancestors().nth(3).unwrap_or(Path::new("target")).to_path_buf()
}

/// Returns the file with the records of a suite.
pub fn records_path(target: &Path, suite: &str) -> PathBuf {
    target.join("comparisons").join(format!("{suite}.jsonl"))
}

/// Reads the records of a file; none if there is no file. Fails if it cannot be read.
pub fn read_records(path: &Path) -> io::Result<Vec<FigureRecord>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(parse_records(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Appends a record to a file, which is created with its folder. Fails if it cannot be written.
pub fn append_record(path: &Path, record: &FigureRecord) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let line = serde_json::to_string(record)? + "\n";
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())
}

/// Returns the first argument that is neither an option of a bench nor the value of one: the filter
/// of titles.
pub fn first_filter(arguments: impl IntoIterator<Item = String>) -> Option<String> {
    let mut arguments = arguments.into_iter();
    loop {
        let argument = arguments.next()?;
        if OPTIONS_WITH_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with('-') {
            return Some(argument);
        }
    }
}

/// Criterion's options whose value is the next argument.
const OPTIONS_WITH_VALUE: [&str; 19] = [
    "-b",
    "-c",
    "-s",
    "--baseline",
    "--baseline-lenient",
    "--color",
    "--confidence-level",
    "--format",
    "--load-baseline",
    "--measurement-time",
    "--noise-threshold",
    "--nresamples",
    "--output-format",
    "--plotting-backend",
    "--profile-time",
    "--sample-size",
    "--save-baseline",
    "--significance-level",
    "--warm-up-time",
];

/// Returns the standard output of a command that succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn commit() -> String {
    const CODE: [&str; 5] = ["src", "crates", "benches", "Cargo.toml", "Cargo.lock"];
    let git = |words: &[&str]| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        output("git", &[&["-C", root], words].concat())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return String::new() };
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changes = git(&[&status[..], &CODE].concat());
    let is_changed = changes.is_none_or(|changes| !changes.is_empty());
    if is_changed { format!("{commit}+") } else { commit }
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    };
    let processor = value(&read("/proc/cpuinfo"), "model name");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = value(&read("/proc/meminfo"), "MemTotal").and_then(|text| {
        let kibibytes: f64 = text.trim_end_matches(" kB").parse().ok()?;
        Some(format!("{:.1} GiB", kibibytes / f64::from(1 << 20)))
    });
    let kernel = output("uname", &["-sr"]);
    let parts = [processor, Some(format!("{cores} cores")), memory, kernel];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the day, in UTC, of a time in seconds since 1970.
fn date_of(seconds: u64) -> String {
    // The algorithm `civil_from_days` of Hinnant, "chrono-compatible low-level date algorithms":
    // years begin in March, so that a leap day is the last day of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_not_one_without_records() {
        let name = format!("gridspan-records-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert!(read_records(&path).unwrap().is_empty());

        fs::write(&path, [0xff, b'\n']).unwrap();
        let read = read_records(&path);
        fs::remove_file(&path).unwrap();

        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn values_of_options_are_no_filter_of_titles() {
        let filter = |line: &str| first_filter(line.split(' ').map(str::to_owned));
        assert_eq!(filter("--bench ring").as_deref(), Some("ring"));
        assert_eq!(filter("--bench --sample-size 20 ring").as_deref(), Some("ring"));
        assert_eq!(filter("--sample-size 20 --bench"), None);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS +%F`.
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_795_642_545, "2026-11-25"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }

    #[test]
    fn programs_of_cargo_are_three_folders_below_its_target() {
        let folder = target_folder(Path::new("/there/target/release/deps/local-0123"));
        assert_eq!(folder, Path::new("/there/target"));
    }
}
