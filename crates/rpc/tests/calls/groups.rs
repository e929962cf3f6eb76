//! Groups of calls in virtual time: results, transfers, windows, failures, and memory.

use futures_util::future::join;
use gridspan_rpc::calls::{
    Catalogue, Function, Functions, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, JobError, PeId, driver};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::{HeftC, MinCompletionTime, RandomMapping};
use std::cell::Cell;
use std::time::Duration;

type Vector = Vec<u8>;

/// Makes a vector of `bytes` bytes of a value, in a second of computing.
const MAKE: Function<(u64, u8), (Vector,)> = Function::new("make", |(bytes, value), work| {
    work.emulate(Duration::from_secs(1));
    Ok((vec![value; bytes as usize],))
});
/// Sums two vectors byte by byte, and finds the largest byte of the sum.
const SUM: Function<(Vector, Vector), (Vector, u8)> = Function::new("sum", sum);
const FAIL: Function<(Vector,), (Vector,)> = Function::new("fail", |_, _| Err("as asked".into()));

const BREAK: Function<(Vector,), (Vector,)> = Function::new("break", |_, _| Err("too".into()));

fn sum((one, other): (Vector, Vector), work: &mut Work) -> Result<(Vector, u8), String> {
    work.emulate(Duration::from_secs(1));
    let sum: Vector = one.iter().zip(&other).map(|(a, b)| a.wrapping_add(*b)).collect();
    let largest = sum.iter().copied().max().ok_or("nothing to sum")?;
    Ok((sum, largest))
}

struct Bytes;

impl Catalogue for Bytes {
    fn functions() -> Functions {
        let functions = Functions::new().with_parts(&MAKE).with_parts(&SUM).with_parts(&FAIL);
        functions.with_parts(&STATED).with_parts(&SPELLED).with_parts(&BREAK)
    }
}

const SIZE: u64 = 1_000_000;

fn job(
    is_direct: bool,
    main: impl AsyncFnOnce(Grid, Services<Bytes>) -> Result<(), RpcError> + Send + 'static,
) -> Job {
    with_rpc::<Bytes>(Job::new("groups")).main(async move |grid: Grid| {
        let services = Services::new(&grid).await?;
        for pe in grid.layout().pes().skip(1) {
            let plan = ServerPlan::new(pe.to_string(), pe).with_direct(is_direct);
            services.join(plan).await?;
        }
        main(grid, services).await.map_err(JobError::from)
    })
}

fn run(
    place: &str,
    is_direct: bool,
    main: impl AsyncFnOnce(Grid, Services<Bytes>) -> Result<(), RpcError> + Send + 'static,
) -> SimReport {
    let spec = GridSpec::from_emulate(place).unwrap();
    let report = Simulation::new(job(is_direct, main), spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report
}

/// Makes two vectors, and adds the second to the first three times; only the largest byte goes to
/// the client.
async fn chain(services: &Services<Bytes>) -> Result<u8, RpcError> {
    let mapper = Mapper::new(services);
    mapper
        .map(&HeftC::default(), async |group| {
            let (bytes, one, two) = (group.value(&SIZE)?, group.value(&1)?, group.value(&2)?);
            let (mut first,) = group.call(&MAKE, (&bytes, &one));
            let (second,) = group.call(&MAKE, (&bytes, &two));
            let mut largest = one;
            for _ in 0..3 {
                (first, largest) = group.call(&SUM, (first, &second));
            }
            group.get(&largest).await
        })
        .await
}

#[test]
fn a_group_gives_the_results_of_its_calls_in_sequence() {
    run("1x1x3", true, async |_, services| {
        assert_eq!(chain(&services).await?, 1 + 2 + 2 + 2);
        Ok(())
    });
}

async fn checked(_: Grid, services: Services<Bytes>) -> Result<(), RpcError> {
    assert_eq!(chain(&services).await?, 7);
    Ok(())
}

#[test]
fn groups_run_on_threads() {
    assert_eq!(driver::embedded::run(job(true, checked), 3), Ok(()));
}

#[test]
fn a_group_over_lossy_links_is_right_and_reproducible() {
    let place = "3x1,wan=20ms,jitter=5ms,loss=2%,rate=50mbit";
    let hashes = [run(place, true, checked), run(place, true, checked)].map(|run| run.log_hash);
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn data_between_calls_does_not_go_to_the_client() {
    let main = async |_, services: Services<Bytes>| {
        // The client is at one site, and the servers at the other.
        services.leave("pe1").await?;
        assert_eq!(chain(&services).await?, 7);
        Ok(())
    };
    let direct = run("2x2,wan=20ms", true, main);
    let star = run("2x2,wan=20ms", false, main);

    // Two servers make the vectors in parallel, so at least one vector of 1 MB goes to another
    // server. Through the client, it crosses the wide area twice.
    assert!(direct.wide_area_bytes < 200_000, "{}", direct.wide_area_bytes);
    assert!(star.wide_area_bytes > 2 * SIZE, "{}", star.wide_area_bytes);
}

#[test]
fn servers_that_communicate_only_with_the_client_execute_groups() {
    run("1x3", false, async |_, services| {
        // The heuristic spreads the two independent calls, so one vector has to go to another
        // server.
        let mapper = Mapper::new(&services);
        let largest = mapper.map(&MinCompletionTime, async |group| {
            let (bytes, one, two) = (group.value(&SIZE)?, group.value(&1)?, group.value(&2)?);
            let (first,) = group.call(&MAKE, (&bytes, &one));
            let (second,) = group.call(&MAKE, (&bytes, &two));
            let (_, largest) = group.call(&SUM, (first, second));
            group.get(&largest).await
        });
        assert_eq!(largest.await?, 3);
        Ok(())
    });
}

#[test]
fn the_client_keeps_no_relayed_data_that_no_handle_names() {
    run("1x3", false, async |grid, services| {
        let (mapper, most) = (Mapper::new(&services), Cell::new(0));
        let heuristic = RandomMapping::new(1);
        let group = mapper.map(&heuristic, async |group| {
            let (bytes, one) = (group.value(&SIZE)?, group.value(&1)?);
            let (mut state,) = group.call(&MAKE, (&bytes, &one));
            // About half of the calls read data of the other server.
            for _ in 0..20 {
                (state, _) = group.call(&SUM, (&state, &state));
            }
            let is_over = Cell::new(false);
            let running = async {
                let ended = group.run().await;
                is_over.set(true);
                ended
            };
            let watching = async {
                while !is_over.get() {
                    most.set(group.held_bytes().max(most.get()));
                    let _ = grid.sleep(Duration::from_millis(100)).await;
                }
            };
            join(running, watching).await.0
        });
        group.await?;
        assert!(most.get() <= 2 * SIZE, "{}", most.get());
        Ok(())
    });
}

#[test]
fn independent_tasks_run_in_parallel() {
    run("1x1x5", true, async |grid, services| {
        let begin = grid.now().await.unwrap();
        let mapper = Mapper::new(&services);
        mapper
            .map(&HeftC::default(), async |group| {
                let bytes = group.value(&10)?;
                for value in 0..4 {
                    let value = group.value(&value)?;
                    group.call(&MAKE, (&bytes, &value));
                }
                Ok(())
            })
            .await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((0.9..1.1).contains(&took_s), "{took_s}");
        Ok(())
    });
}

#[test]
fn getting_a_result_ends_the_window() {
    run("1x1x3", true, async |_, services| {
        let (mapper, heuristic) = (Mapper::new(&services), HeftC::default());
        let rounds = mapper.map(&heuristic, async |group| {
            let (bytes, one) = (group.value(&10)?, group.value(&1)?);
            let (step,) = group.call(&MAKE, (&bytes, &one));
            let mut state = step.clone();
            let mut rounds = 0;
            loop {
                let (next, largest) = group.call(&SUM, (state, &step));
                state = next;
                rounds += 1;
                if group.get(&largest).await? >= 10 {
                    return Ok(rounds);
                }
            }
        });
        assert_eq!(rounds.await?, 9, "from 1 to 10");
        Ok(())
    });
}

#[test]
fn dependents_of_a_failed_call_fail_with_its_reason_and_servers_go_on() {
    run("1x1x3", true, async |_, services| {
        let mapper = Mapper::new(&services);
        let failed = mapper
            .map(&HeftC::default(), async |group| {
                let (bytes, one) = (group.value(&10)?, group.value(&1)?);
                let (good,) = group.call(&MAKE, (&bytes, &one));
                let (bad,) = group.call(&FAIL, (&good,));
                let (_, largest) = group.call(&SUM, (&good, &bad));
                group.get(&largest).await
            })
            .await;
        let Err(RpcError::SessionFailed { reason }) = failed else { panic!("{failed:?}") };
        // The reason names the server, and the call that failed rather than the one that depended
        // on it.
        assert!(reason.starts_with("`fail` on `") && reason.ends_with("`: as asked"), "{reason}");
        assert_eq!(chain(&services).await?, 7);
        Ok(())
    });
}

#[test]
fn a_failed_call_fails_only_its_dependents() {
    run("1x1x3", true, async |_, services| {
        let mapper = Mapper::new(&services);
        let given = mapper
            .map(&HeftC::default(), async |group| {
                let (bytes, one) = (group.value(&10)?, group.value(&1)?);
                let (good,) = group.call(&MAKE, (&bytes, &one));
                let (bad,) = group.call(&FAIL, (&good,));
                let (broken,) = group.call(&BREAK, (&good,));
                let (_, spoilt) = group.call(&SUM, (&good, &bad));
                let (_, largest) = group.call(&SUM, (&good, &good));
                assert_eq!(group.get(&largest).await?, 2);
                for (data, name) in [(&bad, "fail"), (&broken, "break")] {
                    let error = group.get(data).await.unwrap_err().to_string();
                    assert!(error.contains(&format!("`{name}` on `")), "{error}");
                }
                assert_eq!(group.get(&spoilt).await.map_err(|error| error.code()), Err(10));
                group.get(&good).await
            })
            .await;
        assert_eq!(given, Ok(vec![1; 10]));
        Ok(())
    });
}

/// `sum` for a caller with another type of arguments.
const OTHER_SUM: Function<(Vec<u16>, Vec<u16>), (Vector, u8)> =
    Function::new("sum", |_, _| Err("it is not executed here".into()));

#[test]
fn a_call_with_another_signature_is_refused_and_both_signatures_are_named() {
    run("1x1x2", true, async |_, services| {
        let mapper = Mapper::new(&services);
        let refused = mapper
            .map(&MinCompletionTime, async |group| {
                let numbers = group.value(&vec![1_u16, 2])?;
                let (_, largest) = group.call(&OTHER_SUM, (&numbers, &numbers));
                group.get(&largest).await
            })
            .await;
        let error = refused.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code(), 6, "{text}");
        for part in ["`sum`", "server `pe1`", "([u8]; 2) -> ([u8], u8)", "([u16]; 2) -> ([u8], u8)"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        Ok(())
    });
}

#[test]
fn servers_drop_data_that_no_handle_names() {
    run("2x2,wan=20ms", true, async |_, services| {
        chain(&services).await?;
        assert_eq!(services.kept_bytes().await?, 0);
        Ok(())
    });
}

#[test]
fn an_argument_of_another_group_is_refused() {
    run("1x1x2", true, async |_, services| {
        let mapper = Mapper::new(&services);
        let foreign =
            mapper.map(&MinCompletionTime, async |group| group.value(&vec![1_u8])).await?;
        let refused = mapper
            .map(&MinCompletionTime, async |group| {
                group.call(&FAIL, (&foreign,));
                Ok(())
            })
            .await;
        assert_eq!(refused.map_err(|error| error.code()), Err(13));
        // The first data of both groups has the same number.
        let refused = mapper
            .map(&MinCompletionTime, async |group| {
                group.value(&vec![2_u8])?;
                group.get(&foreign).await
            })
            .await;
        assert_eq!(refused.map_err(|error| error.code()), Err(13));
        Ok(())
    });
}

/// The servers leave one after the other, and the last has no successor.
#[test]
fn data_of_a_leaving_server_goes_to_another_until_the_last_leaves() {
    run("1x1x3", true, async |_, services| {
        let (mapper, other) = (Mapper::new(&services), services.clone());
        let kept = async || other.kept_bytes().await;
        let failed = mapper
            .map(&HeftC::default(), async |group| {
                let (bytes, one) = (group.value(&10)?, group.value(&1)?);
                let (step,) = group.call(&MAKE, (&bytes, &one));
                group.run().await?;
                let before = kept().await?;
                other.leave("pe1").await?;
                let (state, _) = group.call(&SUM, (&step, &step));
                assert_eq!(group.get(&state).await?, [2; 10]);
                assert!(before > 0 && kept().await? > before);
                other.leave("pe2").await?;
                assert_eq!(kept().await?, 0);
                let (next, _) = group.call(&SUM, (&step, &step));
                group.get(&next).await
            })
            .await;
        assert!(failed.is_err());
        services.join(ServerPlan::new("new", PeId(1))).await?;
        assert_eq!(chain(&services).await?, 7);
        Ok(())
    });
}

#[test]
fn servers_keep_no_data_of_a_dropped_group() {
    run("2x2,wan=20ms", true, async |grid, services| {
        for pause in [0, 30, 500, 1500, 2500] {
            let mut going = std::pin::pin!(chain(&services));
            let mut over = std::pin::pin!(grid.sleep(Duration::from_millis(pause)));
            std::future::poll_fn(|cx| {
                assert!(going.as_mut().poll(cx).is_pending());
                over.as_mut().poll(cx).map(|_| ())
            })
            .await;
            going.set(chain(&services));
            // The call in execution ends, and its results are dropped.
            grid.sleep(Duration::from_secs(3)).await.unwrap();
            assert_eq!(services.kept_bytes().await?, 0, "after {pause} ms");
        }
        Ok(())
    });
}

#[test]
fn results_can_be_awaited_concurrently() {
    run("1x1x3", true, async |_, services| {
        let mapper = Mapper::new(&services);
        mapper
            .map(&HeftC::default(), async |group| {
                let (bytes, one) = (group.value(&10)?, group.value(&1)?);
                let (state,) = group.call(&MAKE, (&bytes, &one));
                let (sum, largest) = group.call(&SUM, (&state, &state));
                let twice = async || (group.get(&sum).await, group.get(&largest).await);
                let [mut first, mut second] = [(); 2].map(|()| Box::pin(twice()));
                let mut got = Vec::new();
                std::future::poll_fn(|cx| {
                    for one in [&mut first, &mut second].into_iter().skip(got.len()) {
                        match one.as_mut().poll(cx) {
                            std::task::Poll::Ready(outcome) => got.push(outcome),
                            std::task::Poll::Pending => return std::task::Poll::Pending,
                        }
                    }
                    std::task::Poll::Ready(())
                })
                .await;
                assert_eq!(got, [(Ok(vec![2; 10]), Ok(2)), (Ok(vec![2; 10]), Ok(2))]);
                Ok(())
            })
            .await
    });
}

/// Makes a vector in a millisecond for each byte; a formula gives the time.
const STATED: Function<(u64, u8), (Vector,)> =
    Function::new("stated", |(bytes, value), work: &mut Work| {
        work.emulate(Duration::from_millis(bytes));
        Ok((vec![value; bytes as usize],))
    })
    .costs("ms / 1000", &["ms"], |(bytes, _)| vec![*bytes as f64]);
/// Returns its argument after a millisecond for each byte; formulas give the time and the size.
const SPELLED: Function<(Vector,), (Vector,)> =
    Function::new("spelled", |(vector,): (Vector,), work: &mut Work| {
        work.emulate(Duration::from_millis(vector.len() as u64));
        Ok((vector,))
    })
    .computes("in0 / 1000")
    .gives(&["in0"]);

#[test]
fn formulas_decide_where_the_first_calls_go() {
    run("1x1x3", true, async |grid, services| {
        // A long call and two short ones: the short ones go together to the server that does not
        // have the long one.
        let mapper = Mapper::new(&services);
        let times = async |by_value: bool| {
            let begin = grid.now().await.unwrap();
            mapper
                .map(&HeftC::default(), async |group| {
                    for length in [300, 300, 600_u64] {
                        let (bytes, one) = (group.value(&length)?, group.value(&1)?);
                        if by_value {
                            group.call(&STATED, (&bytes, &one));
                        } else {
                            let vector = group.value(&vec![1_u8; length as usize])?;
                            group.call(&SPELLED, (&vector,));
                        }
                    }
                    Ok(())
                })
                .await?;
            Ok::<_, RpcError>(grid.now().await.unwrap().since(begin).as_secs_f64())
        };
        for by_value in [true, false] {
            let took_s = times(by_value).await?;
            assert!((0.6..0.65).contains(&took_s), "{by_value}: {took_s}");
        }
        Ok(())
    });
}
