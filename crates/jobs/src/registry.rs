//! The built-in jobs by name, which `gridctl` and the benches can start.

use crate::entry::Entry;
use crate::{
    bcast, fault_drill, fem, fib, hydropad, jacobi, knapsack, leanmd, mandelbrot, nas, pic,
    pingpong, queens, rank_bench, ring, stencil, tsp, uts,
};

/// All jobs, sorted by name.
pub const ENTRIES: &[Entry] = &[
    bcast::job::ENTRY,
    fault_drill::ENTRY,
    fem::job::ENTRY,
    fib::ENTRY,
    hydropad::job::ENTRY,
    jacobi::job::ENTRY,
    knapsack::ENTRY,
    leanmd::job::ENTRY,
    mandelbrot::job::ENTRY,
    nas::ENTRY,
    pic::job::ENTRY,
    pingpong::job::ENTRY,
    queens::ENTRY,
    rank_bench::ENTRY,
    ring::ENTRY,
    stencil::job::ENTRY,
    tsp::ENTRY,
    uts::job::ENTRY,
];

/// Returns the job of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}
