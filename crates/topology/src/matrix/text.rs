//! Reads a matrix from comma-separated values and from the plain rows of published data sets.
//!
//! Any text is accepted as input: nothing panics, and no text creates a matrix larger than
//! [`RttMatrix::MAX_NODES`].

use super::RttMatrix;
use crate::id::NodeId;
use std::time::Duration;
use thiserror::Error;

/// The unit of the numbers in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttUnit {
    /// Seconds, as printed by measuring tools.
    Seconds,
    /// Milliseconds, as in the data sets of PlanetLab.
    Milliseconds,
    /// Microseconds, as in the data sets of King and Meridian.
    Microseconds,
}

impl RttUnit {
    /// Returns the maximum round trip, an hour: a larger number is in another unit.
    fn most(self) -> f64 {
        3.6e6 * self.in_millisecond()
    }

    fn in_millisecond(self) -> f64 {
        match self {
            Self::Seconds => 1e-3,
            Self::Milliseconds => 1.0,
            Self::Microseconds => 1e3,
        }
    }

    fn duration(self, number: f64) -> Duration {
        Duration::from_nanos((number / self.in_millisecond() * 1e6).round() as u64)
    }
}

/// Error of a text, which is rejected as a whole; correct the place it names.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct MatrixTextError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem at that place.
    pub problem: MatrixProblem,
}

/// A problem in the text of a matrix.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MatrixProblem {
    /// A field is not a round trip.
    #[error(
        "`{field}` is not a round trip; write a number, or one of -1, 0, NaN, NA, * and - where it is missing"
    )]
    Number {
        /// Start of the field.
        field: String,
    },
    /// A number exceeds an hour.
    #[error("{number} is more than an hour; is the unit right?")]
    TooLong {
        /// The number.
        number: f64,
    },
    /// A row does not have as many fields as the first.
    #[error("this row has {found} numbers and the first has {expected}; write as many in each")]
    Width {
        /// Number of fields of the row.
        found: usize,
        /// Number of fields of the first row.
        expected: usize,
    },
    /// There are fewer or more rows than columns.
    #[error(
        "there are {} rows than columns, {columns}; write as many rows as columns",
        if .rows < .columns { "fewer" } else { "more" }
    )]
    NotSquare {
        /// Number of rows, or a lower bound of it.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
    /// The matrix exceeds [`RttMatrix::MAX_NODES`].
    #[error("a row has {columns} numbers; a matrix has at most {max}", max = RttMatrix::MAX_NODES)]
    TooWide {
        /// Number of columns of the first row.
        columns: usize,
    },
}

/// Marks of a missing round trip, besides numbers.
const MISSING: [&str; 3] = ["na", "*", "-"];

/// A field and its byte offset in the line.
type Field<'a> = (usize, &'a str);

impl RttMatrix {
    /// Reads comma-separated values, one row per line. Empty fields, `-1`, `0`, `NaN`, `NA`, `*`
    /// and `-` are missing entries, and so is the diagonal, whatever its values. Empty lines and
    /// lines that start with `#` are skipped.
    ///
    /// The first line may contain the names of the columns, and then each row starts with a name;
    /// names are skipped. A text in the first field means that there are names. An empty first
    /// field is the corner of the names if any other entry of the diagonal is not empty, if the
    /// first line or the first column contains a text, or if both contain the same whole numbers,
    /// at least two. Otherwise it is an entry of the diagonal, and there are no names.
    ///
    /// # Errors
    ///
    /// [`MatrixTextError`], with the line and the column, if a field is no round trip or above an
    /// hour, the rows do not form a square, or the matrix is too wide.
    pub fn from_csv(text: &str, unit: RttUnit) -> Result<Self, MatrixTextError> {
        let has_names = has_csv_names(text);
        let rows = numbered(text).skip(usize::from(has_names)).map(|(number, line)| {
            let fields = csv_fields(line).skip(usize::from(has_names));
            (number, line, fields.collect())
        });
        read(rows, unit)
    }

    /// Reads rows of numbers separated by blanks, tabs or commas: the plain form in which measured
    /// matrices are published. The first line may contain names, with or without one for the
    /// corner, and each row may start with a name. Missing entries and skipped lines are as in
    /// [`RttMatrix::from_csv`].
    ///
    /// # Errors
    ///
    /// Those of [`RttMatrix::from_csv`].
    pub fn from_rows(text: &str, unit: RttUnit) -> Result<Self, MatrixTextError> {
        let (has_header, has_row_names) = plain_names(text);
        let rows = numbered(text).skip(usize::from(has_header)).map(|(number, line)| {
            let mut fields = plain_fields(line);
            fields.drain(..fields.len().min(usize::from(has_row_names)));
            (number, line, fields)
        });
        read(rows, unit)
    }

    /// Returns the names of the nodes, in order, if the text of [`RttMatrix::from_rows`] contains
    /// them.
    pub fn names_of_rows(text: &str) -> Option<Vec<String>> {
        let (has_header, has_row_names) = plain_names(text);
        let mut lines = numbered(text).map(|(_, line)| plain_fields(line));
        let name = |(_, name): Field<'_>| unquoted(name).to_owned();
        if has_row_names {
            let rows = lines.skip(usize::from(has_header));
            return Some(rows.filter_map(|fields| fields.into_iter().next().map(name)).collect());
        }
        has_header.then(|| lines.next().into_iter().flatten().map(name).collect())
    }
}

/// Whether comma-separated values have names, in the first line and at the start of each row.
fn has_csv_names(text: &str) -> bool {
    let mut lines = numbered(text).map(|(_, line)| line);
    let Some(first) = lines.next() else { return false };
    let mut columns = csv_fields(first).map(|(_, field)| field);
    let corner = columns.next().unwrap_or_default();
    if !corner.is_empty() {
        return !is_value(corner);
    }
    // The field is the corner, or the first entry of a diagonal whose entries are all empty.
    let columns: Vec<&str> = columns.collect();
    let mut rows: Vec<&str> = Vec::new();
    for (before, line) in lines.enumerate() {
        let mut fields = csv_fields(line).map(|(_, field)| field);
        rows.push(fields.next().unwrap_or_default());
        if fields.nth(before).is_some_and(|on_diagonal| !on_diagonal.is_empty()) {
            return true;
        }
    }
    let is_name = |field: &&str| !field.is_empty() && !is_value(field);
    columns.iter().chain(&rows).any(is_name) || (columns == rows && are_whole(&columns))
}

/// Whether these are two or more whole numbers, such as positions or the ids of probes.
fn are_whole(names: &[&str]) -> bool {
    names.len() > 1 && names.iter().all(|name| name.parse::<u64>().is_ok())
}

/// Whether plain rows have names in the first line, and at the start of each row.
fn plain_names(text: &str) -> (bool, bool) {
    let mut lines = numbered(text).map(|(_, line)| plain_fields(line));
    let is_name = |field: Option<&Field<'_>>| field.is_some_and(|(_, field)| !is_value(field));
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let has_header = first.iter().skip(1).all(|field| is_name(Some(field)));
    // A single field may be a header or a row without its numbers.
    let has_header = has_header && first.len() > 1;
    let row = if has_header { &second } else { &first };
    (has_header, is_name(row.first()))
}

/// Whether a field is a round trip or marks a missing one.
fn is_value(field: &str) -> bool {
    field.parse::<f64>().is_ok() || MISSING.iter().any(|mark| field.eq_ignore_ascii_case(mark))
}

/// Returns the lines with content, numbered from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let says_something =
        |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    text.lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line))
        .filter(move |(_, line)| says_something(line))
}

fn csv_fields(line: &str) -> impl Iterator<Item = Field<'_>> {
    let mut begin = 0;
    line.split(',').map(move |field| {
        let at = begin;
        begin += field.len() + 1;
        (at, unquoted(field))
    })
}

fn unquoted(field: &str) -> &str {
    field.trim().trim_matches('"').trim()
}

fn plain_fields(line: &str) -> Vec<Field<'_>> {
    let is_gap = |c: char| c.is_whitespace() || c == ',';
    let mut fields = Vec::new();
    let mut rest = line;
    while let Some(begin) = rest.find(|c| !is_gap(c)) {
        let end = rest[begin..].find(is_gap).map_or(rest.len(), |length| begin + length);
        fields.push((line.len() - rest.len() + begin, &rest[begin..end]));
        rest = &rest[end..];
    }
    fields
}

fn read<'a>(
    rows: impl Iterator<Item = (usize, &'a str, Vec<Field<'a>>)>,
    unit: RttUnit,
) -> Result<RttMatrix, MatrixTextError> {
    let mut matrix = RttMatrix::new(0);
    let (mut count, mut last_line) = (0, 1);
    for (line, text, fields) in rows {
        let error = |byte: usize, problem| MatrixTextError {
            line,
            column: 1 + text.get(..byte).map_or(0, |before| before.chars().count()),
            problem,
        };
        if count == 0 {
            let columns = fields.len();
            if columns > RttMatrix::MAX_NODES {
                return Err(error(0, MatrixProblem::TooWide { columns }));
            }
            matrix = RttMatrix::new(columns);
        }
        let (found, expected) = (fields.len(), matrix.nodes());
        if found != expected {
            return Err(error(0, MatrixProblem::Width { found, expected }));
        }
        if count == expected {
            let problem = MatrixProblem::NotSquare { rows: count + 1, columns: expected };
            return Err(error(0, problem));
        }
        for (column, (byte, field)) in fields.into_iter().enumerate() {
            let rtt = round_trip(field, unit).map_err(|problem| error(byte, problem))?;
            if let Some(rtt) = rtt {
                matrix.record(NodeId::from(count), NodeId::from(column), rtt);
            }
        }
        (count, last_line) = (count + 1, line);
    }
    let columns = matrix.nodes();
    if count < columns {
        let problem = MatrixProblem::NotSquare { rows: count, columns };
        return Err(MatrixTextError { line: last_line, column: 1, problem });
    }
    Ok(matrix)
}

fn round_trip(field: &str, unit: RttUnit) -> Result<Option<Duration>, MatrixProblem> {
    if field.is_empty() || MISSING.iter().any(|mark| field.eq_ignore_ascii_case(mark)) {
        return Ok(None);
    }
    match field.parse::<f64>() {
        Ok(number) if number.is_nan() || number == 0.0 || number == -1.0 => Ok(None),
        Ok(number) if number > unit.most() => Err(MatrixProblem::TooLong { number }),
        Ok(number) if number > 0.0 => Ok(Some(unit.duration(number))),
        _ => {
            let field = field.chars().take(24).flat_map(char::escape_debug).collect();
            Err(MatrixProblem::Number { field })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(matrix: &RttMatrix, from: u32, to: u32) -> Option<u128> {
        matrix.rtt(NodeId(from), NodeId(to)).map(|rtt| rtt.as_micros())
    }

    fn message(text: &str) -> String {
        RttMatrix::from_rows(text, RttUnit::Milliseconds).unwrap_err().to_string()
    }

    #[test]
    fn plain_rows_are_read_in_either_unit() {
        let text = "# King\n0 1.5\t-1\n\n  2 0 NaN\n3.25 0 9\n";

        let matrix = RttMatrix::from_rows(text, RttUnit::Milliseconds).unwrap();

        assert_eq!(matrix.nodes(), 3);
        assert_eq!(micros(&matrix, 0, 1), Some(1500));
        assert_eq!(micros(&matrix, 2, 0), Some(3250));
        for (from, to) in [(0, 2), (1, 2), (2, 1), (2, 2)] {
            assert_eq!(micros(&matrix, from, to), None, "{from} {to}");
        }
        let matrix = RttMatrix::from_rows("0 150\n70 0", RttUnit::Microseconds).unwrap();
        assert_eq!((micros(&matrix, 0, 1), micros(&matrix, 1, 0)), (Some(150), Some(70)));
    }

    #[test]
    fn comma_separated_values_may_have_names() {
        let bare = RttMatrix::from_csv("0,2\n3,0\n", RttUnit::Milliseconds).unwrap();
        let named = "\"\",\"a\",\"b\"\r\n\"a\",,\"2\"\r\n\"b\",3,0\r\n";
        let named = RttMatrix::from_csv(named, RttUnit::Milliseconds).unwrap();

        assert_eq!(bare, named);
        assert_eq!(micros(&bare, 1, 0), Some(3000));
    }

    #[test]
    fn an_empty_diagonal_is_no_corner_of_names() {
        let read = |text| RttMatrix::from_csv(text, RttUnit::Milliseconds).unwrap();
        let bare = read("0,20.5,90\n20.5,0,80\n90,80,0\n");
        for text in [",20.5,90\n20.5,,80\n90,80,\n", "\"\",20.5,90\n20.5,\"\",80\n90,80, \n"] {
            assert_eq!(read(text), bare, "{text}");
        }
        assert_eq!(micros(&read(",20\n30,\n"), 1, 0), Some(30_000));
        assert_eq!(micros(&read(",20\n20,\n"), 0, 1), Some(20_000));
        // Numbers are names if the diagonal has other fields, or if they are whole.
        let from_zero = ",0,1,2\n0,0,20.5,90\n1,20.5,0,80\n2,90,80,0\n";
        let with_zeros = ",7,7.5,9\n1,0,20.5,90\n2,20.5,0,80\n3,90,80,0\n";
        let on_empty = ",0,1,2\n0,,20.5,90\n1,20.5,,80\n2,90,80,\n";
        let of_probes = ",1001,1007,1033\n1001,,20.5,90\n1007,20.5,,80\n1033,90,80,\n";
        let of_rows = ",,,\na,,20.5,90\nb,20.5,,80\nc,90,80,\n";
        for text in [from_zero, with_zeros, on_empty, of_probes, of_rows] {
            assert_eq!(read(text), bare, "{text}");
        }
    }

    #[test]
    fn an_error_names_line_and_column_and_says_what_to_write() {
        assert_eq!(
            message("0 1\nµµ x"),
            "line 2, column 1: `µµ` is not a round trip; \
             write a number, or one of -1, 0, NaN, NA, * and - where it is missing"
        );
        assert_eq!(
            message("0 1\n# x\n1,  -7"),
            "line 3, column 5: `-7` is not a round trip; \
             write a number, or one of -1, 0, NaN, NA, * and - where it is missing"
        );
        assert_eq!(
            message("0 1 2\n1 0"),
            "line 2, column 1: this row has 2 numbers and the first has 3; write as many in each"
        );
        assert_eq!(
            message("0 1\n1 0\n2 2"),
            "line 3, column 1: there are more rows than columns, 2; write as many rows as columns"
        );
        assert_eq!(
            message("0 1\n"),
            "line 1, column 1: there are fewer rows than columns, 2; write as many rows as columns"
        );
        assert_eq!(
            message("0 1e9"),
            "line 1, column 3: 1000000000 is more than an hour; is the unit right?"
        );
        let wide = "1 ".repeat(8193);
        assert_eq!(
            message(&wide),
            "line 1, column 1: a row has 8193 numbers; a matrix has at most 8192"
        );
    }

    #[test]
    fn plain_rows_may_have_names_in_the_first_line_and_at_their_beginning() {
        let bare = RttMatrix::from_rows("0 2\n3 0", RttUnit::Seconds).unwrap();
        assert_eq!(micros(&bare, 1, 0), Some(3_000_000));
        let forms = [
            ("node a b\na NA 2\nb 3 *\n", Some("a b")),
            ("a b\na - 2\nb 3 -\n", Some("a b")),
            ("a b\n* 2\n3 NA\n", Some("a b")),
            ("a\t0\t2\nb\t3\t0\n", Some("a b")),
            ("NA 2\n3 NA\n", None),
        ];
        for (text, names) in forms {
            let read = RttMatrix::from_rows(text, RttUnit::Seconds);
            assert_eq!(read.as_ref(), Ok(&bare), "{text}");
            let found = RttMatrix::names_of_rows(text).map(|names| names.join(" "));
            assert_eq!(found.as_deref(), names, "{text}");
        }
        let csv = RttMatrix::from_csv("NA,2\n3,*\n", RttUnit::Seconds).unwrap();
        assert_eq!(csv, bare);
    }

    #[test]
    fn a_text_without_rows_is_a_matrix_of_no_nodes() {
        assert_eq!(RttMatrix::from_csv("", RttUnit::Milliseconds).unwrap().nodes(), 0);
        assert_eq!(RttMatrix::from_rows("\n# a\n", RttUnit::Milliseconds).unwrap().nodes(), 0);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_readers_panic(text in "\\PC{0,60}", near in "[-0-9.,NainfeE \t\n\"#µ]{0,60}") {
            for text in [text, near] {
                let _ = RttMatrix::from_csv(&text, RttUnit::Milliseconds);
                let _ = RttMatrix::from_rows(&text, RttUnit::Microseconds);
                let _ = RttMatrix::names_of_rows(&text);
            }
        }
    }
}
