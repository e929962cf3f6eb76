//! The operations that combine contributions.

use super::flat::ELEMENTS_MAX;
use super::value::Value;
use serde::{Deserialize, Serialize};

/// An operation that combines two contributions. All are associative and commutative, except for
/// the rounding of products of `f64`.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, _number: u64, cx: &mut Context<Self>) {
///         let index = cx.index().0;
///         cx.contribute((Sum, Max), (1_u64, index), To::main());
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// cells.broadcast(0);
/// let (members, largest): (u64, i32) = cells.reduction((Sum, Max)).await?;
/// assert_eq!((members, largest), (4, 3));
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// Adds; `f64` exactly, integers wrapping around. For `bool`, the same as [`Or`](Self::Or).
    Sum,
    /// Multiplies; integers wrapping around. The rounding of products of `f64` depends on their
    /// order. For `bool`, the same as [`And`](Self::And).
    Product,
    /// Takes the smallest; for `f64` in IEEE 754 total order. `false` is less than `true`.
    Min,
    /// Takes the largest; for `f64` in IEEE 754 total order. `false` is less than `true`.
    Max,
    /// Logical for `bool`, bitwise for integers.
    And,
    /// Logical for `bool`, bitwise for integers.
    Or,
    /// Lists all contributions by index of the contributor: numbers and `Vec`s of numbers give a
    /// `Vec` of all numbers; bytes and [`List`](crate::List)s are joined.
    Concat,
    /// Applies an operation that the job defines; see `Job::reducer`.
    Custom(Custom),
    /// Describes numbers (`f64`, `i64`, `u64`) by count, mean, variance and range; the result is a
    /// [`Statistics`](super::Statistics).
    Statistics,
    /// Forms the union of sets (`BTreeSet<T>`).
    Union,
    /// Exclusive or: logical for `bool`, bitwise for integers.
    Xor,
    /// Combines each element of tuples by its own operation. Made from a tuple of operations, none
    /// of which is a tuple:
    ///
    /// ```
    /// # use gridspan_runtime::Op;
    /// let op = Op::from((Op::Sum, Op::Max));
    /// assert_eq!(op, Op::Tuple(vec![Op::Sum, Op::Max]));
    /// ```
    Tuple(#[serde(deserialize_with = "super::flat::deserialize")] Vec<Op>),
}

impl Op {
    /// Whether this is a tuple that contains a tuple, or too many elements.
    pub(crate) fn is_unsound(&self) -> bool {
        let is_tuple = |op: &Self| matches!(op, Self::Tuple(_));
        matches!(self, Self::Tuple(ops) if ops.len() > ELEMENTS_MAX || ops.iter().any(is_tuple))
    }
}

macro_rules! op_from_tuples {
    ($(($($name:ident),+))*) => {$(
        impl From<($(op_from_tuples!(@op $name),)+)> for Op {
            fn from(ops: ($(op_from_tuples!(@op $name),)+)) -> Self {
                #[allow(non_snake_case)]
                let ($($name,)+) = ops;
                Self::Tuple(vec![$($name),+])
            }
        }
    )*};
    (@op $name:ident) => { Op };
}

op_from_tuples! { (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// Identifies a custom operation of a job. Made by `Job::reducer`.
///
/// ```
/// use gridspan::{Custom, Op, Value};
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
///
/// /// The first reducer that the job defines.
/// const GCD: Op = Op::Custom(Custom(0));
///
/// fn gcd(a: Value, b: Value) -> Value {
///     match (a, b) {
///         (Value::U64(a), Value::U64(b)) if b > 0 => gcd(Value::U64(b), Value::U64(a % b)),
///         (a, _) => a,
///     }
/// }
///
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, _number: u64, cx: &mut Context<Self>) {
///         cx.contribute(GCD, 12 * (cx.index().0 as u64 + 1), To::main());
///     }
/// }
/// # let job = Job::new("cells").reducer("gcd", gcd).0.actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// # cells.broadcast(0);
/// # assert_eq!(cells.reduction::<u64>(GCD).await?, 12);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Custom(pub u16);

/// Combines two values. Must be associative and commutative.
pub type CustomOp = fn(Value, Value) -> Value;

/// Combines two values of the same kind with a built-in operation; `None` if the operation does not
/// apply to them.
pub(super) fn combine(op: &Op, left: Value, right: Value) -> Option<Value> {
    Some(match (left, right) {
        (Value::Unit, Value::Unit) => Value::Unit,
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(match op {
            Op::And | Op::Min | Op::Product => a & b,
            Op::Or | Op::Max | Op::Sum => a | b,
            Op::Xor => a ^ b,
            _ => return None,
        }),
        (Value::I64(a), Value::I64(b)) => Value::I64(signed(op, a, b)?),
        (Value::U64(a), Value::U64(b)) => Value::U64(unsigned(op, a, b)?),
        (Value::F64(a), Value::F64(b)) => Value::F64(float(op, a, b)?),
        (Value::I64s(a), Value::I64s(b)) => Value::I64s(each(a, b, |a, b| signed(op, a, b))?),
        (Value::U64s(a), Value::U64s(b)) => Value::U64s(each(a, b, |a, b| unsigned(op, a, b))?),
        (Value::F64s(a), Value::F64s(b)) => Value::F64s(each(a, b, |a, b| float(op, a, b))?),
        _ => return None,
    })
}

fn each<T: Copy>(mut a: Vec<T>, b: Vec<T>, op: impl Fn(T, T) -> Option<T>) -> Option<Vec<T>> {
    if a.len() != b.len() {
        return None;
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = op(*a, b)?;
    }
    Some(a)
}

fn signed(op: &Op, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        Op::Sum => a.wrapping_add(b),
        Op::Product => a.wrapping_mul(b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        _ => return None,
    })
}

fn unsigned(op: &Op, a: u64, b: u64) -> Option<u64> {
    Some(match op {
        Op::Sum => a.wrapping_add(b),
        Op::Product => a.wrapping_mul(b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        _ => return None,
    })
}

fn float(op: &Op, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        Op::Product => a * b,
        Op::Min => std::cmp::min_by(a, b, f64::total_cmp),
        Op::Max => std::cmp::max_by(a, b, f64::total_cmp),
        // `Partial` keeps sums exact.
        _ => return None,
    })
}
