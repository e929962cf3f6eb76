//! Reading starting systems and writing trajectories.
//!
//! | format | read | written |
//! | --- | --- | --- |
//! | XYZ, and its NIST variant with a numbered line 2 | [`xyz`] | |
//! | extended XYZ (`Lattice=`, `Properties=`) | [`xyz`] | [`trajectory`] |
//! | LAMMPS data file, atom style `atomic` | [`lammps`] | |
//! | PDB (`ATOM`, `HETATM`, `CRYST1`) | [`pdb`] | |
//!
//! Readers take the bytes of a file and do not panic on any bytes. Only the first frame or model is
//! read. Boxes must have right angles. Numbers are not converted; [`System::scale_lengths`] changes
//! the unit.

use super::system::{System, SystemError, check_atoms, positive};

pub mod lammps;
pub mod pdb;
mod scan;
pub mod trajectory;
pub mod xyz;

pub use scan::ReadError;

/// The file formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// XYZ and its variants.
    Xyz,
    /// LAMMPS data file.
    Lammps,
    /// Protein Data Bank.
    Pdb,
}

/// The contents of a file. Positions, velocities and species have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MdSnapshot {
    /// Positions in the unit of the file.
    pub positions: Vec<[f64; 3]>,
    /// Velocities in the unit of the file, if it has them.
    pub velocities: Option<Vec<[f64; 3]>>,
    /// Species of each atom, an index into `names`.
    pub species: Vec<u16>,
    /// Names of the species in the file, in order of appearance.
    pub names: Vec<String>,
    /// Lengths of the box, if the file gives them.
    pub lengths: Option<[f64; 3]>,
}

impl MdSnapshot {
    /// Converts the snapshot into a system. `lengths` replaces the file's box, and must be given if
    /// the file has none. Without velocities in the file the atoms are at rest.
    ///
    /// # Errors
    /// If the box is unknown or invalid, or there are no atoms.
    pub fn into_system(self, lengths: Option<[f64; 3]>) -> Result<System, SystemError> {
        check_atoms(self.positions.len())?;
        let lengths = lengths.or(self.lengths).ok_or(SystemError::NoBox)?;
        for length in lengths {
            positive("box length", length)?;
        }
        let velocities = self.velocities.unwrap_or_else(|| vec![[0.0; 3]; self.positions.len()]);
        Ok(System {
            positions: self.positions,
            velocities,
            species: self.species,
            names: self.names,
            lengths,
        })
    }
}

/// Reads a file in the format that its name indicates, or its content if the name indicates none.
///
/// # Errors
/// If the bytes are not UTF-8, no format is recognised, or the file does not have this format; the
/// error gives the line.
pub fn read(bytes: &[u8], name: Option<&str>) -> Result<MdSnapshot, ReadError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ReadError::NotText { line: line_at(bytes, error.valid_up_to()) })?;
    match name.and_then(by_name).or_else(|| by_content(text)).ok_or(ReadError::UnknownFormat)? {
        Format::Xyz => xyz::read(text),
        Format::Lammps => lammps::read(text),
        Format::Pdb => pdb::read(text),
    }
}

/// Returns the format that the extension of a file name indicates.
pub fn by_name(name: &str) -> Option<Format> {
    match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "xyz" | "extxyz" => Some(Format::Xyz),
        "data" | "lmp" | "lammps" => Some(Format::Lammps),
        "pdb" | "ent" => Some(Format::Pdb),
        _ => None,
    }
}

/// Returns the format that the first hundred lines indicate.
pub fn by_content(text: &str) -> Option<Format> {
    if text.lines().next().is_some_and(|first| first.trim().parse::<u64>().is_ok()) {
        return Some(Format::Xyz);
    }
    text.lines().take(100).find_map(|line| match line.split_whitespace().next() {
        Some("ATOM" | "HETATM" | "CRYST1" | "HEADER") => Some(Format::Pdb),
        Some(count)
            if count.parse::<u64>().is_ok() && line.split_whitespace().nth(1) == Some("atoms") =>
        {
            Some(Format::Lammps)
        }
        _ => None,
    })
}

fn line_at(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_format_is_recognised_by_name_or_content() {
        assert_eq!(by_name("runs/water.PDB"), Some(Format::Pdb));
        assert_eq!(by_name("argon"), None);
        assert_eq!(by_content("2\n\nAr 0 0 0\nAr 1 1 1\n"), Some(Format::Xyz));
        assert_eq!(by_content("LAMMPS data file\n\n2 atoms\n"), Some(Format::Lammps));
        assert_eq!(by_content("REMARK x\nCRYST1   10.000   10.000\n"), Some(Format::Pdb));
        assert_eq!(read(b"hello", None), Err(ReadError::UnknownFormat));
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused_with_their_line() {
        assert_eq!(read(b"2\n\xff\n", Some("a.xyz")), Err(ReadError::NotText { line: 2 }));
    }

    #[test]
    fn a_box_is_required_from_the_file_or_the_caller() {
        let bare = read(b"1\nargon\nAr 0 0 0\n", None).unwrap();
        assert_eq!(bare.clone().into_system(None), Err(SystemError::NoBox));
        assert_eq!(
            bare.clone().into_system(Some([9.0, 8.0, 7.0])).unwrap().lengths,
            [9.0, 8.0, 7.0]
        );
        assert!(bare.into_system(Some([9.0, -8.0, 7.0])).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for name in ["a.xyz", "a.data", "a.pdb", "a"] {
                let _ = read(&bytes, Some(name));
            }
        }

        #[test]
        fn no_mixture_of_words_of_the_formats_makes_a_reader_panic(
            words in proptest::collection::vec(prop_oneof![
                Just("\n"), Just(" "), Just("\n\n"), Just("atoms"), Just("Atoms"), Just("Velocities"), Just("xlo xhi"), Just("1"),
                Just("-3"), Just("0.5"), Just("1e400"), Just("nan"), Just("18446744073709551616"), Just("4000000000"),
                Just("Lattice=\""), Just("\""), Just("Properties=species:S:1:pos:R:3"), Just("pos:R:99999999999999999999"),
                Just("ATOM      1  O   HOH A   1       1.000   2.000   3.000"), Just("CRYST1"), Just("é"), Just("#"),
            ], 0..60),
        ) {
            let text = words.join(" ").replace("\n ", "\n");
            for name in ["a.xyz", "a.data", "a.pdb", "a"] {
                let _ = read(text.as_bytes(), Some(name));
            }
        }

        #[test]
        fn no_damage_to_a_good_file_makes_a_reader_panic(at in 0..2000_usize, byte in any::<u8>(), cut in 0..3000_usize) {
            for (name, good) in [("a.xyz", xyz::GOOD), ("a.data", lammps::GOOD), ("a.pdb", pdb::GOOD)] {
                let mut bytes = good.as_bytes().to_vec();
                let place = at % bytes.len();
                bytes[place] = byte;
                bytes.truncate(cut);
                if let Ok(snapshot) = read(&bytes, Some(name)) {
                    prop_assert_eq!(snapshot.positions.len(), snapshot.species.len());
                }
            }
        }
    }
}
