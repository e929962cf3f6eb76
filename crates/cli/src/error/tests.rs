//! Tests of errors.

use super::*;

#[test]
fn similar_names_are_offered() {
    let error = CliError::UnknownJob { name: "rign".into(), near: vec!["ring"], is_file: false };
    assert_eq!(error.hint().as_deref(), Some("did you mean `ring`?"));
}

#[test]
fn the_hint_for_a_file_name_shows_its_path() {
    let error = CliError::UnknownJob { name: "heat".into(), near: vec![], is_file: true };
    assert_eq!(
        error.hint().as_deref(),
        Some("write `./heat` to run the program in this directory")
    );
}
