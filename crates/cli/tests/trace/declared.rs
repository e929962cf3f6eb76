//! The schema that the writer of traces declares, read from its source code.

use crate::published::{Field, Schema};

/// Reads structs and enums with attributes of prost, in the form in which rustfmt writes them.
pub fn declared(source: &str) -> Schema {
    let mut schema = Schema::default();
    let (mut current, mut attribute) = (String::new(), None);
    for line in source.lines().map(str::trim) {
        if let Some(name) = declared_type(line) {
            current = name.to_owned();
        } else if let Some(inner) = line.strip_prefix("#[prost(") {
            attribute = inner.strip_suffix(")]").filter(|inner| !inner.starts_with("oneof"));
            assert!(attribute.is_some() || inner.starts_with("oneof"), "{line}");
        } else if let Some(words) = attribute.take() {
            let (number, field) = field(words, line);
            let fields = schema.messages.entry(message_of(&current)).or_default();
            assert_eq!(fields.insert(number, field), None, "{current} has {number} once");
        } else if current == "EventType"
            && let Some((name, number)) =
                line.strip_suffix(',').and_then(|line| line.split_once(" = "))
        {
            let values = schema.enums.entry("TrackEvent.Type".to_owned()).or_default();
            values.insert(number.parse().unwrap(), format!("TYPE_{}", upper_case(name)));
        }
    }
    schema
}

/// The name of the struct or enum that begins in a line.
fn declared_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub(super) ")?;
    let rest = rest.strip_prefix("struct ").or_else(|| rest.strip_prefix("enum "))?;
    rest.strip_suffix(" {")
}

/// The message to which the fields of a type belong. Those of a `oneof` belong to the message
/// around it.
fn message_of(name: &str) -> String {
    if name == "Value" { "DebugAnnotation" } else { name }.to_owned()
}

/// Reads an attribute, such as `uint64, optional, tag = "8"`, and the line after it: a field, such
/// as `pub(super) timestamp: Option<u64>,`, or a variant, such as `Unsigned(u64),`.
fn field(attribute: &str, line: &str) -> (u64, Field) {
    let words: Vec<&str> = attribute.split(", ").collect();
    let tag = words.iter().find_map(|word| word.strip_prefix("tag = \"")).unwrap();
    let number = tag.strip_suffix('"').unwrap().parse().unwrap();
    let is_repeated = words.contains(&"repeated");
    // A reader of unpacked fields need not accept packed ones, nor the other way round.
    let is_number = ["fixed64", "uint64", "double"].contains(&words[0]);
    assert!(!is_repeated || !is_number || words.contains(&"packed = \"false\""), "{attribute}");
    let (name, of_rust) = match line.strip_prefix("pub(super) ") {
        Some(field) => field.split_once(": ").unwrap(),
        None => (line.split_once('(').unwrap().0, ""),
    };
    let name = match name {
        // A keyword of Rust, which cannot name a field.
        "event_type" => "type",
        "Unsigned" => "uint_value",
        "Number" => "double_value",
        "Text" => "string_value",
        "Pointer" => "pointer_value",
        name => name,
    };
    let kind = match words[0] {
        // The type of the field in Rust, in `Option` or `Vec`.
        "message" => {
            of_rust.split_once('<').and_then(|(_, inner)| inner.split_once('>')).unwrap().0
        }
        // On the wire, an enum is an `int32`.
        "int32" if name == "type" => "TrackEvent.Type",
        kind => kind,
    };
    (number, Field { name: name.to_owned(), is_repeated, kind: kind.to_owned() })
}

/// `SliceBegin` as `SLICE_BEGIN`.
fn upper_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}
