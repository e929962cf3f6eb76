//! Lists and sets of any type that serialises.

use crate::message::codec::{decode, encode};
use crate::reduce::{Reducible, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// A list of any type that serialises, for [`Op::Concat`](crate::Op::Concat): the result has the
/// elements of all contributions, in the order of the contributors' indices. Numbers need no
/// `List`: members can contribute a `Vec` of numbers.
///
/// ```
/// use gridspan_runtime::{List, Reducible};
///
/// let named = List(vec![("east".to_owned(), 3), ("west".to_owned(), 5)]);
/// let value = named.clone().into_value();
/// assert_eq!(List::from_value(value), Some(named));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Serialize + DeserializeOwned> Reducible for List<T> {
    fn into_value(self) -> Value {
        Value::Items(self.0.iter().map(encode).collect())
    }

    fn from_value(value: Value) -> Option<Self> {
        decoded(value).map(Self)
    }
}

/// A set, for [`Op::Union`](crate::Op::Union). Equal elements must serialise to equal bytes.
impl<T: Serialize + DeserializeOwned + Ord> Reducible for BTreeSet<T> {
    fn into_value(self) -> Value {
        Value::Items(self.iter().map(encode).collect())
    }

    fn from_value(value: Value) -> Option<Self> {
        decoded(value)
    }
}

fn decoded<T: DeserializeOwned, All: FromIterator<T>>(value: Value) -> Option<All> {
    let Value::Items(items) = value else { return None };
    items.iter().map(|item| decode("an element of a reduction", item).ok()).collect()
}
