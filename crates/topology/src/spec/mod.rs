//! The parts of a grid: sites, hosts and the links between them, from code or from text.
//!
//! - [`GridSpec`] is the description from which every driver starts (`grid.rs`).
//! - [`SiteSpec`] and [`HostSpec`] are its parts, with their limits (`site.rs`).
//! - [`GridSpec::from_toml`] reads a grid file (`file.rs`, over `source.rs`, which knows the
//!   position of each value in the text, and `host_range.rs`, which expands `node[01-16]`). Its
//!   errors are in `file_error.rs`.
//! - [`GridSpec::with_nodes`] adds nodes to a grid, and [`GridSpec::with_copy`] a copy of a site
//!   (`grow.rs`).
//! - [`GridSpec::with_change`] adds a change that takes effect while a job runs (`timeline.rs`).
//! - [`GridSpec::from_emulate`] reads the shorthand `2x4,wan=32ms` (`emulate.rs`).
//!
//! Text may come from any source: no input panics, and none creates a description larger than the
//! limits in `site.rs`.

mod emulate;
mod file;
mod file_error;
mod grid;
mod grow;
mod host_range;
mod site;
mod source;
mod stored;
mod timeline;

pub use emulate::EmulateError;
pub use file_error::{GridFileError, GridFileProblem};
pub use grid::GridSpec;
pub use host_range::{HostRangeError, expand_hosts};
pub use site::{ClusterSpec, HostSpec, MAX_HOSTS, MAX_PES, MAX_SITES, SiteError, SiteSpec};
pub use stored::GridSpecError;
pub use timeline::TimelineError;
