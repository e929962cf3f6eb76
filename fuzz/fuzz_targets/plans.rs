//! Snapshots of jobs, and plans as sent over the network, are read or rejected. A plan of a
//! broadcast that was read can be written again, and a valid snapshot gives a plan.
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
