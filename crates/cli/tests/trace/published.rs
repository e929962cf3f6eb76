//! The published schema of Perfetto's traces, and messages that are decoded by it.
//!
//! `perfetto_schema.txt` has the part of the schema that the trace of a job needs. A field that is
//! not in it, or that has another type there, is an error here, although readers of protobuf skip
//! it. Of protobuf itself, this file knows only the wire format and the numbers of its descriptors
//! (`google/protobuf/descriptor.proto`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The part of the schema that is in the repository.
pub static PUBLISHED: LazyLock<Schema> =
    LazyLock::new(|| Schema::read(include_str!("perfetto_schema.txt")));

/// The package of all messages of the schema, as descriptors name it.
const PACKAGE: &str = ".perfetto.protos.";

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub is_repeated: bool,
    /// A scalar type of protobuf, or the name of a message or an enum.
    pub kind: String,
}

/// Messages and enums by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Fields by number.
    pub messages: BTreeMap<String, BTreeMap<u64, Field>>,
    /// Names of values by number.
    pub enums: BTreeMap<String, BTreeMap<u64, String>>,
}

impl Schema {
    /// Reads the form of `perfetto_schema.txt`.
    fn read(text: &str) -> Self {
        let mut schema = Self::default();
        let mut current = String::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["message", name] => {
                    current = name.to_owned();
                    schema.messages.insert(current.clone(), BTreeMap::new());
                }
                ["enum", name] => {
                    current = name.to_owned();
                    schema.enums.insert(current.clone(), BTreeMap::new());
                }
                [number, name] => {
                    let values = schema.enums.get_mut(&current).unwrap();
                    values.insert(number.parse().unwrap(), name.to_owned());
                }
                [number, name, label, kind] => {
                    assert!(["optional", "repeated"].contains(&label), "{line}");
                    let is_repeated = label == "repeated";
                    let (name, kind) = (name.to_owned(), kind.to_owned());
                    let fields = schema.messages.get_mut(&current).unwrap();
                    fields.insert(number.parse().unwrap(), Field { name, is_repeated, kind });
                }
                _ => panic!("{line}"),
            }
        }
        schema
    }

    /// Reads a `FileDescriptorProto`.
    pub fn of_descriptor(bytes: &[u8]) -> Self {
        let mut schema = Self::default();
        for (number, value) in wire_fields(bytes) {
            match number {
                4 => schema.add_message(value.bytes(), ""),
                5 => schema.add_enum(value.bytes(), ""),
                _ => {}
            }
        }
        schema
    }

    /// Adds a `DescriptorProto`; `outer` is the name of the message around it, with a dot.
    fn add_message(&mut self, bytes: &[u8], outer: &str) {
        let name = format!("{outer}{}", name_of(bytes));
        let inner = format!("{name}.");
        let mut fields = BTreeMap::new();
        for (number, value) in wire_fields(bytes) {
            match number {
                2 => fields.extend([described_field(value.bytes())]),
                3 => self.add_message(value.bytes(), &inner),
                4 => self.add_enum(value.bytes(), &inner),
                _ => {}
            }
        }
        self.messages.insert(name, fields);
    }

    /// Adds an `EnumDescriptorProto`.
    fn add_enum(&mut self, bytes: &[u8], outer: &str) {
        let name = format!("{outer}{}", name_of(bytes));
        let values = wire_fields(bytes).into_iter().filter(|(number, _)| *number == 2);
        let values = values.map(|(_, value)| {
            let mut numbers =
                wire_fields(value.bytes()).into_iter().filter(|(number, _)| *number == 2);
            let number = numbers.next_back().map_or(0, |(_, number)| number.varint());
            (number, name_of(value.bytes()))
        });
        self.enums.insert(name, values.collect());
    }
}

/// The field `name` of a descriptor.
fn name_of(descriptor: &[u8]) -> String {
    let mut names = wire_fields(descriptor).into_iter().filter(|(number, _)| *number == 1);
    names.next().unwrap().1.text()
}

/// The number and the description of a `FieldDescriptorProto`.
fn described_field(bytes: &[u8]) -> (u64, Field) {
    let (mut at, mut is_repeated, mut kind, mut named) = (0, false, 0, None);
    for (number, value) in wire_fields(bytes) {
        match number {
            3 => at = value.varint(),
            4 => is_repeated = value.varint() == 3,
            5 => kind = value.varint(),
            6 => named = Some(value.text()),
            _ => {}
        }
    }
    // `FieldDescriptorProto.Type`; those that are left out are messages and enums.
    let scalar = match kind {
        1 => "double",
        2 => "float",
        3 => "int64",
        4 => "uint64",
        5 => "int32",
        6 => "fixed64",
        7 => "fixed32",
        8 => "bool",
        9 => "string",
        12 => "bytes",
        13 => "uint32",
        15 => "sfixed32",
        16 => "sfixed64",
        17 => "sint32",
        18 => "sint64",
        _ => "",
    };
    let kind = match named {
        Some(named) => named.strip_prefix(PACKAGE).unwrap_or(&named).to_owned(),
        None => scalar.to_owned(),
    };
    (at, Field { name: name_of(bytes), is_repeated, kind })
}

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    Real(f64),
    Text(String),
    Message(Message),
}

/// A decoded message: its fields by name, in the order of the bytes.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<(String, Value)>);

impl Message {
    /// Decodes a message of this type. Panics if it breaks the schema.
    pub fn decode(kind: &str, bytes: &[u8]) -> Self {
        let fields = &PUBLISHED.messages[kind];
        let mut message = Self::default();
        for (number, wire) in wire_fields(bytes) {
            let field =
                fields.get(&number).unwrap_or_else(|| panic!("{kind} has no field {number}"));
            let is_free = field.is_repeated || message.all(&field.name).next().is_none();
            assert!(is_free, "{kind} has {} twice", field.name);
            message.0.push((field.name.clone(), value(field, wire)));
        }
        message
    }

    fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value)
    }

    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let number = |value: &Value| match value {
            Value::Number(number) => *number,
            other => panic!("{name} is {other:?}"),
        };
        self.all(name).map(number).collect()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name).pop()
    }

    pub fn real(&self, name: &str) -> Option<f64> {
        self.all(name).next().map(|value| match value {
            Value::Real(number) => *number,
            other => panic!("{name} is {other:?}"),
        })
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            other => panic!("{name} is {other:?}"),
        };
        self.all(name).map(text).collect()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.texts(name).pop()
    }

    pub fn messages(&self, name: &str) -> Vec<&Message> {
        let of_field = self.all(name).map(|value| match value {
            Value::Message(message) => message,
            other => panic!("{name} is {other:?}"),
        });
        of_field.collect()
    }

    pub fn message(&self, name: &str) -> Option<&Message> {
        self.messages(name).pop()
    }

    /// The fields that are not called `name`, as text.
    pub fn others(&self, name: &str) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::Number(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Message(message) => format!("{message:?}"),
        };
        self.0.iter().filter(|(field, _)| field != name).map(|(_, value)| text(value)).collect()
    }
}

/// Reads a value of the type that the schema gives to a field.
fn value(field: &Field, wire: Wire<'_>) -> Value {
    match (field.kind.as_str(), wire) {
        ("uint64" | "int64", Wire::Varint(number)) => Value::Number(number),
        ("uint32", Wire::Varint(number)) if u32::try_from(number).is_ok() => Value::Number(number),
        // Negative numbers have ten bytes; the trace of a job has none.
        ("int32", Wire::Varint(number)) if i32::try_from(number).is_ok() => Value::Number(number),
        ("fixed64", Wire::Fixed64(number)) => Value::Number(number),
        ("double", Wire::Fixed64(number)) => Value::Real(f64::from_bits(number)),
        ("string", Wire::Bytes(_)) => Value::Text(wire.text()),
        (kind, Wire::Varint(number))
            if PUBLISHED.enums.get(kind).is_some_and(|values| values.contains_key(&number)) =>
        {
            Value::Number(number)
        }
        (kind, Wire::Bytes(bytes)) if PUBLISHED.messages.contains_key(kind) => {
            Value::Message(Message::decode(kind, bytes))
        }
        _ => panic!("{wire:?} is no value of {field:?}"),
    }
}

/// A field of a message as it is on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn varint(self) -> u64 {
        let Self::Varint(number) = self else { panic!("{self:?} is no varint") };
        number
    }

    fn bytes(self) -> &'a [u8] {
        let Self::Bytes(bytes) = self else { panic!("{self:?} has no length") };
        bytes
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// Takes a varint from the front of a message.
fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return number;
        }
    }
    panic!("a varint has at most ten bytes")
}

/// The numbers and values of the fields of a message.
fn wire_fields(mut bytes: &[u8]) -> Vec<(u64, Wire<'_>)> {
    let mut found = vec![];
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let value = match key & 7 {
            0 => Wire::Varint(take_varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_first_chunk::<8>().unwrap();
                bytes = rest;
                Wire::Fixed64(u64::from_le_bytes(*number))
            }
            2 => {
                let length = take_varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Wire::Bytes(content)
            }
            other => panic!("the schema has no field of wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}
