//! Recordings of jobs: what each PE did, when, and which message caused it.
//!
//! **A recording**
//! - [`Recording`]: all of it, read from a folder or written to one.
//! - [`Header`]: facts that are known before the job runs; [`RecordedNode`], [`RecordedPe`],
//!   [`RecordedHost`], [`RecordedLink`], [`DriverKind`].
//! - [`RecordedEvent`], [`What`], [`RebalanceTrigger`], [`RecordedHop`]: events of the whole job.
//!   [`JobEnding`]: how it ended.
//! - [`PeRecord`]: what one PE has recorded: [`Span`]s with their [`SpanCause`], [`Bin`]s of time
//!   with [`SentTo`], a [`TypeTotal`] of each actor type, a [`TimedSpan`] for each message of a
//!   timer, and on main's PE the [`MainAnswer`]s to requests of main, each with its [`MainWait`].
//!
//! **To make one**
//! - [`Recorder`]: collects for one PE, within a budget of bytes; [`RecorderConfig`], [`TimeUse`].
//! - [`RecordingFolder`]: writes the files of a job piece by piece. [`encode_records`],
//!   [`decode_records`]: the file of one node as bytes.
//!
//! All times are nanoseconds since the start of the job at the clock of the root, which is node 0.
//!
//! # Files
//!
//! | file | content |
//! | --- | --- |
//! | `recording.json` | the [`Header`], as JSON |
//! | `happenings.jsonl` | one [`RecordedEvent`] per line, as JSON |
//! | `node-N.rec` | the [`PeRecord`]s of node N, as [`encode_records`] writes them |
//! | `ending.json` | the [`JobEnding`], as JSON; written last |
//!
//! If `ending.json` is missing, the job was cut off; if the file of a node is missing, the job lost
//! the node. [`Recording::read`] accepts both, and reports the missing nodes.
//!
//! # Versions
//!
//! A reader reads recordings of its [`VERSION`] and of all earlier ones.
//!
//! | version | adds |
//! | --- | --- |
//! | 1 | |
//! | 2 | the processors of hosts |
//! | 3 | ends of processes, broadcasts, answers to main, handlers that set timers, dropped events |
//!
//! A new optional field of the header or of the ending needs no new version: readers ignore fields
//! that they do not know, and take `None` for fields that are absent.
//!
//! # Budget
//!
//! Totals by type and bins of time cover the whole run. So do answers to main and spans of timers,
//! unless one of these lists exceeds its part of the budget: then the whole list is dropped. Bins
//! are never dropped: when there are too many, neighbours are merged and the width doubles. Spans
//! are dropped by *windows* of time when they exceed the budget: first every second window, then
//! three of four, and so on. All PEs have the same windows. If a PE keeps fewer windows than
//! others, the others keep these windows, too. So within the windows that all PEs keep, the span
//! that sent a message is kept as well.
//!
//! Events have a separate bound: [`RecordingFolder::add`]. [`Recording::dropped_share`] and
//! [`Recording::dropped_events`] say what was dropped.

mod answer;
mod clocks;
mod error;
mod event;
mod folder;
mod frame;
mod header;
mod pe_record;
mod recorder;
mod recording;
mod validity;

pub use answer::{MainAnswer, MainWait};
pub use error::RecordError;
pub use event::{JobEnding, RebalanceTrigger, RecordedEvent, RecordedHop, What};
pub use folder::RecordingFolder;
pub use frame::{FrameError, decode_records, encode_records};
pub use header::{
    DriverKind, Header, RecordedHost, RecordedLink, RecordedNode, RecordedPe, VERSION,
};
pub use pe_record::{
    BINS_MAX, Bin, OTHER, PeRecord, SentTo, Span, SpanCause, TASK, TimedSpan, TypeTotal,
};
pub use recorder::{Recorder, RecorderConfig, TimeUse};
pub use recording::Recording;
