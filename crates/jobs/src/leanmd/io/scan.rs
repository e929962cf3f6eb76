//! What the readers have in common: lines with numbers, numbers in fields, names of species, and
//! what can be wrong.

use std::collections::BTreeMap;

use thiserror::Error;

use super::MdSnapshot;
use crate::leanmd::system::ATOMS_MAX;

/// Fewest bytes of a line that describes an atom: three coordinates of one digit and what separates
/// them.
const ATOM_BYTES_MIN: usize = 6;

/// The file cannot be read. Line numbers start at 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Neither the name nor the content tells the format.
    #[error("the format is not recognised; name the file .xyz, .extxyz, .data, .lmp, .pdb or .ent")]
    UnknownFormat,
    /// Bytes that are no UTF-8; the file is binary or compressed.
    #[error("line {line}: the bytes are not text; is the file compressed?")]
    NotText {
        /// Where.
        line: usize,
    },
    /// A field is missing.
    #[error("line {line}: expected {expected}, found the end of the line")]
    Missing {
        /// Where.
        line: usize,
        /// What the field means.
        expected: &'static str,
    },
    /// A field has another content than its place requires.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Unexpected {
        /// Where.
        line: usize,
        /// What the field means.
        expected: &'static str,
        /// As it is in the file, shortened.
        found: String,
    },
    /// The file ends too early; it may have been cut off.
    #[error("line {line}: the file ends here, after {found} of {promised} atoms")]
    Ends {
        /// The last line.
        line: usize,
        /// How many atoms the file announced.
        promised: usize,
        /// How many it has.
        found: usize,
    },
    /// The announced number of atoms cannot be in a file of this size.
    #[error(
        "line {line}: {promised} atoms are announced, but the file can hold at most {possible}"
    )]
    Absurd {
        /// Where the number is announced.
        line: usize,
        /// The number.
        promised: u64,
        /// An upper bound from the size of the file.
        possible: usize,
    },
    /// The file is right but says something that is not supported.
    #[error("line {line}: {what}")]
    Unsupported {
        /// Where.
        line: usize,
        /// What is not supported, and what is.
        what: &'static str,
    },
    /// An atom is described twice, or with an id that is not announced.
    #[error("line {line}: atom {id} {problem}")]
    Id {
        /// Where.
        line: usize,
        /// The id as in the file.
        id: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file has everything but atoms.
    #[error("the file has no atoms")]
    NoAtoms,
}

/// A line of the file and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) text: &'a str,
}

/// The lines of a file, numbered.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(index, text)| Line { number: index + 1, text })
}

impl<'a> Line<'a> {
    /// The fields, separated by white space.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { line: self.number, rest: self.text.split_whitespace() }
    }

    /// An error at this line.
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
    /// The next field as it is.
    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a str, ReadError> {
        self.rest.next().ok_or(ReadError::Missing { line: self.line, expected })
    }

    /// The next field as a finite number.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<f64, ReadError> {
        let word = self.word(expected)?;
        number(self.line, word, expected)
    }

    /// The next field as a whole number.
    pub(super) fn whole(&mut self, expected: &'static str) -> Result<u64, ReadError> {
        let word = self.word(expected)?;
        word.parse().map_err(|_| unexpected(self.line, expected, word))
    }

    /// The next three fields as finite numbers.
    pub(super) fn vector(&mut self, expected: &'static str) -> Result<[f64; 3], ReadError> {
        Ok([self.number(expected)?, self.number(expected)?, self.number(expected)?])
    }
}

/// A field as a finite number.
pub(super) fn number(line: usize, word: &str, expected: &'static str) -> Result<f64, ReadError> {
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(unexpected(line, expected, word)),
    }
}

fn unexpected(line: usize, expected: &'static str, found: &str) -> ReadError {
    ReadError::Unexpected { line, expected, found: found.chars().take(40).collect() }
}

/// Accepts an announced number of atoms if the file, of `bytes` bytes, can hold them; so memory is
/// bounded by the file's size.
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
    /// The number of a name, a new one for a new name.
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

    /// Hands the names over.
    pub(super) fn finish(self, snapshot: &mut MdSnapshot) {
        snapshot.names = self.names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_the_line_and_what_was_expected() {
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
            "line 7: expected z, found the end of the line"
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
    fn more_atoms_than_the_file_has_room_for_are_refused() {
        assert_eq!(atom_count(1, 10, 60), Ok(10));
        let absurd = atom_count(1, 4_000_000_000, 60).unwrap_err();
        assert_eq!(
            absurd.to_string(),
            "line 1: 4000000000 atoms are announced, but the file can hold at most 10"
        );
    }
}
