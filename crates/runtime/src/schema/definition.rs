//! The definition of a node's program, and its comparison with that of the coordinator.
//!
//! The wire format does not describe itself: a node with a stale program could read values as those
//! of another type, and the result would be wrong. So each node reports the structures of its job's
//! values at the start.

use crate::schema::Schema;
use serde::{Deserialize, Serialize};

/// Approximate number of bytes in which error messages describe a structure. Comparison uses its
/// fingerprint.
const BRIEF_BYTES_MAX: usize = 160;

/// A job as one node defines it, and the origin of that definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// Fingerprint of names and structures; equal for equal jobs.
    pub(crate) fingerprint: u64,
    /// The types of values that are sent, in the order of the definition.
    pub(crate) parts: Vec<Part>,
    pub(crate) origin: Origin,
}

/// The build of a program, and the host where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Identifies the build; 0 if unknown.
    pub(crate) build: u64,
    /// Host name of the machine.
    pub(crate) host: String,
}

/// A type of values that are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Name of the type's role, such as `messages of app::Cell`.
    pub(crate) name: String,
    /// Fingerprint of its structure.
    pub(crate) structure: u64,
    /// Readable text of the structure.
    pub(crate) brief: String,
}

impl Part {
    /// Creates a part for values of this structure.
    pub(crate) fn new(name: String, schema: &Schema) -> Self {
        Self { name, structure: schema.fingerprint().0, brief: schema.brief(BRIEF_BYTES_MAX) }
    }
}

impl Definition {
    /// Describes how the definition of another node differs, in readable text; `None` if both are
    /// equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.fingerprint == other.fingerprint {
            return None;
        }
        let mut pairs = self.parts.iter().zip(&other.parts);
        let found = pairs
            .find(|(here, there)| here.name != there.name || here.structure != there.structure);
        let (here, there) = (self.parts.len(), other.parts.len());
        Some(match found {
            Some((here, there)) if here.name != there.name => {
                format!("the definition has {} here, {} there", here.name, there.name)
            }
            Some((here, there)) if here.brief != there.brief => {
                format!("{} are `{}` here, `{}` there", here.name, here.brief, there.brief)
            }
            Some((here, _)) => {
                format!("{} are `{}` here, and differ further on there", here.name, here.brief)
            }
            None if here != there => {
                format!("{here} types of values sent here, {there} there")
            }
            None => "its job has another name, or other placement maps or reducers".to_owned(),
        })
    }

    /// Whether the two definitions are known to come from different builds.
    pub(crate) fn is_of_other_build(&self, other: &Self) -> bool {
        let (one, other) = (self.origin.build, other.origin.build);
        one != other && one != 0 && other != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    fn defined<M: DeserializeOwned + 'static>(fingerprint: u64, build: u64) -> Definition {
        let schema = Schema::of::<M>();
        let parts = vec![Part::new("messages of app::Cell".to_owned(), &schema)];
        let origin = Origin { build, host: "h".to_owned() };
        Definition { fingerprint, parts, origin }
    }

    #[test]
    fn a_difference_names_both_structures() {
        let difference = defined::<u64>(1, 0).difference(&defined::<i64>(2, 0));
        let wanted = "messages of app::Cell are `u64` here, `i64` there";
        assert_eq!(difference.as_deref(), Some(wanted));
        assert_eq!(defined::<u64>(1, 0).difference(&defined::<u64>(1, 5)), None);
    }

    #[test]
    fn a_difference_beyond_the_brief_text_is_reported() {
        type Long<T> = Vec<(T, Vec<(String, String, Vec<T>)>)>;
        let (mut one, mut other) = (defined::<Long<u64>>(1, 0), defined::<Long<i64>>(2, 0));
        for part in one.parts.iter_mut().chain(&mut other.parts) {
            part.brief.truncate(2);
        }
        let text = one.difference(&other).unwrap();
        assert!(text.ends_with("and differ further on there"), "{text}");
    }

    #[test]
    fn different_actors_and_job_names_are_reported() {
        let (mut one, mut other) = (defined::<u64>(1, 0), defined::<u64>(2, 0));
        assert!(one.difference(&other).unwrap().contains("another name"));
        other.parts[0].name = "messages of app::Other".to_owned();
        let text = one.difference(&other).unwrap();
        assert!(text.contains("app::Cell") && text.contains("app::Other"), "{text}");
        one.parts.clear();
        assert!(one.difference(&other).unwrap().contains("0 types of values sent here, 1 there"));
    }

    #[test]
    fn builds_differ_only_if_both_are_known() {
        assert!(defined::<u64>(1, 7).is_of_other_build(&defined::<u64>(1, 8)));
        assert!(!defined::<u64>(1, 7).is_of_other_build(&defined::<u64>(1, 7)));
        assert!(!defined::<u64>(1, 7).is_of_other_build(&defined::<u64>(1, 0)));
    }
}
