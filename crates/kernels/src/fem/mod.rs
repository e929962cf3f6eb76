//! Finite elements on an unstructured mesh of triangles, which is cut into parts.
//!
//! - [`problem`]: the equations, their solutions and the bound of the error
//! - [`mesh`]: the nodes and triangles
//! - [`part`]: the parts of the mesh, cut by the graph partitioner
//! - [`rows`]: the rows of a part: element matrices, right side and masses

pub mod mesh;
pub mod part;
pub mod problem;
pub mod rows;
#[cfg(test)]
mod tests;
