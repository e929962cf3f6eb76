//! The entry through which a job is started by name.

use clap::Parser;
use gridspan_runtime::Job;
use gridspan_topology::ByteCount;

/// Largest minimum time of a measurement in seconds: six times that of published results.
const MEASUREMENT_S_MAX: f64 = 60.0;

/// A job that can be started by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the job.
    pub name: &'static str,
    /// Description of the job in one line.
    pub about: &'static str,
    /// Builds the job from the arguments that follow its name. The error is ready to print; a
    /// request for help is also returned as an error.
    pub build: fn(&[String]) -> Result<Job, clap::Error>,
}

/// Parses the arguments of the job called `name`.
pub(crate) fn parse<T: Parser>(name: &'static str, arguments: &[String]) -> Result<T, clap::Error> {
    T::try_parse_from(std::iter::once(name).chain(arguments.iter().map(String::as_str)))
}

/// Parses the size of a message, from one byte to `max` bytes. `max` is a whole number of MiB,
/// because the error states it in MiB.
pub(crate) fn message_size(text: &str, max: u64) -> Result<usize, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    match usize::try_from(bytes) {
        Ok(size) if (1..=max).contains(&bytes) => Ok(size),
        _ => Err(format!("a message has at least one byte and at most {}MiB", max >> 20)),
    }
}

/// Parses the minimum time of a measurement in seconds, from 0 to [`MEASUREMENT_S_MAX`].
pub(crate) fn measurement_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MEASUREMENT_S_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("write a number of seconds from 0 to {MEASUREMENT_S_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_takes_from_no_time_to_a_minute() {
        assert_eq!(["0", "0.05", "60"].map(measurement_seconds), [Ok(0.0), Ok(0.05), Ok(60.0)]);
        for text in ["-1", "60.1", "NaN", "inf", "1s", ""] {
            let error = measurement_seconds(text).unwrap_err();
            assert_eq!(error, "write a number of seconds from 0 to 60", "{text}");
        }
    }
}
