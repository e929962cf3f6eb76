//! Expands host lists in the notation of Slurm: `d[01-04]`, `h[01-05,7]`, `r[1-2]n[1-4]`.

use thiserror::Error;

/// Maximum number of digits of a number. No numbering of hosts needs more, and the arithmetic stays
/// far from its limits.
const MAX_DIGITS: usize = 10;
/// Maximum length of a pattern, which bounds the length of the names.
const MAX_PATTERN_BYTES: usize = 1024;

/// Error of a host pattern, which yields no hosts at all. The message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostRangeError {
    /// A bracket is missing, or brackets are nested.
    #[error("the brackets do not match; write them as in `d[01-04]`")]
    Brackets,
    /// Something between brackets is neither a number nor a range.
    #[error("brackets contain something other than numbers; write them as in `[01-04,7]`")]
    Number,
    /// The end of a range is below its start.
    #[error("the range {from}-{to} runs backwards; write {to}-{from}")]
    Backwards {
        /// The start as written.
        from: u64,
        /// The end as written.
        to: u64,
    },
    /// A comma is outside brackets.
    #[error("a comma separates hosts; write each host as a separate string")]
    Comma,
    /// The pattern is longer than 1024 bytes.
    #[error("it is longer than {MAX_PATTERN_BYTES} bytes; write several patterns")]
    TooLong,
    /// The pattern expands to more hosts than allowed.
    #[error("it expands to more than {limit} hosts; write fewer")]
    TooMany {
        /// Maximum number of hosts.
        limit: usize,
    },
}

/// Returns the hosts of `pattern`, in order; the last bracket varies fastest. If the start of a
/// range has leading zeros, all numbers of the range have at least as many digits. Never creates
/// more than `limit` names.
///
/// ```
/// use gridspan_topology::expand_hosts;
///
/// assert_eq!(expand_hosts("d[09-10,7]", 100)?, ["d09", "d10", "d7"]);
/// # Ok::<(), gridspan_topology::HostRangeError>(())
/// ```
///
/// # Errors
///
/// [`HostRangeError`] if the pattern is invalid or too long, or has more than `limit` hosts.
pub fn expand_hosts(pattern: &str, limit: usize) -> Result<Vec<String>, HostRangeError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(HostRangeError::TooLong);
    }
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some(open) = rest.find('[') {
        let (literal, bracket) = rest.split_at(open);
        let (numbers, after) = bracket[1..].split_once(']').ok_or(HostRangeError::Brackets)?;
        check_literal(literal)?;
        let ranges = parse_ranges(numbers)?;
        let factor = count(&ranges);
        if factor.saturating_mul(names.len() as u64) > limit as u64 {
            return Err(HostRangeError::TooMany { limit });
        }
        names = names
            .iter()
            .flat_map(|name| ranges.iter().flat_map(move |range| range.names(name, literal)))
            .collect();
        rest = after;
    }
    check_literal(rest)?;
    if names.len() > limit {
        return Err(HostRangeError::TooMany { limit });
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// `from..=to`, written with at least `width` digits.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
    width: usize,
}

impl Range {
    fn names<'a>(&'a self, before: &'a str, literal: &'a str) -> impl Iterator<Item = String> + 'a {
        let width = self.width;
        (self.from..=self.to).map(move |number| format!("{before}{literal}{number:0width$}"))
    }
}

fn count(ranges: &[Range]) -> u64 {
    ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.to - range.from + 1))
}

fn check_literal(literal: &str) -> Result<(), HostRangeError> {
    if literal.contains(']') {
        return Err(HostRangeError::Brackets);
    }
    if literal.contains(',') {
        return Err(HostRangeError::Comma);
    }
    Ok(())
}

fn parse_ranges(text: &str) -> Result<Vec<Range>, HostRangeError> {
    if text.contains('[') {
        return Err(HostRangeError::Brackets);
    }
    text.split(',').map(|part| parse_range(part.trim())).collect()
}

fn parse_range(text: &str) -> Result<Range, HostRangeError> {
    let (from_text, to_text) = text.split_once('-').unwrap_or((text, text));
    let (from_text, to_text) = (from_text.trim(), to_text.trim());
    let (from, to) = (parse_number(from_text)?, parse_number(to_text)?);
    if from > to {
        return Err(HostRangeError::Backwards { from, to });
    }
    let padded = from_text.starts_with('0');
    Ok(Range { from, to, width: if padded { from_text.len() } else { 1 } })
}

fn parse_number(digits: &str) -> Result<u64, HostRangeError> {
    if digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(HostRangeError::Number);
    }
    digits.parse().map_err(|_| HostRangeError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_without_brackets_is_one_host() {
        assert_eq!(expand_hosts("u1.example", 10).unwrap(), ["u1.example"]);
    }

    #[test]
    fn a_range_keeps_the_zeros_of_its_start() {
        assert_eq!(expand_hosts("d[01-03]", 10).unwrap(), ["d01", "d02", "d03"]);
        assert_eq!(expand_hosts("d[9-11]x", 10).unwrap(), ["d9x", "d10x", "d11x"]);
        assert_eq!(expand_hosts("d[098-101]", 10).unwrap(), ["d098", "d099", "d100", "d101"]);
        assert_eq!(expand_hosts("d[0-1]", 10).unwrap(), ["d0", "d1"]);
    }

    #[test]
    fn a_list_mixes_ranges_and_numbers() {
        assert_eq!(
            expand_hosts("h[01-03,7, 010]", 10).unwrap(),
            ["h01", "h02", "h03", "h7", "h010"]
        );
    }

    #[test]
    fn the_last_of_several_brackets_varies_fastest() {
        let expected = ["r1n1", "r1n2", "r2n1", "r2n2"];
        assert_eq!(expand_hosts("r[1-2]n[1-2]", 10).unwrap(), expected);
    }

    #[test]
    fn malformed_patterns_are_refused() {
        use HostRangeError::{Backwards, Brackets, Comma, Number};
        for (pattern, error) in [
            ("d[1-2", Brackets),
            ("d1]", Brackets),
            ("d[[1]]", Brackets),
            ("d[]", Number),
            ("d[a-b]", Number),
            ("d[1-2-3]", Number),
            ("d[+1]", Number),
            ("d[12345678901]", Number),
            ("d[4-1]", Backwards { from: 4, to: 1 }),
            ("d1,d2", Comma),
        ] {
            assert_eq!(expand_hosts(pattern, 10), Err(error), "{pattern}");
        }
    }

    #[test]
    fn no_pattern_makes_more_names_than_the_limit() {
        let refused = Err(HostRangeError::TooMany { limit: 100 });
        assert_eq!(expand_hosts("d[0-9999999999]", 100), refused);
        assert_eq!(expand_hosts("d[1-11][1-10]", 100), refused);
        assert_eq!(expand_hosts(&"d".repeat(1025), 100), Err(HostRangeError::TooLong));
        assert_eq!(expand_hosts("d", 0), Err(HostRangeError::TooMany { limit: 0 }));
        assert_eq!(expand_hosts("d[1-10][1-10]", 100).map(|names| names.len()), Ok(100));
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[a0-9,\\-\\[\\] ]{0,40}") {
            if let Ok(names) = expand_hosts(&pattern, 1000) {
                prop_assert!(names.len() <= 1000);
            }
        }
    }
}
