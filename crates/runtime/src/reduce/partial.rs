//! Partial results of reductions.

use super::exact::ExactSum;
use super::flat;
use super::op::{CustomOp, Op, combine};
use super::statistics::Moments;
use super::value::Value;
use crate::address::index::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The state of a reduction between its first contribution and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Partial {
    /// A value combined by the operation directly.
    Plain(Value),
    /// A sum of `f64`, not yet rounded.
    Sum(ExactSum),
    /// Sums of `f64`, element by element, not yet rounded.
    Sums(Vec<ExactSum>),
    /// Contributions with the keys of their contributors, by which they are sorted at the end.
    Parts(Vec<(Key, Value)>),
    /// Moments of numbers.
    Statistics(Moments),
    /// The encoded elements of sets.
    Set(BTreeSet<Vec<u8>>),
    /// A partial result for each element of tuples.
    Tuple(#[serde(deserialize_with = "flat::deserialize")] Vec<Partial>),
}

impl Partial {
    /// Creates the partial result of one contribution.
    pub(crate) fn new(op: &Op, contributor: Key, value: Value) -> Self {
        let exact = |term| {
            let mut sum = ExactSum::default();
            sum.add(term);
            sum
        };
        match (op, value) {
            (Op::Concat, value) => Self::Parts(vec![(contributor, value)]),
            (Op::Sum, Value::F64(term)) => Self::Sum(exact(term)),
            (Op::Sum, Value::F64s(terms)) => Self::Sums(terms.into_iter().map(exact).collect()),
            (Op::Statistics, Value::F64(number)) => Self::Statistics(Moments::new(number)),
            (Op::Statistics, Value::I64(number)) => Self::Statistics(Moments::new(number as f64)),
            (Op::Statistics, Value::U64(number)) => Self::Statistics(Moments::new(number as f64)),
            (Op::Union, Value::Items(items)) => Self::Set(items.into_iter().collect()),
            (Op::Tuple(ops), Value::Tuple(values)) if ops.len() == values.len() => {
                let each = ops.iter().zip(values);
                Self::Tuple(each.map(|(op, value)| Self::new(op, contributor, value)).collect())
            }
            (_, value) => Self::Plain(value),
        }
    }

    /// Combines with `other`. Returns `None` if the two have different kinds or lengths, or `op`
    /// does not apply to them.
    pub(crate) fn combine(self, op: &Op, other: Self, custom: &[CustomOp]) -> Option<Self> {
        Some(match (self, other) {
            (Self::Plain(a), Self::Plain(b)) => Self::Plain(match op {
                Op::Custom(name) => custom.get(usize::from(name.0))?(a, b),
                _ => combine(op, a, b)?,
            }),
            (Self::Sum(mut a), Self::Sum(b)) => {
                a.merge(&b);
                Self::Sum(a)
            }
            (Self::Sums(mut a), Self::Sums(b)) if a.len() == b.len() => {
                a.iter_mut().zip(&b).for_each(|(a, b)| a.merge(b));
                Self::Sums(a)
            }
            (Self::Parts(mut a), Self::Parts(mut b)) => {
                a.append(&mut b);
                Self::Parts(a)
            }
            (Self::Statistics(mut a), Self::Statistics(b)) => {
                a.merge(&b);
                Self::Statistics(a)
            }
            (Self::Set(mut a), Self::Set(mut b)) => {
                a.append(&mut b);
                Self::Set(a)
            }
            (Self::Tuple(a), Self::Tuple(b)) if a.len() == b.len() => {
                let Op::Tuple(ops) = op else { return None };
                let each = ops.iter().zip(a).zip(b);
                Self::Tuple(
                    each.map(|((op, a), b)| a.combine(op, b, custom)).collect::<Option<_>>()?,
                )
            }
            _ => return None,
        })
    }

    /// Returns the result, or `None` if parts cannot be concatenated.
    pub(crate) fn finish(self) -> Option<Value> {
        match self {
            Self::Plain(value) => Some(value),
            Self::Sum(sum) => Some(Value::F64(sum.total())),
            Self::Sums(sums) => Some(Value::F64s(sums.iter().map(ExactSum::total).collect())),
            Self::Parts(mut parts) => {
                parts.sort_by_key(|(key, _)| *key);
                concatenate(parts.into_iter().map(|(_, value)| value))
            }
            Self::Statistics(moments) => Some(Value::Statistics(moments.finish())),
            Self::Set(items) => Some(Value::Items(items.into_iter().collect())),
            Self::Tuple(parts) => {
                Some(Value::Tuple(parts.into_iter().map(Self::finish).collect::<Option<_>>()?))
            }
        }
    }
}

fn concatenate(parts: impl Iterator<Item = Value>) -> Option<Value> {
    let mut all = None;
    for part in parts {
        all = Some(match (all, part) {
            (None, Value::F64(x)) => Value::F64s(vec![x]),
            (None, Value::I64(x)) => Value::I64s(vec![x]),
            (None, Value::U64(x)) => Value::U64s(vec![x]),
            (
                None,
                list @ (Value::F64s(_)
                | Value::I64s(_)
                | Value::U64s(_)
                | Value::Bytes(_)
                | Value::Items(_)),
            ) => list,
            (Some(Value::F64s(mut list)), Value::F64(x)) => {
                list.push(x);
                Value::F64s(list)
            }
            (Some(Value::I64s(mut list)), Value::I64(x)) => {
                list.push(x);
                Value::I64s(list)
            }
            (Some(Value::U64s(mut list)), Value::U64(x)) => {
                list.push(x);
                Value::U64s(list)
            }
            (Some(Value::F64s(mut list)), Value::F64s(more)) => {
                list.extend(more);
                Value::F64s(list)
            }
            (Some(Value::I64s(mut list)), Value::I64s(more)) => {
                list.extend(more);
                Value::I64s(list)
            }
            (Some(Value::U64s(mut list)), Value::U64s(more)) => {
                list.extend(more);
                Value::U64s(list)
            }
            (Some(Value::Bytes(mut list)), Value::Bytes(more)) => {
                list.extend(more);
                Value::Bytes(list)
            }
            (Some(Value::Items(mut list)), Value::Items(more)) => {
                list.extend(more);
                Value::Items(list)
            }
            _ => return None,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(op: &Op, values: &[Value]) -> Option<Value> {
        let mut all: Option<Partial> = None;
        for (position, value) in values.iter().enumerate() {
            let part = Partial::new(op, Key(100 - position as u128), value.clone());
            all = Some(match all {
                None => part,
                Some(all) => all.combine(op, part, &[])?,
            });
        }
        all?.finish()
    }

    #[test]
    fn concat_lists_contributions_by_index_not_by_arrival() {
        let arrived = [Value::F64(1.0), Value::F64(2.0), Value::F64(3.0)];
        assert_eq!(reduce(&Op::Concat, &arrived), Some(Value::F64s(vec![3.0, 2.0, 1.0])));
    }

    #[test]
    fn sums_of_floats_are_exact() {
        let terms = [Value::F64(1e100), Value::F64(1.0), Value::F64(-1e100)];
        assert_eq!(reduce(&Op::Sum, &terms), Some(Value::F64(1.0)));
        let lists = [Value::F64s(vec![1e100, 1.0]), Value::F64s(vec![-1e100, 2.0])];
        assert_eq!(reduce(&Op::Sum, &lists), Some(Value::F64s(vec![0.0, 3.0])));
    }

    #[test]
    fn min_and_max_of_floats_use_total_order() {
        let terms = [Value::F64(1.0), Value::F64(-0.0), Value::F64(0.0)];
        assert_eq!(reduce(&Op::Min, &terms), Some(Value::F64(-0.0)));
        assert_eq!(reduce(&Op::Max, &terms), Some(Value::F64(1.0)));
    }

    #[test]
    fn contributions_of_different_kinds_or_lengths_do_not_combine() {
        assert_eq!(reduce(&Op::Sum, &[Value::U64(1), Value::I64(1)]), None);
        assert_eq!(reduce(&Op::Sum, &[Value::F64s(vec![1.0]), Value::F64s(vec![])]), None);
        assert_eq!(reduce(&Op::Concat, &[Value::U64(1), Value::F64(1.0)]), None);
    }

    #[test]
    fn and_or_xor_are_logical_for_bool_and_bitwise_for_u64() {
        assert_eq!(
            reduce(&Op::And, &[Value::Bool(true), Value::Bool(false)]),
            Some(Value::Bool(false))
        );
        assert_eq!(reduce(&Op::Or, &[Value::U64(0b01), Value::U64(0b10)]), Some(Value::U64(0b11)));
        assert_eq!(reduce(&Op::Xor, &[Value::U64(0b11), Value::U64(0b10)]), Some(Value::U64(0b01)));
    }
}
