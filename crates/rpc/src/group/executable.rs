//! Finds the calls of a window that cannot be executed: they fail, with the calls that depend on
//! them, before the others are mapped.

use super::discovery::Gathered;
use crate::calls::RpcError;
use std::collections::{BTreeMap, BTreeSet};

/// Calls that can be executed, in their order, and the results that will never exist.
pub(super) struct Executable {
    pub(super) calls: Vec<Gathered>,
    /// In the order of the calls.
    pub(super) failed: Vec<(u32, RpcError)>,
}

/// Removes the calls for which `error_of` returns an error, and those that depend on them. `lost`
/// returns the error of data that no call of the window makes, if it is lost. A call that makes
/// data must come before the calls that read it.
pub(super) fn executable(
    calls: Vec<Gathered>,
    error_of: impl Fn(&Gathered) -> Option<RpcError>,
    lost: impl Fn(u32) -> Option<RpcError>,
) -> Executable {
    let made: BTreeSet<u32> = calls.iter().flat_map(|call| &call.outputs).copied().collect();
    let mut errors: BTreeMap<u32, RpcError> = BTreeMap::new();
    let (mut able, mut failed) = (Vec::with_capacity(calls.len()), Vec::new());
    for call in calls {
        let lacks = |data: &u32| match made.contains(data) {
            true => errors.get(data).cloned(),
            false => lost(*data),
        };
        match call.inputs.iter().find_map(lacks).or_else(|| error_of(&call)) {
            None => able.push(call),
            Some(error) => {
                for &data in &call.outputs {
                    errors.insert(data, error.clone());
                    failed.push((data, error.clone()));
                }
            }
        }
    }
    Executable { calls: able, failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Signature, Volumes};

    fn call(function: &'static str, inputs: &[u32], outputs: &[u32]) -> Gathered {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        let signature = Signature::of::<(), ()>();
        Gathered { function, signature, inputs, outputs, work_s: None, volumes: Volumes::default() }
    }

    #[test]
    fn only_calls_that_cannot_be_executed_and_their_dependents_fail() {
        let calls = vec![
            call("good", &[0], &[10]),
            call("bad", &[0], &[11, 12]),
            call("good", &[10, 12], &[13]),
            call("good", &[13], &[14]),
            call("good", &[1], &[15]),
            call("good", &[10], &[16]),
        ];
        let error = |code| RpcError::Unknown { code };

        let sieved = executable(
            calls,
            |call| (call.function == "bad").then(|| error(7)),
            |data| (data == 1).then(|| error(8)),
        );

        let outputs: Vec<u32> = sieved.calls.iter().flat_map(|call| call.outputs.clone()).collect();
        assert_eq!(outputs, [10, 16]);
        let failed = [(11, 7), (12, 7), (13, 7), (14, 7), (15, 8)];
        assert_eq!(sieved.failed, failed.map(|(data, code)| (data, error(code))));
    }
}
