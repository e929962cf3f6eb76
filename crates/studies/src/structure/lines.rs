//! Code lines: lines that have more than comments and blanks, and are outside of tests.

use super::source::{Source, is_test};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The code lines of one member of the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeLines {
    /// In `src`.
    pub source: usize,
    /// In `benches` and `examples`.
    pub benches_and_examples: usize,
}

/// Returns the code lines of each member, by name. It counts the lines as they are in the files, so
/// the files should be formatted.
pub fn code_lines(sources: &[Source]) -> BTreeMap<String, CodeLines> {
    let mut members: BTreeMap<String, CodeLines> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let lines = members.entry(source.member.clone()).or_default();
        match source.is_library() {
            true => lines.source += lines_of(source),
            false => lines.benches_and_examples += lines_of(source),
        }
    }
    members
}

fn lines_of(source: &Source) -> usize {
    let mut lines = BTreeSet::new();
    // The text has been parsed once, so this succeeds.
    let tokens: TokenStream = source.text.parse().unwrap_or_default();
    mark(tokens, &mut lines);
    let mut tests = Tests::default();
    tests.visit_file(&source.file);
    for range in tests.ranges {
        lines.retain(|line| !range.contains(line));
    }
    lines.len()
}

/// Adds the lines of tokens. Comments are not tokens, except doc comments, which the parser turns
/// into attributes and this function skips.
fn mark(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                let is_inner =
                    |next: &TokenTree| matches!(next, TokenTree::Punct(p) if p.as_char() == '!');
                let inner = tokens.next_if(is_inner);
                if tokens.next_if(is_documentation).is_none() {
                    lines.insert(hash.span().start().line);
                    lines.extend(inner.map(|token| token.span().start().line));
                }
            }
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines.insert(group.span_close().end().line);
                mark(group.stream(), lines);
            }
            token => lines.extend(token.span().start().line..=token.span().end().line),
        }
    }
}

/// Whether the token is the `[doc = "…"]` of a doc comment.
fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let mut inside = group.stream().into_iter();
    let is_doc = inside.next().is_some_and(|first| first.to_string() == "doc");
    let is_assigned = inside.next().is_some_and(|second| second.to_string() == "=");
    group.delimiter() == Delimiter::Bracket && is_doc && is_assigned
}

/// The lines of code that exists only in tests.
#[derive(Default)]
struct Tests {
    ranges: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        match is_test(attributes) {
            true => self.ranges.push(item.span().start().line..=item.span().end().line),
            false => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test(&item.attrs) {
            self.ranges.push(item.span().start().line..=item.span().end().line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! What it is for.\n\n/// Documented.\n#[derive(Clone)]\npub struct A {\n    \
                    /// One.\n    one: u8, // said twice\n\n    /* more */\n}\n\nfn text() -> &'static str {\n    \
                    \"a\n    b\"\n}\n\n#[cfg(test)]\nfn helper() {\n    1;\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
        let lines = code_lines(&[parsed("a", "crates/a/src/lib.rs", text)]);
        // The struct has four lines, and so has the function.
        assert_eq!(lines["a"], CodeLines { source: 8, benches_and_examples: 0 });
    }
}
