//! The recording that the user requests with the flags of a job.

use crate::args::RecordFlags;
use crate::error::CliError;
use gridspan_record::{RecordError, RecordingFolder};
use gridspan_runtime::pe::RecordSettings;
use gridspan_topology::GridSpec;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of bytes for all nodes together.
const ALL_BYTES_MAX: u64 = 1_000_000_000;

/// A recording to make.
#[derive(Clone, Debug)]
pub(crate) struct RecordPlan {
    pub(super) folder: PathBuf,
    pub(super) node_bytes: u64,
    pub(super) command: Vec<String>,
    pub(super) seed: u64,
    pub(super) started: Instant,
    pub(super) started_unix: Duration,
}

impl RecordPlan {
    /// Returns the recording that the flags request, if any, of a job that starts now. Fails if its
    /// folder has files.
    pub(crate) fn new(
        flags: &RecordFlags,
        spec: &GridSpec,
        seed: Option<u64>,
    ) -> Result<Option<Self>, CliError> {
        let Some(folder) = &flags.record else { return Ok(None) };
        RecordingFolder::check(folder).map_err(not_created)?;
        let nodes = u64::from(spec.layout().node_count().max(1));
        let words = std::env::args_os().skip(1);
        Ok(Some(Self {
            folder: folder.clone(),
            node_bytes: flags.record_bytes.min(ALL_BYTES_MAX / nodes),
            command: words.map(|word| word.to_string_lossy().into_owned()).collect(),
            seed: seed.unwrap_or(0),
            started: Instant::now(),
            started_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }))
    }

    /// The settings for the processes of the job.
    pub(crate) fn settings(&self, is_simulated: bool) -> RecordSettings {
        let mut settings = RecordSettings::new(self.node_bytes);
        let started = u64::try_from(self.started_unix.as_nanos()).ok();
        settings.started_unix_ns = started.filter(|_| !is_simulated);
        settings
    }
}

/// The error of a recording that cannot be created. An error of the system, such as a full disk, is
/// no mistake in the arguments.
pub(super) fn not_created(error: RecordError) -> CliError {
    match error {
        RecordError::Io { path, error } => CliError::Write { path, error },
        error => error.into(),
    }
}
