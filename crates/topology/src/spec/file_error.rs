//! What is wrong with a grid file, where, and what to write instead.

use crate::link::LinkError;
use crate::quantity::QuantityError;
use crate::spec::host_range::HostRangeError;
use crate::spec::site::{SiteError, shorten};
use crate::spec::timeline::TimelineError;
use thiserror::Error;

/// A grid file that was refused as a whole; correct the place it names.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct GridFileError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: GridFileProblem,
}

impl GridFileError {
    /// A problem at a byte of `text`.
    pub(super) fn new(text: &str, Located { offset, problem }: Located) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        let is_char_start = |b: &&u8| **b & 0b1100_0000 != 0b1000_0000;
        let column = 1 + before[line_start..].iter().filter(is_char_start).count();
        Self { line, column, problem }
    }
}

/// A problem and the byte of the text where it stands.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) offset: usize,
    pub(super) problem: GridFileProblem,
}

/// What can be wrong with a grid file.
#[derive(Clone, Debug, PartialEq, Error)]
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
        /// The parser's own words.
        message: String,
    },
    /// A key that means nothing here.
    #[error("there is no `{}` in {table}; write one of {known}", shorten(.key))]
    UnknownKey {
        /// The key refused.
        key: String,
        /// The table it stands in.
        table: String,
        /// The keys there are.
        known: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}` must be {expected}; write it as in `{example}`")]
    Kind {
        /// The key whose value is refused.
        key: String,
        /// What it should be.
        expected: &'static str,
        /// A line that would do.
        example: &'static str,
    },
    /// A quantity that cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A link whose numbers make no sense.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A change of a link that makes no sense.
    #[error(transparent)]
    Change(#[from] TimelineError),
    /// A host pattern that cannot be expanded.
    #[error("`{}` cannot be expanded: {error}", shorten(.pattern))]
    Hosts {
        /// The pattern refused.
        pattern: String,
        /// What is wrong with it.
        error: HostRangeError,
    },
    /// A site that cannot be part of the grid.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The file describes no site.
    #[error("the file has no site; write `[site.NAME]` and below it `hosts = [\"HOST\"]`")]
    NoSites,
    /// A link entry that does not say which sites it joins.
    #[error("it is not clear what this joins; write `between = [\"a\", \"b\"]` or `from` and `to`")]
    LinkEnds,
    /// A link entry that names a site that does not exist.
    #[error("there is no site `{}`; write one of {known}", shorten(.name))]
    UnknownSite {
        /// The name refused.
        name: String,
        /// Some of the names there are.
        known: String,
    },
    /// A link entry that joins a site with itself.
    #[error("this joins `{name}` with itself; write `lan` below `[site.{name}]`")]
    SameSite {
        /// The name of the site.
        name: String,
    },
    /// A second link entry for the same sites.
    #[error("there is a second entry for `{from}` and `{to}`; merge the two")]
    DuplicateLink {
        /// One of the sites.
        from: String,
        /// The other.
        to: String,
    },
}
