//! The sequence in which a group makes its values and calls.
//!
//! Data is numbered in this sequence. If a group that goes on after a restoration made other values
//! or calls, it would mistake data of servers for other results. So main remembers a fingerprint of
//! the sequence up to the progress point. Once the restored group has made as many values and
//! calls, it fails if the fingerprints differ. Of a value, the fingerprint covers only the encoded
//! length, because a hash map may be encoded in another order.

use crate::calls::RpcError;
use gridspan_runtime::schema::Fingerprint;
use serde::{Deserialize, Serialize};

/// The values and calls that a group had made at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    /// Number of values and calls.
    count: u64,
    fingerprint: Fingerprint,
}

/// The values and calls that a group makes.
#[derive(Debug)]
pub(super) struct Sequence {
    made: Made,
    /// The values and calls up to the progress point from which the group goes on.
    before: Option<Made>,
    /// Whether the group has made other values or calls up to there.
    differs: bool,
}

impl Default for Sequence {
    fn default() -> Self {
        let made = Made { count: 0, fingerprint: Fingerprint(0) };
        Self { made, before: None, differs: false }
    }
}

impl Sequence {
    /// The sequence of a group that goes on after a restoration, and had made this before.
    pub(super) fn again(before: Made) -> Self {
        Self { before: Some(before), ..Self::default() }
    }

    /// Returns the values and calls made so far.
    pub(super) fn made(&self) -> Made {
        self.made
    }

    /// Adds a value of this length in bytes.
    pub(super) fn note_value(&mut self, bytes: usize) {
        self.add([0, bytes as u64]);
    }

    /// Adds a call.
    pub(super) fn note_call(&mut self, function: &str, inputs: &[u32], outputs: usize) {
        let head = [1, function.len() as u64, inputs.len() as u64, outputs as u64];
        let name = function.bytes().map(u64::from);
        self.add(head.into_iter().chain(name).chain(inputs.iter().copied().map(u64::from)));
    }

    fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let parts = numbers.into_iter().map(Fingerprint);
        let fingerprint = Fingerprint::of_all([self.made.fingerprint].into_iter().chain(parts));
        self.made = Made { count: self.made.count + 1, fingerprint };
        let is_as_far = |before: Made| before.count == self.made.count;
        self.differs |= self.before.is_some_and(|it| is_as_far(it) && it != self.made);
    }

    /// Checks that the group has made the same values and calls as before the restoration.
    pub(super) fn check(&self) -> Result<(), RpcError> {
        match self.differs {
            true => Err(other_sequence()),
            false => Ok(()),
        }
    }

    /// Checks the same at the end of the group, which must have made as many values and calls.
    pub(super) fn check_end(&self) -> Result<(), RpcError> {
        match self.before {
            Some(before) if self.made.count < before.count => Err(other_sequence()),
            _ => self.check(),
        }
    }
}

fn other_sequence() -> RpcError {
    let reason = "the group makes other values or calls than before its checkpoint, or makes them \
                  in another order; make them depend only on their arguments and on results, or \
                  begin a new group";
    RpcError::Other { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a value and two calls, of which the second is given.
    fn make(sequence: &mut Sequence, function: &str, inputs: &[u32]) {
        sequence.note_value(8);
        sequence.note_call("first", &[0], 1);
        sequence.note_call(function, inputs, 1);
    }

    fn before() -> Made {
        let mut sequence = Sequence::default();
        make(&mut sequence, "second", &[0, 1]);
        assert!(sequence.check_end().is_ok());
        sequence.made()
    }

    #[test]
    fn a_group_that_makes_the_same_goes_on_with_whatever_it_wants() {
        let mut sequence = Sequence::again(before());
        make(&mut sequence, "second", &[0, 1]);
        assert_eq!(sequence.made(), before());
        sequence.note_call("third", &[2], 3);
        assert!(sequence.check().is_ok() && sequence.check_end().is_ok());
    }

    #[test]
    fn a_group_that_makes_something_else_is_noticed_when_it_has_made_as_much() {
        for (function, inputs) in
            [("secant", vec![0, 1]), ("second", vec![1, 0]), ("second", vec![0])]
        {
            let mut sequence = Sequence::again(before());
            make(&mut sequence, function, &inputs);
            sequence.note_value(1);
            let reason = sequence.check().unwrap_err().to_string();
            assert!(reason.contains("other values or calls"), "{reason}");
        }
    }

    #[test]
    fn a_group_that_makes_less_is_noticed_at_its_end() {
        let mut sequence = Sequence::again(before());
        sequence.note_value(8);
        assert!(sequence.check().is_ok());
        assert!(sequence.check_end().is_err());
    }
}
