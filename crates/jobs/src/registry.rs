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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_by_name_and_each_is_found() {
        assert!(ENTRIES.is_sorted_by(|a, b| a.name < b.name));
        assert!(ENTRIES.iter().all(|entry| find(entry.name).is_some_and(|e| e.name == entry.name)));
        assert!(find("nothing").is_none());
    }

    #[test]
    fn every_job_can_be_built_without_arguments_and_has_a_help_text() {
        for entry in ENTRIES {
            assert_eq!((entry.build)(&[]).unwrap().name(), entry.name);
            let help = (entry.build)(&["--help".to_owned()]).err().unwrap();
            assert_eq!(help.exit_code(), 0, "{help}");
            assert!(help.to_string().contains(entry.about), "{help}");
        }
    }
}
