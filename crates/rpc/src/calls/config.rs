//! The settings of a client, and the file they may come from.

use super::error::RpcError;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// A timeout longer than any job, for questions whose answer has no time limit.
pub(super) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The settings of a client.
///
/// ```
/// use gridspan_rpc::calls::Config;
/// use std::time::Duration;
///
/// let config = Config::parse("timeout = \"30s\"\nattempts = 2")?;
/// assert_eq!(config, Config::default().with_timeout(Duration::from_secs(30)).with_attempts(2));
/// # Ok::<(), gridspan_rpc::calls::RpcError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Time that a server has to answer before the client tries the next. From 1 ms to a year; an
    /// hour by default.
    pub timeout: Duration,
    /// Maximum number of servers to try for a call. At least 1; 3 by default.
    pub attempts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(3600), attempts: 3 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    timeout: Option<String>,
    attempts: Option<u32>,
}

impl Config {
    /// Sets the time that a server has to answer, from 1 ms to a year.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of servers to try for a call, at least 1.
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Parses settings in TOML, such as `timeout = "30s"` and `attempts = 2`.
    ///
    /// # Errors
    ///
    /// [`RpcError::ConfigFileError`] if the text is not TOML, has another key, or has a value that
    /// is invalid or out of its bounds.
    pub fn parse(text: &str) -> Result<Self, RpcError> {
        let wrong = |reason: String| RpcError::ConfigFileError { reason };
        let stored: Stored = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let default = Self::default();
        let timeout = match stored.timeout {
            None => default.timeout,
            Some(text) => gridspan_topology::parse_duration(&text)
                .map_err(|error| wrong(format!("timeout: {error}")))?,
        };
        let config = Self { timeout, attempts: stored.attempts.unwrap_or(default.attempts) };
        config.check()?;
        Ok(config)
    }

    /// Reads settings from a file.
    ///
    /// # Errors
    ///
    /// [`RpcError::ConfigFileNotFound`] if there is no such file; [`RpcError::ConfigFileError`] if
    /// it cannot be read or is not UTF-8, and as from [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, RpcError> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                RpcError::ConfigFileNotFound { path: path.display().to_string() }
            }
            _ => RpcError::ConfigFileError { reason: format!("{}: {error}", path.display()) },
        })?;
        Self::parse(&text)
    }

    /// Checks that all settings are within their bounds; the error names the one that is not.
    ///
    /// # Errors
    ///
    /// [`RpcError::ConfigFileError`] if `timeout` is not from 1 ms to a year, or `attempts` is 0.
    pub fn check(&self) -> Result<(), RpcError> {
        let range = Duration::from_millis(1)..=Duration::from_secs(365 * 86_400);
        let reason = match self {
            _ if !range.contains(&self.timeout) => "set a timeout from 1ms to a year",
            _ if self.attempts == 0 => "set at least one attempt",
            _ => return Ok(()),
        };
        Err(RpcError::ConfigFileError { reason: reason.to_owned() })
    }
}
