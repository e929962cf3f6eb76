//! Stored lists of remaining violations, which may only become shorter.

use std::collections::BTreeSet;
use std::fs;

/// Asserts that `found` equals the lines of the file of this name. With `STORE_LAYOUT` set, writes
/// `found` to the file if every line was allowed before.
///
/// `is_allowed` determines whether a line is no worse than one in the file.
pub(crate) fn assert_only_shrinks(
    name: &str,
    rule: &str,
    found: &BTreeSet<String>,
    is_allowed: impl Fn(&str, &BTreeSet<String>) -> bool,
) {
    let path = super::root().join("tests/layout").join(name);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let stored: BTreeSet<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let new: Vec<&String> = found.iter().filter(|line| !is_allowed(line, &stored)).collect();
    assert!(new.is_empty(), "rule: {rule}; new: {new:#?}");
    if std::env::var_os("STORE_LAYOUT").is_some() {
        let lines: Vec<&str> = found.iter().map(String::as_str).collect();
        return fs::write(&path, lines.join("\n") + if lines.is_empty() { "" } else { "\n" })
            .unwrap();
    }
    assert_eq!(
        found, &stored,
        "{name} lists violations that no longer exist; remove them: STORE_LAYOUT=1 cargo test --test layout"
    );
}
