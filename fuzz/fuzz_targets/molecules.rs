//! Reads arbitrary files of molecules (XYZ, PDB and LAMMPS): each is accepted, or rejected with a
//! message.
#![no_main]

use gridspan_kernels::leanmd::io::{lammps, pdb, read, xyz};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(read(data, None));
    let Ok(text) = std::str::from_utf8(data) else { return };
    for result in [xyz::read(text), pdb::read(text), lammps::read(text)] {
        if let Err(error) = result {
            assert!(!error.to_string().is_empty());
        }
    }
});
