//! Protein Data Bank files, which consist of records of fixed columns. The records `CRYST1` (the
//! box), `ATOM` and `HETATM` are read.
//!
//! Lengths are in angstrom. Only the first model is read. Source: wwPDB, "Atomic Coordinate Entry
//! Format", version 3.3.

use std::ops::Range;

use super::scan::{Line, Names, lines, number};
use super::{MdSnapshot, ReadError};

/// Columns of the lengths in `CRYST1`. All columns are bytes, counted from 0.
const LENGTHS: [Range<usize>; 3] = [6..15, 15..24, 24..33];
/// Columns of the angles in `CRYST1`.
const ANGLES: [Range<usize>; 3] = [33..40, 40..47, 47..54];

/// Columns of the atom's name in `ATOM` and `HETATM`.
const NAME: Range<usize> = 12..16;
/// Columns of the coordinates in `ATOM` and `HETATM`.
const COORDINATES: [Range<usize>; 3] = [30..38, 38..46, 46..54];
/// Columns of the chemical symbol in `ATOM` and `HETATM`.
const ELEMENT: Range<usize> = 76..78;

/// Reads the first model.
///
/// # Errors
/// If the text is not such a file; the error gives the line.
pub fn read(text: &str) -> Result<MdSnapshot, ReadError> {
    let mut snapshot = MdSnapshot::default();
    let mut names = Names::default();
    for line in lines(text) {
        match columns(line.text, 0..6) {
            "CRYST1" => snapshot.lengths = lattice(line)?,
            "ATOM" | "HETATM" => {
                snapshot.species.push(names.number(line.number, element(line)?)?);
                snapshot.positions.push(numbers(line, COORDINATES, "a coordinate")?);
            }
            "ENDMDL" | "END" => break,
            _ => {}
        }
    }
    if snapshot.positions.is_empty() {
        return Err(ReadError::NoAtoms);
    }
    names.finish(&mut snapshot);
    Ok(snapshot)
}

/// Returns the box; `None` for the unit cube, which by convention means "not a crystal".
fn lattice(line: Line<'_>) -> Result<Option<[f64; 3]>, ReadError> {
    let lengths = numbers(line, LENGTHS, "a box length")?;
    if numbers(line, ANGLES, "a box angle")?.iter().any(|&angle| angle != 90.0) {
        return Err(ReadError::Unsupported {
            line: line.number,
            what: "the box is tilted; only boxes with right angles are supported",
        });
    }
    Ok((lengths != [1.0; 3]).then_some(lengths))
}

/// Returns the chemical symbol. In old files, which have no column for the symbol, it is the first
/// letter of the atom's name.
fn element(line: Line<'_>) -> Result<&str, ReadError> {
    let given = columns(line.text, ELEMENT);
    if !given.is_empty() {
        return Ok(given);
    }
    let name = columns(line.text, NAME).trim_start_matches(|letter: char| letter.is_ascii_digit());
    match name.chars().next() {
        // Only one letter is used, although a name that starts in the first column can have a
        // symbol of two letters.
        Some(first) => Ok(&name[..first.len_utf8()]),
        None => Err(ReadError::Missing { line: line.number, expected: "an atom name or element" }),
    }
}

fn numbers(
    line: Line<'_>,
    places: [Range<usize>; 3],
    expected: &'static str,
) -> Result<[f64; 3], ReadError> {
    let mut numbers = [0.0; 3];
    for (to, place) in numbers.iter_mut().zip(places) {
        match columns(line.text, place) {
            "" => return Err(ReadError::Missing { line: line.number, expected }),
            word => *to = number(line.number, word, expected)?,
        }
    }
    Ok(numbers)
}

/// Returns the content of some columns without surrounding spaces; empty if the line is shorter, or
/// if the columns split a character.
fn columns(text: &str, place: Range<usize>) -> &str {
    let end = place.end.min(text.len());
    text.get(place.start..end).unwrap_or_default().trim()
}

/// A file with everything that this reader supports.
#[cfg(test)]
pub(super) const GOOD: &str = "\
HEADER    WATER
CRYST1   10.000   11.000   12.500  90.00  90.00  90.00 P 1           1
ATOM      1  O   HOH A   1       1.500   2.000   3.000  1.00  0.00           O
HETATM    2  H1  HOH A   1      -1.000   4.250   6.000
TER
ENDMDL
ATOM      3  O   HOH A   1       1.500   2.000   3.000  1.00  0.00           O
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_model_gives_box_species_and_positions() {
        let snapshot = read(GOOD).unwrap();
        assert_eq!(snapshot.lengths, Some([10.0, 11.0, 12.5]));
        assert_eq!(snapshot.positions, [[1.5, 2.0, 3.0], [-1.0, 4.25, 6.0]]);
        assert_eq!(snapshot.names, ["O", "H"]);
        assert_eq!(snapshot.velocities, None);
    }

    #[test]
    fn a_unit_cube_means_no_box() {
        let unit = GOOD.replace("10.000   11.000   12.500", " 1.000    1.000    1.000");
        assert_eq!(read(&unit).unwrap().lengths, None);
    }

    #[test]
    fn errors_give_the_line() {
        for (from, to, message) in [
            (
                "90.00 P",
                "92.00 P",
                "line 2: the box is tilted; only boxes with right angles are supported",
            ),
            ("   4.250", "   4.x50", "line 4: expected a coordinate, found `4.x50`"),
            ("   4.250   6.000", "   4.250", "line 4: expected a coordinate, found nothing there"),
            (
                "HETATM    2  H1 ",
                "HETATM    2     ",
                "line 4: expected an atom name or element, found nothing there",
            ),
        ] {
            assert_eq!(
                read(&GOOD.replacen(from, to, 1)).unwrap_err().to_string(),
                message,
                "{from} -> {to}"
            );
        }
        assert_eq!(read("REMARK nothing\n"), Err(ReadError::NoAtoms));
    }
}
