//! Writing and cutting texts.

use std::fmt::{Arguments, Write};

/// Adds to a text; writing to a string cannot fail.
pub(crate) fn put(to: &mut String, what: Arguments<'_>) {
    let _ = to.write_fmt(what);
}

/// Cuts a text to a number of characters, of which the last is then `mark`.
pub(crate) fn cut(text: &str, characters: usize, mark: char) -> String {
    match text.chars().count() > characters {
        false => text.to_owned(),
        true => text.chars().take(characters.saturating_sub(1)).chain([mark]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_characters() {
        let cuts =
            [cut("abcd", 4, '~'), cut("abcde", 4, '~'), cut("äöü", 2, '…'), cut("ä", 0, '~')];
        assert_eq!(cuts, ["abcd", "abc~", "ä…", "~"]);
    }
}
