//! The quantities that are measured over a link, and the jobs that measure them.

use gridspan_studies::figures::FigureUnit;
use gridspan_topology::Bandwidth;

/// Messages of a stream before the receiver answers, in the job `ranks`.
const WINDOW: u64 = 64;
/// Bounds of the size of these messages in the job.
const BYTES: (u64, u64) = (1_000, 4 << 20);
/// Intended time of a stream at the rate of the link: many round trips, so that the beginning of
/// the connection counts for little.
const STREAM_SECONDS: f64 = 2.0;
/// Number of steps of molecular dynamics; the job prints their median time.
const STEPS: &str = "40";

/// A quantity that a job reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    RoundTrip,
    Stream,
    Step,
}

pub(crate) const QUANTITIES: [Quantity; 3] =
    [Quantity::RoundTrip, Quantity::Stream, Quantity::Step];

impl Quantity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "round trip",
            Self::Stream => "stream",
            Self::Step => "step",
        }
    }

    /// The job and its arguments.
    pub(crate) fn job(self, rate: Bandwidth) -> Vec<String> {
        let words =
            |words: &[&str]| -> Vec<String> { words.iter().map(|&word| word.to_owned()).collect() };
        match self {
            Self::RoundTrip => words(&["pingpong", "--seconds", "1", "--max-bytes", "32"]),
            Self::Stream => {
                let bytes = format!("{}B", message_bytes(rate));
                let seconds = STREAM_SECONDS.to_string();
                let ranks = ["ranks", "--ranks", "2", "--json", "--no-collectives"];
                words(&[&ranks[..], &["--bytes", &bytes, "--seconds", &seconds]].concat())
            }
            Self::Step => words(&["leanmd", "--quiet", "--steps", STEPS]),
        }
    }

    /// The unit of the times that are read.
    pub(crate) fn unit(self, rate: Bandwidth) -> FigureUnit {
        match self {
            Self::RoundTrip | Self::Step => FigureUnit::Time,
            Self::Stream => FigureUnit::Bits(WINDOW * message_bytes(rate)),
        }
    }

    /// Reads the time in nanoseconds from the output of `gridctl run` for the job.
    pub(crate) fn read(self, printed: &str) -> Option<f64> {
        printed.lines().find_map(|line| self.read_line(line))
    }

    fn read_line(self, line: &str) -> Option<f64> {
        match self {
            Self::RoundTrip => {
                let row = line.split_once('│').map_or(line, |(_, row)| row);
                let mut words = row.split_ascii_whitespace();
                let _bytes: u64 = words.next()?.parse().ok()?;
                // One way, in microseconds.
                Some(words.next()?.parse::<f64>().ok()? * 2e3)
            }
            Self::Stream => {
                let figure: serde_json::Value =
                    serde_json::from_str(&line[line.find('{')?..]).ok()?;
                (figure["operation"] == "window").then(|| figure["ns"].as_f64())?
            }
            Self::Step => {
                let (_, median) = line.split_once("median ")?;
                let (ms, _) = median.split_once(" ms a step")?;
                Some(ms.parse::<f64>().ok()? * 1e6)
            }
        }
    }
}

/// Size of the messages of a stream.
fn message_bytes(rate: Bandwidth) -> u64 {
    let bytes = rate.bits_per_second() as f64 / 8.0 * STREAM_SECONDS / WINDOW as f64;
    (bytes as u64).clamp(BYTES.0, BYTES.1)
}
