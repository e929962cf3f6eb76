//! Calls of a group that no server can execute: only these and the calls that depend on them fail.

use gridspan_rpc::calls::{Catalogue, Function, Functions, RpcError, Services, with_rpc};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, JobError, driver};
use gridspan_workflow::heuristics::HeftC;

const ADD: Function<(u64, u64), (u64,)> =
    Function::new("add", |(one, other), _| Ok((one + other,)));
/// A function that no catalogue has.
const NOWHERE: Function<(u64,), (u64,)> = Function::new("nowhere", |(value,), _| Ok((value,)));

struct Adds;

impl Catalogue for Adds {
    fn functions() -> Functions {
        Functions::new().with_parts(&ADD)
    }
}

async fn one_window(services: Services<Adds>) -> Result<(), RpcError> {
    let (mapper, heuristic) = (Mapper::new(&services), HeftC::default());
    let group = mapper.map(&heuristic, async |group| {
        let (one, two) = (group.value(&1)?, group.value(&2)?);
        let (never,) = group.call(&NOWHERE, (&one,));
        let (after,) = group.call(&ADD, (&one, &never));
        let (three,) = group.call(&ADD, (&one, &two));
        let (four,) = group.call(&ADD, (&three, &one));
        assert_eq!(group.get(&four).await?, 4);
        let error = group.get(&after).await.unwrap_err();
        assert_eq!(error, RpcError::FunctionNotFound { function: "nowhere".to_owned() });
        // The next window contains a call that depends on the failed one, beside one that can be
        // executed.
        let (later,) = group.call(&ADD, (&after, &one));
        let (five,) = group.call(&ADD, (&four, &one));
        assert_eq!(group.get(&later).await.unwrap_err(), error);
        assert_eq!(group.get(&five).await?, 5);
        Ok(())
    });
    group.await
}

#[test]
fn only_calls_that_no_server_offers_and_their_dependents_fail() {
    let job = with_rpc::<Adds>(Job::new("hopeless")).main(async |grid: Grid| {
        let services = Services::on_all_pes(&grid).await?;
        one_window(services).await.map_err(JobError::from)
    });

    assert_eq!(driver::embedded::run(job, 3), Ok(()));
}
