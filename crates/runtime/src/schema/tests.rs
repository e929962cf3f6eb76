//! Structures of types as programs write them, each with the expected text.

use super::*;
use crate::{Numbers, Published, Reply};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;

fn text<T: DeserializeOwned + 'static>() -> String {
    Schema::of::<T>().to_string()
}

fn print<T: DeserializeOwned + 'static>() -> Fingerprint {
    Schema::of::<T>().fingerprint()
}

/// Defines a type in a module.
macro_rules! module {
    ($name:ident $($item:item)*) => {
        mod $name { use serde::{Deserialize, Serialize}; $($item)* }
    };
}

module!(plain #[derive(Serialize, Deserialize)] pub(super) struct T { a: u32, b: f64 });
module!(elsewhere #[derive(Serialize, Deserialize)] pub(super) struct T { a: u32, b: f64 });
module!(added #[derive(Serialize, Deserialize)] pub(super) struct T { a: u32, b: f64, c: bool });
module!(reordered #[derive(Serialize, Deserialize)] pub(super) struct T { b: f64, a: u32 });
module!(renamed #[derive(Serialize, Deserialize)] pub(super) struct T { a: u32, c: f64 });
module!(wider #[derive(Serialize, Deserialize)] pub(super) struct T { a: u64, b: f64 });
module!(signed #[derive(Serialize, Deserialize)] pub(super) struct T { a: i32, b: f64 });

#[test]
fn equal_types_of_two_modules_are_equal_and_changed_ones_differ() {
    assert_eq!(print::<plain::T>(), print::<elsewhere::T>());
    assert_eq!(Schema::of::<plain::T>(), Schema::of::<elsewhere::T>());
    let all = [
        print::<plain::T>(),
        print::<added::T>(),
        print::<reordered::T>(),
        print::<renamed::T>(),
        print::<wider::T>(),
        print::<signed::T>(),
    ];
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), all.len());
}

module!(two #[derive(Serialize, Deserialize)] pub(super) enum T { A, B(u8) });
module!(inserted #[derive(Serialize, Deserialize)] pub(super) enum T { A, C, B(u8) });
module!(swapped #[derive(Serialize, Deserialize)] pub(super) enum T { B(u8), A });
module!(filled #[derive(Serialize, Deserialize)] pub(super) enum T { A, B { x: u8 } });

#[test]
fn enums_differ_if_variants_have_other_names_order_or_content() {
    let all =
        [print::<two::T>(), print::<inserted::T>(), print::<swapped::T>(), print::<filled::T>()];
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(text::<inserted::T>(), "T { A, C, B: u8 }");
}

/// Programs of different builds exchange the fingerprint. Another program computed this value, from
/// a copy of the hashed text that was written by hand.
#[test]
fn a_fingerprint_is_the_same_in_all_builds() {
    assert_eq!(print::<(u8, u8)>(), Fingerprint(FNV_OF_TWO_BYTES));
}

// $ printf 'schema 1\n7 tuple 2 1\n2 u8' | FNV-1a, 64 bits
const FNV_OF_TWO_BYTES: u64 = 0xb27e_249e_d607_57d6;

#[test]
fn types_that_look_equal_on_the_wire_have_equal_structures() {
    #[derive(Serialize, Deserialize)]
    struct Metres(f64);

    assert_eq!(print::<Metres>(), print::<f64>());
    assert_eq!(print::<Box<u8>>(), print::<u8>());
    assert_eq!(print::<Vec<u16>>(), print::<VecDeque<u16>>());
    assert_eq!(print::<HashMap<u8, String>>(), print::<BTreeMap<u8, Box<str>>>());
    assert_eq!(print::<usize>(), print::<u64>());
    assert_eq!(print::<[u8; 3]>(), print::<(u8, u8, u8)>());
    assert_eq!(print::<((), u8)>(), print::<(std::marker::PhantomData<f64>, u8)>());
}

#[test]
fn blocks_of_different_types_of_numbers_differ() {
    assert_ne!(print::<Numbers<f64>>(), print::<Numbers<u64>>());
    assert_ne!(print::<Vec<Numbers<f32>>>(), print::<Vec<Numbers<u32>>>());
    assert_eq!(text::<(Numbers<f64>, u8)>(), "(Numbers<f64>, u8)");
}

#[derive(Serialize, Deserialize)]
struct Tree {
    value: u32,
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
}

#[derive(Serialize, Deserialize)]
enum Term {
    Sum(Box<Term>, Box<Term>),
    Call { name: String, arguments: Vec<Term> },
    Number(i64),
}

module!(unrolled
    #[derive(Serialize, Deserialize)] pub(super) struct T { value: u32, next: Option<Box<Other>> }
    #[derive(Serialize, Deserialize)] pub(super) struct Other { value: u32, next: Option<Box<T>> }
);
module!(rolled #[derive(Serialize, Deserialize)] pub(super) struct T { value: u32, next: Option<Box<T>> });

#[test]
fn recursive_types_are_equal_whether_unrolled_or_not() {
    assert_eq!(text::<Tree>(), "Tree { value: u32, left: Option<Tree>, right: Option<Tree> }");
    assert_eq!(
        text::<Term>(),
        "Term { Sum: (Term; 2), Call:  { name: string, arguments: [Term] }, Number: i64 }"
    );
    assert_eq!(print::<unrolled::T>(), print::<rolled::T>());
    assert_eq!(print::<(unrolled::T, rolled::T)>(), print::<(rolled::T, rolled::T)>());
}

/// Each enum needs a value of the other, except for the last variant of `One`.
#[derive(Serialize, Deserialize)]
enum One {
    X(Box<Two>),
    Z(Box<Two>),
    End,
}

#[derive(Serialize, Deserialize)]
enum Two {
    V(Box<One>),
}

/// A type of which no value can be made.
#[derive(Serialize, Deserialize)]
struct Endless(Box<Endless>, u8);

#[test]
fn mutually_recursive_enums_are_complete_and_endless_types_terminate() {
    assert_eq!(text::<One>(), "One { X: Two { V: One }, Z: Two, End }");
    assert!(!text::<Endless>().is_empty());
}

#[test]
fn all_variants_of_nested_enums_are_found() {
    type Nested = Vec<Option<BTreeMap<u8, Result<two::T, inserted::T>>>>;
    assert_eq!(
        text::<Nested>(),
        "[Option<Map<u8, Result { Ok: T { A, B: u8 }, Err: T { A, C, B: u8 } }>>]"
    );
    type Many = (Term, (two::T, Option<Term>), [inserted::T; 2]);
    let text = text::<Many>();
    assert!(text.contains("Number: i64") && text.contains("(T { A, C, B: u8 }; 2)"), "{text}");
}

/// A type that refuses all made-up values.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String")]
struct Picky;

impl TryFrom<String> for Picky {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "only this" { Ok(Self) } else { Err(text) }
    }
}

/// A type that panics on made-up values.
#[derive(Serialize, Deserialize)]
#[serde(from = "u64")]
struct Fragile;

impl From<u64> for Fragile {
    fn from(number: u64) -> Self {
        assert_eq!(number, 77, "a number that was not expected");
        Self
    }
}

module!(around #[derive(Serialize, Deserialize)] pub(super) struct T {
    first: super::Picky, second: Option<super::two::T>, third: super::Picky, last: u32,
});
module!(around_wider #[derive(Serialize, Deserialize)] pub(super) struct T {
    first: super::Picky, second: Option<super::two::T>, third: super::Picky, last: u64,
});

#[test]
fn parts_beside_a_type_that_refuses_made_up_values_are_found() {
    assert_eq!(text::<(NonZeroU32, u8)>(), "(u32, u8)");
    assert_eq!(text::<Picky>(), "string");
    assert_eq!(
        text::<around::T>(),
        "T { first: string, second: Option<T { A, B: u8 }>, third: string, last: u32 }"
    );
    assert_ne!(print::<around::T>(), print::<around_wider::T>());
    assert_eq!(text::<Vec<(Picky, u8)>>(), "[(string, ?)]");
    assert_eq!(
        text::<(Option<Picky>, Term, Vec<Picky>)>(),
        format!("(Option<string>, {}, [string])", text::<Term>())
    );
}

#[test]
fn untagged_types_are_opaque_and_panicking_types_are_what_they_requested() {
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Any {
        One(u8),
    }

    assert_eq!(text::<Any>(), "Any");
    assert_eq!(text::<Vec<Any>>(), "[Any]");
    assert_eq!(text::<(u8, Fragile)>(), "(u8, u64)");
}

#[test]
fn fields_and_variants_with_aliases_are_counted_once() {
    #[derive(Serialize, Deserialize)]
    struct Aliased {
        #[serde(alias = "one", alias = "uno")]
        a: u8,
        #[serde(skip_deserializing)]
        skipped: u64,
        b: Kind,
    }
    #[derive(Serialize, Deserialize)]
    enum Kind {
        #[serde(alias = "P")]
        Plain,
        Other(u16),
    }

    let text = text::<Aliased>();

    assert_eq!((text.matches("u8").count(), text.matches("u16").count()), (1, 1), "{text}");
    assert_eq!(text.matches('?').count(), 0, "{text}");
}

#[test]
fn a_difference_is_named_by_its_path() {
    let one = Schema::of::<(Vec<plain::T>, BTreeMap<String, two::T>)>();
    let other = Schema::of::<(Vec<wider::T>, BTreeMap<String, two::T>)>();

    assert_eq!(one.difference(&one), None);
    let difference = one.difference(&other).unwrap();
    assert_eq!(difference.to_string(), "`.0[].a` is `u32` here, `u64` there");
    let variants = Schema::of::<two::T>().difference(&Schema::of::<inserted::T>()).unwrap();
    assert_eq!(variants.to_string(), "`T { A, B: u8 }` here, `T { A, C, B: u8 }` there");
}

#[test]
fn a_decoded_schema_equals_the_encoded_one_and_a_broken_one_is_refused() {
    let schema = Schema::of::<Term>();
    let bytes = postcard::to_stdvec(&*schema).unwrap();
    let back: Schema = postcard::from_bytes(&bytes).unwrap();
    assert_eq!((&back, back.fingerprint()), (&*schema, schema.fingerprint()));

    let broken = postcard::to_stdvec(&vec![Shape::Option(7)]).unwrap();
    assert!(postcard::from_bytes::<Schema>(&broken).is_err());
    assert!(
        postcard::from_bytes::<Schema>(&postcard::to_stdvec(&Vec::<Shape>::new()).unwrap())
            .is_err()
    );
    // An unnamed type that consists of itself.
    let endless: Schema =
        postcard::from_bytes(&postcard::to_stdvec(&vec![Shape::Seq(0)]).unwrap()).unwrap();
    assert!(endless.to_string().len() < 2 * TEXT_BYTES_MAX);
    assert_eq!(endless.difference(&endless), None);
}

/// Defines a chain of types, each of which contains the next one twice.
macro_rules! chain {
    ($last:ident) => {
        #[derive(Serialize, Deserialize)]
        struct $last(u8);
    };
    ($first:ident $second:ident $($rest:ident)*) => {
        #[derive(Serialize, Deserialize)]
        struct $first {
            left: Option<Box<$second>>,
            right: Vec<$second>,
        }
        chain!($second $($rest)*);
    };
}

chain!(A B C D E F G H I J K L M N O P Q R S T U V W X Y Z);

/// There are 2^25 paths from the first type to the last.
#[test]
fn shared_types_are_visited_once() {
    let text = text::<A>();
    assert!(text.starts_with("A { left: Option<B { left: Option<C {"), "{text}");
    assert_eq!(Schema::of::<Z>().difference(&Schema::of::<u8>()), None);
}

/// A type with two handles that refer to itself.
#[derive(Serialize, Deserialize)]
enum Question {
    Who(Reply<Question>),
    What {
        to: Reply<Result<u64, String>>,
        or: Option<Reply<Question>>,
        of: Published<Vec<Question>>,
    },
}

module!(asks_unsigned
    #[derive(Serialize, Deserialize)] pub(super) enum T { Get(crate::Reply<u64>), Stop }
);
module!(asks_signed
    #[derive(Serialize, Deserialize)] pub(super) enum T { Get(crate::Reply<i64>), Stop }
);

#[test]
fn the_type_that_a_handle_refers_to_is_part_of_the_structure() {
    assert_ne!(print::<asks_unsigned::T>(), print::<asks_signed::T>());
    assert_ne!(print::<Published<Vec<f32>>>(), print::<Published<Vec<u32>>>());
    let (one, other) = (Schema::of::<asks_unsigned::T>(), Schema::of::<asks_signed::T>());
    let difference = one.difference(&other).unwrap();
    assert_eq!(difference.to_string(), "`::Get.value` is `u64` here, `i64` there");
    // A value that cannot be made up does not hide the parts after it.
    let text = text::<(Reply<(Picky, u8)>, Reply<Endless>, u16)>();
    assert!(text.contains("value: (string, ?)") && text.ends_with(", u16)"), "{text}");
}

#[test]
fn handles_that_refer_to_the_type_that_contains_them_are_complete() {
    let text = text::<Question>();
    let wanted = "or: Option<Handle>, of: Handle { handle: u32, value: [Question] } }";
    assert!(text.contains("value: Result { Ok: u64, Err: string }"), "{text}");
    assert!(text.contains(wanted) && !text.contains('?'), "{text}");
}
