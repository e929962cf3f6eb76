//! Public functions that return a `Result`, and whether their documentation says when they fail.

use super::source::{Source, documentation, is_test};
use syn::{Attribute, ImplItem, Item, ReturnType, Signature, Type, Visibility};

/// Members of the workspace that are programs, not libraries for others.
const PROGRAMS: [&str; 2] = ["cli", "studies"];

/// A public function that can fail, whose documentation does not say when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnexplainedFailure {
    /// The name of the function.
    pub name: String,
    /// The file that defines it.
    pub path: String,
}

/// Returns the public functions and methods of the libraries that return a `Result`, and whose
/// documentation does not mention errors or failures outside of its examples. Functions of traits
/// are left out, since their implementations document when they fail.
pub fn failures_without_reason(sources: &[Source]) -> Vec<UnexplainedFailure> {
    let in_library = |source: &&Source| {
        source.is_library() && !source.is_test && !PROGRAMS.contains(&source.member.as_str())
    };
    let mut found = Vec::new();
    for source in sources.iter().filter(in_library) {
        let mut names = Vec::new();
        add_unexplained(&source.file.items, &mut names);
        let path = &source.path;
        found.extend(names.into_iter().map(|name| UnexplainedFailure { name, path: path.clone() }));
    }
    found
}

fn add_unexplained(items: &[Item], names: &mut Vec<String>) {
    let mut add = |visibility: &Visibility, attributes: &[Attribute], signature: &Signature| {
        let is_public = matches!(visibility, Visibility::Public(_));
        if is_public && can_fail(signature) && !says_when(attributes) {
            names.push(signature.ident.to_string());
        }
    };
    for item in items {
        match item {
            Item::Fn(item) => add(&item.vis, &item.attrs, &item.sig),
            Item::Impl(item) => {
                for part in &item.items {
                    if let ImplItem::Fn(method) = part {
                        add(&method.vis, &method.attrs, &method.sig);
                    }
                }
            }
            _ => {}
        }
    }
    for item in items {
        if let Item::Mod(module) = item
            && !is_test(&module.attrs)
            && let Some((_, inside)) = &module.content
        {
            add_unexplained(inside, names);
        }
    }
}

/// Whether a function returns a type named `Result`, from any module.
fn can_fail(signature: &Signature) -> bool {
    match &signature.output {
        ReturnType::Type(_, of) => match &**of {
            Type::Path(of) => of.path.segments.last().is_some_and(|last| last.ident == "Result"),
            _ => false,
        },
        ReturnType::Default => false,
    }
}

fn says_when(attributes: &[Attribute]) -> bool {
    let mut is_code = false;
    let mut prose = documentation(attributes).filter(|line| {
        let is_fence = line.trim().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    prose.any(|line| {
        let line = line.to_lowercase();
        line.contains("error") || line.contains("fail")
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    fn unexplained(member: &str, text: &str) -> Vec<String> {
        let found = failures_without_reason(&[parsed(member, "crates/x/src/lib.rs", text)]);
        found.into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn public_functions_and_methods_without_a_word_on_failures_are_found() {
        let text = "
            /// Reads.
            pub fn read() -> Result<u8, E> {}
            /// Fails if there is none.
            pub fn take() -> Result<u8, E> {}
            fn private() -> Result<u8, E> {}
            /// Counts.
            pub fn count() -> u8 {}
            impl S {
                /// Writes.
                pub async fn write(&self) -> io::Result<()> {}
                /// # Errors
                ///
                /// If the disk is full.
                pub fn flush(&self) -> io::Result<()> {}
            }
            #[cfg(test)]
            mod tests { pub fn helper() -> Result<u8, E> {} }
            mod inner { pub fn open() -> Result<u8, E> {} }";
        assert_eq!(unexplained("record", text), ["read", "write", "open"]);
        assert_eq!(unexplained("cli", text), [""; 0]);
    }

    #[test]
    fn an_example_does_not_explain_failures() {
        let text = "
            /// Reads.
            ///
            /// ```
            /// # Ok::<(), ReadError>(())
            /// ```
            pub fn read() -> Result<u8, ReadError> {}";
        assert_eq!(unexplained("record", text), ["read"]);
    }
}
