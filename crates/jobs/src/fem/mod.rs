//! Finite elements on an unstructured mesh of triangles, cut among ranks and solved by conjugate
//! gradients: a program like Grail, which Iskra and others measure ("Performance measurements on
//! Dynamite/DPVM", 2000, section 3.3).
//!
//! The first rank makes the mesh, cuts it, and sends each rank its part, as the master task of the
//! paper does; then it is a rank like the others. A rank assembles the rows of its nodes, from
//! all elements that touch them, and needs no rows of others.
//!
//! - `distribution`: the first rank makes the parts, and sends them
//! - `product`: products with the matrix, and how a rank gets the values of nodes of others
//! - `solver`: the steps of conjugate gradients
//! - `rank`: a rank, which may move between steps
//! - [`job`]: options and main
//!
//! The equations, the mesh, its parts and their rows are in [`gridspan_kernels::fem`].

mod distribution;
pub mod job;
mod product;
mod rank;
mod solver;
#[cfg(test)]
mod tests;
