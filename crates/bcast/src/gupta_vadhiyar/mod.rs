//! Paper 2's system, as the paper has it: R. Gupta, S. Vadhiyar, "Application-oriented adaptive
//! MPI_Bcast for grids", IPDPS 2006; and what it is measured against there.
//!
//! - [`basic_sa`], [`driver_sa`], [`clustered_sa`]: figures 1, 2 and 4.
//! - [`mateescu`]: the tree of another.
//! - [`PaperAdvisor`]: the broadcast advisor (section 2.5).
//!
//! Where the paper leaves something open, the reading is named at its place. Trees are lists of
//! parents over nodes numbered from 0; the root's parent is `u32::MAX`.

mod advisor;
mod anneal;
mod clustered;
mod driver;
mod mateescu;
mod pools;

pub use advisor::{PaperAdvisor, Tried};
pub use anneal::{CostUnit, GoodList, PaperTree, basic_sa};
pub use clustered::clustered_sa;
pub use driver::{Searched, driver_sa};
pub use mateescu::mateescu;
pub use pools::form_pools;
