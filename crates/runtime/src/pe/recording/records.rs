//! How a job is recorded, and the recorders of the PEs of this process between runs.

use gridspan_record::{PeRecord, Recorder, RecorderConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a job is recorded. Equal on all nodes of a run.
///
/// ```
/// use gridspan_runtime::pe::RecordSettings;
///
/// let settings = RecordSettings::new(16 << 20);
/// assert_eq!(settings.started_unix_ns, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordSettings {
    /// Budget of a node in bytes, which its PEs share.
    pub node_bytes: u64,
    /// When the job started, in nanoseconds since 1970; `None` if it starts with the driver or runs
    /// in virtual time.
    pub started_unix_ns: Option<u64>,
    /// Number of the run of the job, from 0.
    #[serde(default)]
    pub run: u32,
    /// The numbers of PEs and sites in the recording; `None`: those in the layout of the job.
    #[serde(default)]
    pub places: Option<RecordedPlaces>,
}

/// Number of bits for the span numbers of a run.
const SPANS_OF_RUN: u32 = 40;

/// The numbers of the PEs and sites of a run in the recording of the job. After a loss, or a change
/// of the nodes, a run has other numbers than the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPlaces {
    /// By PE of the run.
    pub pes: Vec<u32>,
    /// By site of the run.
    pub sites: Vec<u32>,
}

impl RecordSettings {
    /// Creates settings with a budget of `node_bytes` for each node.
    pub fn new(node_bytes: u64) -> Self {
        Self { node_bytes, started_unix_ns: None, run: 0, places: None }
    }

    /// The number of the first span of a PE whose process began with this run. Spans of processes
    /// that began with an earlier run have lower numbers.
    pub(crate) fn first_span(&self) -> u64 {
        u64::from(self.run) << SPANS_OF_RUN
    }

    /// The number of a PE in the recording.
    pub(crate) fn pe(&self, pe: u32) -> u32 {
        let places = self.places.as_ref();
        places.and_then(|places| places.pes.get(pe as usize)).copied().unwrap_or(pe)
    }

    /// The number of a site in the recording.
    pub(crate) fn site(&self, site: u32) -> u32 {
        let places = self.places.as_ref();
        places.and_then(|places| places.sites.get(site as usize)).copied().unwrap_or(site)
    }
}

/// The recording of the PEs of this process. Clones share it.
///
/// ```
/// use gridspan_runtime::pe::{RecordSettings, Records};
/// use gridspan_runtime::{Grid, Job, driver};
///
/// let records = Records::new(RecordSettings::new(1 << 20));
/// let job = Job::new("nothing").recording(&records).main(async |_: Grid| Ok(()));
/// driver::embedded::run(job, 2).unwrap();
/// assert_eq!(records.take().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Records {
    settings: Arc<RecordSettings>,
    /// By the number of the PE in the recording.
    recorders: Arc<Mutex<BTreeMap<u32, Recorder>>>,
}

impl Records {
    /// Creates the recording of a job that has not begun.
    pub fn new(settings: RecordSettings) -> Self {
        Self { settings: Arc::new(settings), recorders: Arc::default() }
    }

    /// The same recording, for another run of the job.
    #[must_use]
    pub fn of_run(&self, settings: RecordSettings) -> Self {
        Self { settings: Arc::new(settings), recorders: self.recorders.clone() }
    }

    /// How the job is recorded.
    pub fn settings(&self) -> &RecordSettings {
        &self.settings
    }

    /// Takes the records of the PEs, in the order of PEs. Call it when no run of the job is under
    /// way.
    pub fn take(&self) -> Vec<PeRecord> {
        std::mem::take(&mut *self.lock()).into_values().map(Recorder::into_record).collect()
    }

    /// Returns the recorder of a PE, with what it has recorded in earlier runs.
    pub(crate) fn begin(&self, config: RecorderConfig) -> Recorder {
        let kept = self.lock().remove(&config.pe);
        kept.unwrap_or_else(|| Recorder::new(config))
    }

    /// Keeps the recorder of a PE whose run has ended.
    pub(crate) fn keep(&self, recorder: Recorder) {
        self.lock().insert(recorder.pe(), recorder);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Recorder>> {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
