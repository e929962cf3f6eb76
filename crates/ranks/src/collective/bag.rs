//! What a collective operation collects on its way up: parts as they are, or partial results.

use super::segments::Segments;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::ops::Operator;
use crate::packet::Part;
use gridspan_runtime::ExactSum;

/// What an operation collects on the way up.
pub(super) trait Bag {
    /// Adds a part of another rank.
    fn add(&mut self, part: Part) -> Result<(), RankError>;
    /// All that was collected.
    fn parts(&self) -> Result<Vec<Part>, RankError>;
}

/// Parts as they are.
impl Bag for Vec<Part> {
    fn add(&mut self, part: Part) -> Result<(), RankError> {
        self.push(part);
        Ok(())
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        Ok(self.clone())
    }
}

/// The partial results of a reduction.
pub(super) struct Partial<'a, T, O> {
    segments: Segments<Vec<T>>,
    op: &'a O,
    at: CallSite,
}

impl<'a, T: Element, O: Operator<T>> Partial<'a, T, O> {
    pub(super) fn new(ranks: u32, op: &'a O, at: CallSite) -> Self {
        Self { segments: Segments::new(ranks), op, at }
    }

    /// Adds the value of a segment.
    pub(super) fn put(&mut self, key: (u32, u32), value: Vec<T>) -> Result<(), RankError> {
        let (op, at) = (self.op, self.at);
        self.segments.add(key, value, |left, right| combine(left, &right, op, at))
    }

    /// The result.
    pub(super) fn total(self) -> Result<Vec<T>, RankError> {
        let at = self.at;
        let reason = || "ranks are missing in the result".to_owned();
        self.segments.into_total().ok_or_else(|| RankError::Invalid { at, reason: reason() })
    }
}

/// Combines two values of equal length.
pub(super) fn combine<T>(
    mut left: Vec<T>,
    right: &[T],
    op: &impl Operator<T>,
    at: CallSite,
) -> Result<Vec<T>, RankError> {
    if left.len() != right.len() {
        return Err(RankError::WrongLength { at, found: right.len(), expected: left.len() });
    }
    op(&mut left, right);
    Ok(left)
}

impl<T: Element, O: Operator<T>> Bag for Partial<'_, T, O> {
    fn add(&mut self, Part { key, content }: Part) -> Result<(), RankError> {
        let key = ((key >> 32) as u32, key as u32);
        self.put(key, content.to_vec(self.at)?)
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        let part = |(key, value): (&(u32, u32), &Vec<T>)| Part {
            key: u64::from(key.0) << 32 | u64::from(key.1),
            content: Content::copied(value),
        };
        Ok(self.segments.iter().map(part).collect())
    }
}

/// Sums of numbers that have not been rounded.
pub(super) struct ExactSums {
    sums: Vec<ExactSum>,
    at: CallSite,
}

impl ExactSums {
    pub(super) fn new(numbers: &[f64], at: CallSite) -> Self {
        let sum = |number: &f64| {
            let mut sum = ExactSum::default();
            sum.add(*number);
            sum
        };
        Self { sums: numbers.iter().map(sum).collect(), at }
    }

    /// The sums, each rounded once.
    pub(super) fn totals(&self) -> Vec<f64> {
        self.sums.iter().map(ExactSum::total).collect()
    }
}

impl Bag for ExactSums {
    fn add(&mut self, Part { content, .. }: Part) -> Result<(), RankError> {
        let others: Vec<ExactSum> = content.decode(self.at)?;
        let (found, expected) = (others.len(), self.sums.len());
        if found != expected {
            return Err(RankError::WrongLength { at: self.at, found, expected });
        }
        self.sums.iter_mut().zip(&others).for_each(|(sum, other)| sum.merge(other));
        Ok(())
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        Ok(vec![Part { key: 0, content: Content::encoded(&self.sums, self.at)? }])
    }
}
