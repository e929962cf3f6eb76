//! Style of output for people: lines and colours where they can be shown.

use anstream::{AutoStream, ColorChoice};
use std::io::{self, IsTerminal};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Whether lines may be drawn; otherwise only ASCII is safe.
    pub(crate) is_drawn: bool,
    /// Whether there may be colours.
    pub(crate) is_coloured: bool,
}

impl Style {
    /// Returns the style for standard output: drawn lines on a capable UTF-8 terminal and ASCII
    /// elsewhere; colours on a terminal, unless the user forbids them (NO_COLOR).
    pub(crate) fn of_stdout() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase().replace('-', "");
        let is_dumb = set("TERM").is_none_or(|terminal| terminal == "dumb");
        Self {
            is_drawn: io::stdout().is_terminal() && !is_dumb && locale.contains("utf8"),
            is_coloured: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        }
    }

    /// Returns the characters with which a tree is drawn.
    pub(crate) fn branches(self) -> &'static Branches {
        if self.is_drawn { &DRAWN } else { &ASCII }
    }
}

/// Characters with which a tree is drawn.
pub(crate) struct Branches {
    fork: &'static str,
    last: &'static str,
    pass: &'static str,
}

const DRAWN: Branches = Branches { fork: "├─ ", last: "└─ ", pass: "│  " };
const ASCII: Branches = Branches { fork: "|- ", last: "`- ", pass: "|  " };

impl Branches {
    /// Returns the prefixes of a child and of all its descendants; `above` is the prefix of all
    /// descendants of its parent.
    pub(crate) fn child(&self, above: &str, is_last: bool) -> [String; 2] {
        let (own, below) = if is_last { (self.last, "   ") } else { (self.fork, self.pass) };
        [format!("{above}{own}"), format!("{above}{below}")]
    }
}
