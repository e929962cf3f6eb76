//! Parsers of values that several verbs take.

use gridspan_topology::ByteCount;
use std::time::Duration;

/// Smallest value of `--log-limit`: less would start a new file for almost every line.
const LOG_BYTES_MIN: u64 = 4000;

/// Parses a time.
pub(super) fn period(text: &str) -> Result<Duration, &'static str> {
    gridspan::variables::period(text).ok_or("write a time from 1ms, such as 5s or 200ms")
}

/// Parses the silence after which something counts as lost.
pub(super) fn silence(text: &str) -> Result<Duration, &'static str> {
    gridspan::variables::silence(text).ok_or("write a time from 1s to a day, such as 60s")
}

/// Parses the command that replaces `ssh`.
pub(super) fn command_text(text: &str) -> Result<String, &'static str> {
    let is_blank = text.trim().is_empty();
    (!is_blank).then(|| text.to_owned()).ok_or("write a command, such as `ssh -p 2222`")
}

/// Parses the maximum size of a log of tasks, in bytes; 0 for none.
pub(super) fn log_bytes(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    Ok(bytes)
}

/// Parses the maximum size of an output file, in bytes.
pub(super) fn log_limit(text: &str) -> Result<u64, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    let is_sensible = bytes >= LOG_BYTES_MIN;
    is_sensible.then_some(bytes).ok_or_else(|| "write a size from 4kB, such as 64MiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_may_have_any_size() {
        let sizes = ["0", "1B", "64KiB", "unlimited"].map(log_bytes);
        assert_eq!(sizes, [Ok(0), Ok(1), Ok(65_536), Ok(u64::MAX)]);
        assert!(log_bytes("much").is_err());
    }

    #[test]
    fn a_blank_command_is_refused() {
        assert_eq!(command_text("ssh -p 22"), Ok("ssh -p 22".to_owned()));
        for blank in ["", " ", "\t \n"] {
            assert!(command_text(blank).is_err(), "{blank:?}");
        }
    }
}
