//! The system of R. Gupta and S. Vadhiyar, "Application-Oriented Adaptive MPI_Bcast for Grids",
//! IPDPS 2006, as the paper describes it, and the algorithm that the paper compares it with.
//!
//! - [`basic_sa`], [`driver_sa`], [`clustered_sa`]: figures 1, 2 and 4.
//! - [`mateescu`]: the tree that the paper compares with.
//! - [`PaperAdvisor`]: the broadcast advisor (section 2.5).
//!
//! Where the paper leaves a question open, a comment on the code states the interpretation. Trees
//! are lists of parents over nodes numbered from 0; the root's parent is `u32::MAX`.

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
