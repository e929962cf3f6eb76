//! What a collective operation collects on its way up: parts as they are, or partial results.

use super::keys;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::ops::Operator;
use crate::packet::Part;
use crate::segments::{SegmentKey, Segments};
use gridspan_runtime::ExactSum;

/// What an operation collects on the way up.
pub(super) trait Collected {
    /// Adds a part of another rank.
    fn add(&mut self, part: Part) -> Result<(), RankError>;
    /// All that was collected.
    fn parts(&self) -> Result<Vec<Part>, RankError>;
}

/// Parts as they are.
impl Collected for Vec<Part> {
    fn add(&mut self, part: Part) -> Result<(), RankError> {
        self.push(part);
        Ok(())
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        Ok(self.clone())
    }
}

/// The messages of a barrier, which have no parts.
pub(super) struct Nothing {
    pub(super) at: CallSite,
}

impl Collected for Nothing {
    fn add(&mut self, _: Part) -> Result<(), RankError> {
        Err(RankError::OperationsDiffer { at: self.at })
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        Ok(Vec::new())
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
    pub(super) fn put(&mut self, key: SegmentKey, value: Vec<T>) -> Result<(), RankError> {
        let (op, at) = (self.op, self.at);
        self.segments.add(key, value, |left, right| combine(left, &right, op, at))
    }

    /// Adds a part of another rank, whose value must have this length.
    pub(super) fn add_sized(&mut self, part: Part, expected: usize) -> Result<(), RankError> {
        let (at, Part { key, content }) = (self.at, part);
        let value: Vec<T> = content.into_vec(at)?;
        match value.len() {
            found if found != expected => Err(RankError::WrongLength { at, found, expected }),
            _ => self.put(keys::segment(key), value),
        }
    }

    /// Adds a part of another rank: a share of `expected` elements, of a vector of `length`
    /// elements.
    pub(super) fn add_share(
        &mut self,
        part: Part,
        expected: usize,
        length: usize,
    ) -> Result<(), RankError> {
        if keys::is_share_of(part.key, length) {
            return self.add_sized(part, expected);
        }
        let whole = part.content.to_vec::<T>(self.at)?.len();
        let found = keys::length_of_whole(part.key).unwrap_or(whole);
        Err(RankError::WrongLength { at: self.at, found, expected: length })
    }

    /// All parts that were collected, with only what `select` returns of each value.
    pub(super) fn selected(&self, select: impl Fn(&[T]) -> Vec<T>) -> Vec<Part> {
        let part = |(key, value): (&SegmentKey, &Vec<T>)| Part {
            key: keys::of_segment(*key),
            content: Content::owned(select(value)),
        };
        self.segments.iter().map(part).collect()
    }

    /// Number of elements of each value.
    fn length(&self) -> usize {
        self.segments.iter().next().map_or(0, |(_, value)| value.len())
    }

    /// The result; an error if ranks are missing in it.
    pub(super) fn total(self) -> Result<Vec<T>, RankError> {
        let at = self.at;
        self.segments.into_total().ok_or(RankError::OperationsDiffer { at })
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

impl<T: Element, O: Operator<T>> Collected for Partial<'_, T, O> {
    fn add(&mut self, Part { key, content }: Part) -> Result<(), RankError> {
        let (at, value) = (self.at, content.to_vec(self.at)?);
        match keys::length_of_whole(key) {
            Some(found) => Err(RankError::WrongLength { at, found, expected: self.length() }),
            None => self.put(keys::segment(key), value),
        }
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        let part = |(key, value): (&SegmentKey, &Vec<T>)| Part {
            key: keys::of_segment(*key),
            content: Content::copied(value),
        };
        Ok(self.segments.iter().map(part).collect())
    }
}

/// The partial results of a reduction of whole vectors. Its parts state the length of the vectors.
pub(super) struct WholeVectors<'a, T, O> {
    partial: Partial<'a, T, O>,
    length: usize,
}

impl<'a, T: Element, O: Operator<T>> WholeVectors<'a, T, O> {
    /// No results yet, for vectors of this length.
    pub(super) fn new(ranks: u32, op: &'a O, length: usize, at: CallSite) -> Self {
        Self { partial: Partial::new(ranks, op, at), length }
    }

    /// Adds the value of a segment.
    pub(super) fn put(&mut self, key: SegmentKey, value: Vec<T>) -> Result<(), RankError> {
        self.partial.put(key, value)
    }

    /// The result.
    pub(super) fn total(self) -> Result<Vec<T>, RankError> {
        self.partial.total()
    }
}

impl<T: Element, O: Operator<T>> Collected for WholeVectors<'_, T, O> {
    fn add(&mut self, part: Part) -> Result<(), RankError> {
        self.partial.add_share(part, self.length, self.length)
    }

    fn parts(&self) -> Result<Vec<Part>, RankError> {
        let mark = |Part { key, content }| Part { key: keys::of_share(key, self.length), content };
        Ok(self.partial.parts()?.into_iter().map(mark).collect())
    }
}

/// Unrounded sums of numbers.
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

    /// Sums without terms.
    pub(super) fn of_nothing(count: usize, at: CallSite) -> Self {
        Self { sums: vec![ExactSum::default(); count], at }
    }

    /// The part of a message with the totals.
    pub(super) fn total_part(&self) -> Part {
        Part { key: 0, content: Content::owned(self.totals()) }
    }

    /// The sums, each rounded once.
    pub(super) fn totals(&self) -> Vec<f64> {
        self.sums.iter().map(ExactSum::total).collect()
    }
}

impl Collected for ExactSums {
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
