//! Expands the node lists of Slurm, such as `n[01-03,7],gpu-a[1-2]b`.

use gridspan_topology::{HostRangeError, expand_hosts};
use thiserror::Error;

/// Error of a node list.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum NodeListError {
    /// Nothing is between two commas.
    #[error("there is an empty name")]
    Empty,
    /// A name cannot be expanded.
    #[error("`{}`: {error}", shortened(.pattern))]
    Pattern {
        /// The name as written.
        pattern: String,
        /// The reason.
        error: HostRangeError,
    },
}

/// Returns the names of a list, in order. Fails if there are more than `limit`.
pub(super) fn expand(list: &str, limit: usize) -> Result<Vec<String>, NodeListError> {
    let mut names = Vec::new();
    for pattern in patterns(list) {
        if pattern.is_empty() {
            return Err(NodeListError::Empty);
        }
        let expanded = expand_pattern(pattern, limit - names.len());
        let more = expanded.map_err(|error| {
            let error = match error {
                HostRangeError::TooMany { .. } => HostRangeError::TooMany { limit },
                error => error,
            };
            NodeListError::Pattern { pattern: pattern.to_owned(), error }
        })?;
        names.extend(more);
    }
    Ok(names)
}

/// Splits a list at its commas outside of brackets.
fn patterns(list: &str) -> Vec<&str> {
    let (mut found, mut begin, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' => is_inside = true,
            b']' => is_inside = false,
            b',' if !is_inside => {
                found.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[begin..]);
    found
}

fn expand_pattern(pattern: &str, limit: usize) -> Result<Vec<String>, HostRangeError> {
    let Some((before, numbers, after)) = only_bracket(pattern) else {
        return expand_hosts(pattern, limit);
    };
    // A scattered allocation has thousands of numbers in one bracket, more than a pattern may have.
    let mut names = Vec::new();
    for number in numbers.split(',') {
        let left = limit - names.len();
        names.extend(expand_hosts(&format!("{before}[{number}]{after}"), left)?);
    }
    Ok(names)
}

/// Splits a pattern at its bracket, if it has exactly one.
fn only_bracket(pattern: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = pattern.split_once('[')?;
    let (numbers, after) = rest.split_once(']')?;
    let is_only = !numbers.contains('[') && !after.contains(['[', ']']);
    is_only.then_some((before, numbers, after))
}

/// Returns the beginning of a pattern that may be long.
fn shortened(pattern: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = pattern.chars().take(SHOWN).collect();
    if shown.len() < pattern.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_scontrol_does() {
        // `scontrol show hostnames LIST` prints these.
        let cases = [
            ("n1", "n1"),
            ("n[01-03,7],gpu-a[1-2]b", "n01 n02 n03 n7 gpu-a1b gpu-a2b"),
            ("a,b", "a b"),
            ("r[1-2]n[1-2],x", "r1n1 r1n2 r2n1 r2n2 x"),
            ("n[9-11]", "n9 n10 n11"),
            ("n[008,010]", "n008 n010"),
        ];
        for (list, expected) in cases {
            assert_eq!(expand(list, 100).unwrap().join(" "), expected, "{list}");
        }
    }

    #[test]
    fn thousands_of_scattered_nodes_are_expanded() {
        let numbers: Vec<String> = (0..4000).map(|number| format!("{:04}", 2 * number)).collect();
        let names = expand(&format!("n[{}]", numbers.join(",")), 5000).unwrap();
        assert_eq!((names.len(), names[3999].as_str()), (4000, "n7998"));
    }

    #[test]
    fn malformed_lists_are_refused() {
        for list in ["", "a,,b", "a,", ","] {
            assert_eq!(expand(list, 100), Err(NodeListError::Empty), "{list:?}");
        }
        for list in ["n[1-2", "n1-2]", "n[[1]]", "n[]", "n[a]", "n[3-1]", "n[1-2]x]"] {
            let refused = expand(list, 100).unwrap_err();
            assert!(matches!(refused, NodeListError::Pattern { .. }), "{list}: {refused}");
        }
    }

    #[test]
    fn no_list_makes_more_names_than_the_limit() {
        for list in ["n[0-9999999999]", "a,b,n[1-99]", "n[1-50,60-150]", "n[1-11][1-10]"] {
            let error = expand(list, 100).unwrap_err().to_string();
            assert!(error.contains("more than 100 hosts"), "{error}");
        }
        assert_eq!(expand("a,n[1-98],b", 100).unwrap().len(), 100);
        let long = "x".repeat(5000);
        assert!(expand(&long, 100).unwrap_err().to_string().len() < 200);
    }
}
