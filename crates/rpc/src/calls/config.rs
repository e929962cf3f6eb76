//! The settings of a client, and the file they may come from.

use super::error::RpcError;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Longer than any job: for questions that are answered when something has happened.
pub(super) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a server has to answer before the next is tried. Default an hour; from 1 ms to a
    /// year.
    pub timeout: Duration,
    /// How many servers are tried for a call at most. Default 3; from 1.
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
    /// Settings as TOML, such as `timeout = "30s"` and `attempts = 2`.
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

    /// Settings from a file.
    pub fn read(path: &Path) -> Result<Self, RpcError> {
        let text = std::fs::read_to_string(path)
            .map_err(|_| RpcError::ConfigFileNotFound { path: path.display().to_string() })?;
        Self::parse(&text)
    }

    /// Whether all settings are within their bounds; an error that says which are not.
    pub fn check(&self) -> Result<(), RpcError> {
        let range = Duration::from_millis(1)..=Duration::from_secs(365 * 86_400);
        let reason = match self {
            _ if !range.contains(&self.timeout) => "write a timeout from 1ms to a year",
            _ if self.attempts == 0 => "write at least one attempt",
            _ => return Ok(()),
        };
        Err(RpcError::ConfigFileError { reason: reason.to_owned() })
    }
}
