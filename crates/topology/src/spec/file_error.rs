//! Errors of a grid file: the problem, its position, and the correction.

use crate::link::LinkError;
use crate::quantity::QuantityError;
use crate::spec::host_range::HostRangeError;
use crate::spec::site::{SiteError, shorten};
use crate::spec::timeline::TimelineError;
use thiserror::Error;

/// Error of a grid file. The whole file is rejected; correct the text at `line` and `column`.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}, column {column}: {problem}")]
#[non_exhaustive]
pub struct GridFileError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem at that place.
    pub problem: GridFileProblem,
}

impl GridFileError {
    /// Creates an error for a problem at a byte of `text`.
    pub(super) fn new(text: &str, Located { offset, problem }: Located) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        let is_char_start = |b: &&u8| **b & 0b1100_0000 != 0b1000_0000;
        let column = 1 + before[line_start..].iter().filter(is_char_start).count();
        Self { line, column, problem }
    }
}

/// A problem and its byte offset in the text.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) offset: usize,
    pub(super) problem: GridFileProblem,
}

/// A problem of a grid file.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GridFileProblem {
    /// The file is larger than any grid needs.
    #[error("the file is larger than {max_bytes} bytes; use ranges such as `d[001-500]`")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The text does not follow the grammar of TOML.
    #[error("this is not TOML: {message}")]
    Syntax {
        /// The message of the parser.
        message: String,
    },
    /// A key is unknown in its table.
    #[error("there is no `{}` in {table}; write one of {known}", shorten(.key))]
    UnknownKey {
        /// The rejected key.
        key: String,
        /// The table that contains it.
        table: String,
        /// The known keys.
        known: String,
    },
    /// A value has the wrong type.
    #[error("`{key}` must be {expected}; write it as in `{example}`")]
    Kind {
        /// The key whose value is rejected.
        key: String,
        /// The expected type.
        expected: &'static str,
        /// A correct line.
        example: &'static str,
    },
    /// A quantity cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The numbers of a link are inconsistent.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A change of a link is invalid.
    #[error(transparent)]
    Change(#[from] TimelineError),
    /// A host pattern cannot be expanded.
    #[error("`{}` cannot be expanded: {error}", shorten(.pattern))]
    Hosts {
        /// The rejected pattern.
        pattern: String,
        /// The error of the pattern.
        error: HostRangeError,
    },
    /// A site cannot be part of the grid.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The file describes no site.
    #[error("the file has no site; write `[site.NAME]` and below it `hosts = [\"HOST\"]`")]
    NoSites,
    /// A link entry does not name the sites that it connects.
    #[error("this link names no sites; write `between = [\"a\", \"b\"]` or `from` and `to`")]
    LinkEnds,
    /// A link entry names a site that does not exist.
    #[error("there is no site `{}`; write one of {known}", shorten(.name))]
    UnknownSite {
        /// The rejected name.
        name: String,
        /// Some of the known names.
        known: String,
    },
    /// A link entry connects a site with itself.
    #[error("this joins `{name}` with itself; write `lan` below `[site.{name}]`")]
    SameSite {
        /// The name of the site.
        name: String,
    },
    /// There are two link entries for the same sites.
    #[error("there is a second entry for `{from}` and `{to}`; merge the two")]
    DuplicateLink {
        /// One of the sites.
        from: String,
        /// The other site.
        to: String,
    },
}
