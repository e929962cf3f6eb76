//! Snapshots of jobs, and plans as they cross the network: everything that is read is usable.
#![no_main]

use gridspan_balance::{Greedy, Snapshot, Strategy};
use gridspan_bcast::BroadcastPlan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(plan) = postcard::from_bytes::<BroadcastPlan>(data) {
        let again = postcard::to_stdvec(&plan).expect("what was read can be written");
        assert_eq!(postcard::from_bytes::<BroadcastPlan>(&again).as_ref(), Ok(&plan));
    }
    drop(postcard::from_bytes::<gridspan_balance::Plan>(data));
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(data)
        && snapshot.validate().is_ok()
    {
        drop(Greedy.plan(&snapshot));
    }
});
