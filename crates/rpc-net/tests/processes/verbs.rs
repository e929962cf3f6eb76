//! The verbs of GridRPC, for clients outside of a job.

use super::{FILL, Grid, HOLD, Process, REFUSE, SUM, WHERE, within_limit};
use gridspan_rpc::calls::{CallSession, Config, Function, Handle, RpcError};
use gridspan_rpc_net::RemoteRpc;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Declares `sum` with a signature that differs from the servers'.
const OTHER_SUM: Function<(String,), (u64,)> = Function::new("sum", |_, _| Err("not here".into()));

/// Starts a call that runs until a file exists. Returns the path of the file, and the session.
async fn held(
    rpc: &RemoteRpc,
    grid: &Grid,
    name: &str,
    value: u64,
) -> (PathBuf, CallSession<(u64,)>) {
    let (file, handle) = (grid.file(name), rpc.handle(&HOLD).await.unwrap());
    let session = rpc.call_async(&handle, &(file.clone(), value)).unwrap();
    (file, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_return_results_or_fail_with_a_reason() {
    let grid = Grid::new(&["one", "other"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let (fill, sum) = (rpc.handle(&FILL).await.unwrap(), rpc.handle(&SUM).await.unwrap());
        let (numbers,) = rpc.call(&fill, &(1000,)).await.unwrap();
        assert_eq!(rpc.call(&sum, &(numbers,)).await, Ok((999 * 1000 / 2,)));
        let refuse: Handle<(u64,), (u64,)> = rpc.handle(&REFUSE).await.unwrap();
        let Err(RpcError::SessionFailed { reason }) = rpc.call(&refuse, &(1,)).await else {
            panic!("it should fail");
        };
        assert!(reason.contains("`refuse` on") && reason.contains("never"), "{reason}");

        for name in ["one", "other"] {
            let handle = rpc.handle_on(&WHERE, name).await.unwrap();
            assert_eq!(rpc.call(&handle, &(0,)).await, Ok((name.to_owned(),)));
        }
        let nowhere = rpc.handle_on(&WHERE, "third").await.unwrap_err();
        assert_eq!(nowhere, RpcError::ServerNotFound { server: "third".to_owned() });
        let differs = rpc.handle(&OTHER_SUM).await.unwrap_err();
        assert!(matches!(differs, RpcError::FunctionDiffers { .. }), "{differs}");
        let other_client = grid.remote().rpc(&Config::default()).unwrap();
        let foreign = other_client.call(&sum, &(vec![1],)).await;
        assert_eq!(foreign, Err(RpcError::InvalidFunctionHandle));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_can_be_awaited_probed_and_cancelled() {
    let grid = Grid::new(&["one", "other"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let (go, first) = held(&rpc, &grid, "first", 1).await;
        let (_never, second) = held(&rpc, &grid, "second", 2).await;
        assert_eq!(rpc.probe(first.id()), Err(RpcError::NotCompleted));
        let both = [first.id(), second.id()];
        assert_eq!(rpc.probe_or(&both), Err(RpcError::NoneCompleted));
        assert_eq!(rpc.function_of(first.id()).unwrap(), "hold");

        fs::write(&go, "").unwrap();
        assert_eq!(rpc.wait_or(&both).await, Ok(first.id()));
        assert_eq!(rpc.error(first.id()), Ok(None));
        assert_eq!(rpc.wait(&first).await, Ok((1,)));
        assert_eq!(
            rpc.wait(&first).await,
            Err(RpcError::InvalidSessionId { session: first.id().0 })
        );

        assert_eq!(rpc.error(second.id()), Err(RpcError::NotCompleted));
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            rpc.cancel(second.id()).unwrap();
        };
        let (waited, ()) = tokio::join!(rpc.wait_any(), cancel);
        assert_eq!(waited, Ok(second.id()));
        let reason = "the call was cancelled".to_owned();
        assert_eq!(rpc.error(second.id()), Ok(Some(RpcError::SessionFailed { reason })));
        assert_eq!((rpc.failed_session(), rpc.failed_session()), (Some(second.id()), None));
        assert_eq!(rpc.wait_any().await, Err(RpcError::NoneCompleted));
        assert_eq!(rpc.wait_all().await, Ok(()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_concurrent_calls_go_to_different_servers() {
    let grid = Grid::new(&["one", "other"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let handle = rpc.handle(&HOLD).await.unwrap();
        for round in 0..20 {
            let files = ["a", "b"].map(|name| grid.file(&format!("{name}{round}")));
            let calls = files.each_ref().map(|file| {
                let session: CallSession<(u64,)> =
                    rpc.call_async(&handle, &(file.clone(), round)).unwrap();
                session
            });
            // Both have started, though neither can end.
            for file in &files {
                let has_begun =
                    || ["one", "other"].iter().any(|by| file.with_extension(by).exists());
                while !has_begun() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            for (file, call) in files.iter().zip(&calls) {
                fs::write(file, "").unwrap();
                assert_eq!(rpc.wait(call).await, Ok((round,)));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_concurrent_calls_are_shared_by_the_servers() {
    let grid = Grid::new(&["one", "other"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let handle = rpc.handle(&WHERE).await.unwrap();
        let calls = (0..40).map(|number| rpc.call_async(&handle, &(number,)).unwrap());
        let sessions: Vec<CallSession<(String,)>> = calls.collect();
        rpc.wait_all().await.unwrap();
        let names: Vec<String> =
            sessions.iter().map(|session| rpc.results(session).unwrap().0).collect();
        for name in ["one", "other"] {
            let count = names.iter().filter(|of| *of == name).count();
            assert!((15..=25).contains(&count), "{name}: {count} of 40");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_executes_more_concurrent_calls_than_a_connection_has_streams() {
    let grid = Grid::new(&["one"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let sum = rpc.handle(&SUM).await.unwrap();
        // Most of the others wait for this call.
        let (go, first) = held(&rpc, &grid, "go", 1).await;
        let start = |number| rpc.call_async(&sum, &(vec![number, 1],)).unwrap();
        let sessions: Vec<CallSession<(u64,)>> = (0..1500).map(start).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        fs::write(&go, "").unwrap();
        assert_eq!(rpc.wait(&first).await, Ok((1,)));
        for (number, session) in (0..).zip(&sessions) {
            assert_eq!(rpc.wait(session).await, Ok((number + 1,)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_takes_no_session() {
    let grid = Grid::new(&["one"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        // Drops the wait before the session has ended, and then after.
        for is_over in [false, true] {
            let (go, session) = held(&rpc, &grid, &format!("go-{is_over}"), 1).await;
            let mut any = Box::pin(rpc.wait_any());
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut any).await.is_err());
            if is_over {
                fs::write(&go, "").unwrap();
                while rpc.probe(session.id()).is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            drop(any);
            fs::write(&go, "").unwrap();
            assert_eq!(rpc.wait_any().await, Ok(session.id()));
            assert_eq!(rpc.wait_any().await, Err(RpcError::NoneCompleted));
            assert_eq!(rpc.results(&session), Ok((1,)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_a_server_end_together_after_their_timeout() {
    let mut grid = Grid::new(&["one"]);
    let config = Config::default().with_timeout(Duration::from_secs(1));
    let rpc = grid.remote().rpc(&config).unwrap();
    within_limit(async {
        let sum = rpc.handle(&SUM).await.unwrap();
        grid.registry = None;
        grid.servers.clear();
        // Waits until the list of servers is no longer fresh.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let begun = Instant::now();
        let sessions: Vec<_> = (0..8).map(|_| rpc.call_async(&sum, &(vec![1],)).unwrap()).collect();
        for session in &sessions {
            assert!(rpc.wait(session).await.is_err());
        }
        let took = begun.elapsed();
        // Each call waits half a second for the list of servers, and then up to one second for the
        // server that it knows. Eight calls in sequence could take twelve seconds.
        assert!(took < Duration::from_secs(6), "it took {took:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_over_a_call_counts_as_busy() {
    let mut grid = Grid::new(&["one", "two", "three"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let (go, session) = held(&rpc, &grid, "go", 7).await;
        let holder = |names: Vec<&'static str>| {
            let go = go.clone();
            async move {
                loop {
                    let held = names.iter().find(|name| go.with_extension(name).exists());
                    if let Some(name) = held {
                        return *name;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let mut names = vec!["one", "two", "three"];
        let first = holder(names.clone()).await;
        let place = names.iter().position(|name| *name == first).unwrap();
        names.remove(place);
        drop(grid.servers.remove(place));
        let second = holder(names.clone()).await;
        // A call to `second` would wait behind the first call.
        let idle = names.into_iter().find(|name| *name != second).unwrap();
        let whereabouts = rpc.handle(&WHERE).await.unwrap();
        for _ in 0..5 {
            assert_eq!(rpc.call(&whereabouts, &(0,)).await, Ok((idle.to_owned(),)));
        }
        fs::write(&go, "").unwrap();
        assert_eq!(rpc.wait(&session).await, Ok((7,)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_server_is_killed_or_late_goes_to_another() {
    let mut grid = Grid::new(&["one", "other"]);
    let rpc = grid.remote().rpc(&Config::default()).unwrap();
    within_limit(async {
        let (go, session) = held(&rpc, &grid, "go", 7).await;
        let holder = loop {
            let holds = |name: &&str| go.with_extension(name).exists();
            if let Some(place) = ["one", "other"].iter().position(holds) {
                break place;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        drop(grid.servers.remove(holder));
        fs::write(&go, "").unwrap();
        assert_eq!(rpc.wait(&session).await, Ok((7,)));

        // Both servers exceed the timeout, and there is no third one.
        let config = Config::default().with_timeout(Duration::from_secs(2));
        grid.servers.push(Process::start("third", &grid.token()));
        let remote = grid.remote();
        let hasty = remote.rpc(&config).unwrap();
        let (_never, late) = held(&hasty, &grid, "never", 8).await;
        assert_eq!(hasty.wait(&late).await, Err(RpcError::CommunicationFailed));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_of_a_call_has_the_whole_timeout_and_gets_the_call_once() {
    let mut grid = Grid::new(&["one", "two", "three"]);
    let limit = Duration::from_secs(2);
    let config = Config::default().with_timeout(limit);
    let rpc = grid.remote().rpc(&config).unwrap();
    within_limit(async {
        let (go, session) = held(&rpc, &grid, "go", 7).await;
        let mut names = vec!["one", "two", "three"];
        let take_holder = async |names: &mut Vec<&'static str>| loop {
            let held = names.iter().position(|name| go.with_extension(name).exists());
            if let Some(place) = held {
                return (place, names.remove(place));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let (place, _) = take_holder(&mut names).await;
        // Most of the first server's time has passed when the server is lost.
        tokio::time::sleep(limit * 3 / 4).await;
        drop(grid.servers.remove(place));
        let (_, second) = take_holder(&mut names).await;
        let (_, third) = take_holder(&mut names).await;
        assert_ne!(second, third);
        let begun = |name| fs::metadata(go.with_extension(name)).unwrap().modified().unwrap();
        let took = begun(third).duration_since(begun(second)).unwrap();
        // Only a quarter of the timeout was left when the first server was lost.
        assert!(took > limit / 2 && took < limit * 7 / 4, "{second} had it for {took:?}");
        fs::write(&go, "").unwrap();
        assert_eq!(rpc.wait(&session).await, Ok((7,)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_a_short_timeout_continue_without_the_registry() {
    let mut grid = Grid::new(&["one", "other"]);
    // A call waits half of this timeout for the list of servers, which is less than the two seconds
    // that a request to the registry may take. The timeout is long enough for a busy machine.
    let config = Config::default().with_timeout(Duration::from_secs(3));
    let rpc = grid.remote().rpc(&config).unwrap();
    within_limit(async {
        let sum = rpc.handle(&SUM).await.unwrap();
        assert_eq!(rpc.call(&sum, &(vec![1],)).await, Ok((1,)));
        grid.registry = None;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        for number in 0..3 {
            assert_eq!(rpc.call(&sum, &(vec![number],)).await, Ok((number,)));
        }
    })
    .await;
}

#[test]
fn a_session_ends_with_the_runtime_that_executes_it() {
    let grid = Grid::new(&["one"]);
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (own, other) = (runtime(), runtime());
    let (rpc, hold) = own.block_on(within_limit(async {
        let rpc = grid.remote().rpc(&Config::default()).unwrap();
        let hold = rpc.handle(&HOLD).await.unwrap();
        (rpc, hold)
    }));
    assert!(rpc.call_async(&hold, &(grid.file("go"), 7)).is_err(), "there is no runtime here");
    let inside = other.handle().clone();
    let call = || {
        let _entered = inside.enter();
        rpc.call_async(&hold, &(grid.file("go"), 7)).unwrap()
    };
    let before = call();
    other.shutdown_background();
    let afterwards = call();

    for session in [before, afterwards] {
        let ended = own.block_on(within_limit(rpc.wait(&session)));
        assert!(matches!(ended, Err(RpcError::SessionFailed { .. })), "{ended:?}");
    }
}
