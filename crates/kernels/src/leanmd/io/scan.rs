//! The common parts of the readers: numbered lines, numbers in fields, names of species, and
//! errors.

use std::collections::BTreeMap;

use thiserror::Error;

use super::MdSnapshot;
use crate::leanmd::system::ATOMS_MAX;

/// Minimum size in bytes of a line that describes an atom: three coordinates of one digit and their
/// separators.
const ATOM_BYTES_MIN: usize = 6;

/// The file cannot be read. Line numbers start at 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Neither the name nor the content indicates the format.
    #[error("the format is not recognised; name the file .xyz, .extxyz, .data, .lmp, .pdb or .ent")]
    UnknownFormat,
    /// The bytes are not UTF-8; the file is binary or compressed.
    #[error("line {line}: the bytes are not text; is the file compressed?")]
    NotText {
        /// Number of the line.
        line: usize,
    },
    /// A field is missing.
    #[error("line {line}: expected {expected}, found nothing there")]
    Missing {
        /// Number of the line.
        line: usize,
        /// Meaning of the field.
        expected: &'static str,
    },
    /// The atoms begin, but the header did not give their number.
    #[error("line {line}: the header does not give the number of atoms (`N atoms`)")]
    NoCount {
        /// Number of the first line of atoms or velocities.
        line: usize,
    },
    /// The content of a field is not of the expected kind.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Unexpected {
        /// Number of the line.
        line: usize,
        /// Meaning of the field.
        expected: &'static str,
        /// Content of the field, shortened.
        found: String,
    },
    /// The file ends too early; it may be truncated.
    #[error("line {line}: the file ends here, after {found} of {promised} atoms")]
    Ends {
        /// Number of the last line.
        line: usize,
        /// Number of atoms that the file announced.
        promised: usize,
        /// Number of atoms in the file.
        found: usize,
    },
    /// A file of this size cannot contain the announced number of atoms.
    #[error(
        "line {line}: {promised} atoms are announced, but the file can hold at most {possible}"
    )]
    Absurd {
        /// Number of the line with the announcement.
        line: usize,
        /// The announced number.
        promised: u64,
        /// An upper bound from the size of the file.
        possible: usize,
    },
    /// The file is valid, but uses a feature that is not supported.
    #[error("line {line}: {what}")]
    Unsupported {
        /// Number of the line.
        line: usize,
        /// The unsupported feature, and the supported alternative.
        what: &'static str,
    },
    /// An atom appears twice, is one more than announced, or has no velocity.
    #[error("line {line}: atom {id} {problem}")]
    Id {
        /// Number of the line.
        line: usize,
        /// The id in the file.
        id: u64,
        /// The problem with the id.
        problem: &'static str,
    },
    /// The file contains no atoms.
    #[error("the file has no atoms")]
    NoAtoms,
}

/// A line of the file and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) text: &'a str,
}

/// Iterates over the lines of a file, numbered from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(index, text)| Line { number: index + 1, text })
}

impl<'a> Line<'a> {
    /// Returns the fields, separated by white space.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { line: self.number, rest: self.text.split_whitespace() }
    }

    /// Creates an error at this line.
    pub(super) fn unexpected(self, expected: &'static str, found: &str) -> ReadError {
        unexpected(self.number, expected, found)
    }
}

/// The fields of a line, taken one by one.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    line: usize,
    rest: std::str::SplitWhitespace<'a>,
}

impl<'a> Fields<'a> {
    /// Returns the next field.
    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a str, ReadError> {
        self.rest.next().ok_or(ReadError::Missing { line: self.line, expected })
    }

    /// Returns the next field as a finite number.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<f64, ReadError> {
        let word = self.word(expected)?;
        number(self.line, word, expected)
    }

    /// Returns the next field as a whole number.
    pub(super) fn whole(&mut self, expected: &'static str) -> Result<u64, ReadError> {
        let word = self.word(expected)?;
        word.parse().map_err(|_| unexpected(self.line, expected, word))
    }

    /// Returns the next three fields as finite numbers.
    pub(super) fn vector(&mut self, expected: &'static str) -> Result<[f64; 3], ReadError> {
        Ok([self.number(expected)?, self.number(expected)?, self.number(expected)?])
    }
}

/// Parses a field as a finite number.
pub(super) fn number(line: usize, word: &str, expected: &'static str) -> Result<f64, ReadError> {
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(unexpected(line, expected, word)),
    }
}

fn unexpected(line: usize, expected: &'static str, found: &str) -> ReadError {
    ReadError::Unexpected { line, expected, found: found.chars().take(40).collect() }
}

/// Accepts an announced number of atoms if a file of `bytes` bytes can contain them, so that the
/// size of the file bounds the memory.
pub(super) fn atom_count(line: usize, promised: u64, bytes: usize) -> Result<usize, ReadError> {
    let possible = (bytes / ATOM_BYTES_MIN).min(ATOMS_MAX);
    match usize::try_from(promised) {
        Ok(0) => Err(ReadError::NoAtoms),
        Ok(count) if count <= possible => Ok(count),
        _ => Err(ReadError::Absurd { line, promised, possible }),
    }
}

/// Numbers the names of species in the order of appearance.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: BTreeMap<String, u16>,
    names: Vec<String>,
}

impl Names {
    /// Returns the number of a name, and assigns one to a new name.
    pub(super) fn number(&mut self, line: usize, name: &str) -> Result<u16, ReadError> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = u16::try_from(self.names.len()).map_err(|_| ReadError::Unsupported {
            line,
            what: "more than 65536 species are not supported",
        })?;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        Ok(number)
    }

    /// Moves the names into the snapshot.
    pub(super) fn finish(self, snapshot: &mut MdSnapshot) {
        snapshot.names = self.names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_give_the_line_and_what_was_expected() {
        let mut fields = Line { number: 7, text: " 1.5 abc" }.fields();
        assert_eq!(fields.number("x"), Ok(1.5));
        assert_eq!(
            fields.clone().number("y").unwrap_err().to_string(),
            "line 7: expected y, found `abc`"
        );
        assert_eq!(
            fields.whole("an id").unwrap_err().to_string(),
            "line 7: expected an id, found `abc`"
        );
        assert_eq!(
            fields.word("z").unwrap_err().to_string(),
            "line 7: expected z, found nothing there"
        );
    }

    #[test]
    fn numbers_must_be_finite() {
        assert!(
            number(1, "nan", "x").is_err()
                && number(1, "1e999", "x").is_err()
                && number(1, "-inf", "x").is_err()
        );
    }

    #[test]
    fn more_atoms_than_the_file_can_hold_are_refused() {
        assert_eq!(atom_count(1, 10, 60), Ok(10));
        let absurd = atom_count(1, 4_000_000_000, 60).unwrap_err();
        assert_eq!(
            absurd.to_string(),
            "line 1: 4000000000 atoms are announced, but the file can hold at most 10"
        );
    }
}
