//! What a grid is made of: sites, hosts and the links between them, from code or from text.
//!
//! - [`GridSpec`] is the description every driver starts from (`grid.rs`).
//! - [`SiteSpec`] and [`HostSpec`] are its parts, with their limits (`site.rs`).
//! - [`GridSpec::from_toml`] reads a grid file (`file.rs`, over `source.rs`, which knows where in
//!   the text each value stands, and `host_range.rs`, which expands `node[01-16]`). What it says
//!   when it cannot is in `file_error.rs`.
//! - [`GridSpec::with_change`] reads what changes while a job runs (`timeline.rs`).
//! - [`GridSpec::from_emulate`] reads the shorthand `2x4,wan=32ms` (`emulate.rs`).
//!
//! All text may come from anywhere: no input panics, and none makes a description larger than the
//! limits in `site.rs`.

mod emulate;
mod file;
mod file_error;
mod grid;
mod host_range;
mod site;
mod source;
mod stored;
mod timeline;

pub use emulate::EmulateError;
pub use file_error::{GridFileError, GridFileProblem};
pub use grid::GridSpec;
pub use host_range::HostRangeError;
pub use site::{ClusterSpec, HostSpec, MAX_HOSTS, MAX_PES, MAX_SITES, SiteError, SiteSpec};
pub use stored::GridSpecError;
pub use timeline::TimelineError;
