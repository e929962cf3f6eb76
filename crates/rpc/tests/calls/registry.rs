//! A registry that restarts while a server is in a long call and handles no messages.

use futures_util::future::join;
use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, JobError};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::MinCompletionTime;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Takes a second of computing.
const STEP: Function<(u64,), (u64,)> = Function::new("step", |(value,), work: &mut Work| {
    work.emulate(Duration::from_secs(1));
    Ok((value + 1,))
});
const ADD: Function<(u64, u64), (u64,)> = Function::new("add", |(one, other), _: &mut Work| {
    let sum = u64::checked_add(one, other);
    Ok((sum.ok_or("too large")?,))
});
/// Keeps a server busy for a number of seconds.
const BUSY: Function<u64, ()> = Function::new("busy", |seconds, work: &mut Work| {
    work.emulate(Duration::from_secs(seconds));
    Ok(())
});

struct Steps;

impl Catalogue for Steps {
    fn functions() -> Functions {
        Functions::new().with_parts(&STEP).with_parts(&ADD).with(&BUSY)
    }
}

fn run(main: impl AsyncFnOnce(Grid, Services<Steps>) -> Result<(), RpcError> + Send + 'static) {
    let job = with_rpc::<Steps>(Job::new("registry")).main(async move |grid: Grid| {
        let services = Services::on_all_pes(&grid).await?;
        main(grid, services).await.map_err(JobError::from)
    });
    let spec = GridSpec::from_emulate("2x2,wan=20ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
}

fn client(services: &Services<Steps>) -> Result<GridRpc<Steps>, RpcError> {
    let mut rpc = GridRpc::new(services);
    rpc.initialize(&Config::default())?;
    Ok(rpc)
}

/// Runs `meanwhile` while a server is in a call of `seconds` seconds; returns the time that
/// `meanwhile` takes, in seconds.
async fn while_stuck(
    (grid, services): (&Grid, &Services<Steps>),
    (name, seconds): (&str, u64),
    meanwhile: impl AsyncFnOnce() -> Result<(), RpcError>,
) -> Result<f64, RpcError> {
    let mut rpc = client(services)?;
    let busy = rpc.handle_on(&BUSY, name).await?;
    let stuck = rpc.call_async(&busy, &seconds).await?;
    pause(grid, 0.1).await;
    let begin_s = now_s(grid).await;
    meanwhile().await?;
    let took_s = now_s(grid).await - begin_s;
    rpc.wait(&stuck).await?;
    rpc.finalize().await?;
    Ok(took_s)
}

async fn now_s(grid: &Grid) -> f64 {
    grid.now().await.unwrap().since(Default::default()).as_secs_f64()
}

async fn pause(grid: &Grid, seconds: f64) {
    grid.sleep(Duration::from_secs_f64(seconds)).await.unwrap();
}

fn says<T: std::fmt::Debug>(outcome: Result<T, RpcError>, what: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains(what), "{error}");
}

#[test]
fn a_server_that_registers_late_delays_no_other_call_and_is_listed_then() {
    run(async |grid, services| {
        let before = services.list().await?;
        let stuck = before[0].name.as_str();
        let mut rpc = client(&services)?;
        let bound = rpc.handle_on(&STEP, stuck).await?;

        let took_s = while_stuck((&grid, &services), (stuck, 100), async || {
            services.restart_registry().await?;
            assert_eq!(services.list().await?, before[1..]);
            let any = rpc.handle(&STEP).await?;
            assert_eq!(rpc.call(&any, &(7,)).await?.0, 8);
            let why = format!("`{stuck}` has not registered again");
            says(rpc.call(&bound, &(7,)).await, &why);
            says(services.leave(stuck).await, &why);
            says(services.leave(stuck).await, "lose it with `Services::lose`");
            Ok(())
        });

        let took_s = took_s.await?;
        assert!((10.0..12.0).contains(&took_s), "{took_s} s");
        pause(&grid, 1.0).await;
        assert_eq!(services.list().await?, before);
        assert_eq!(rpc.call(&bound, &(7,)).await?.0, 8);
        rpc.finalize().await
    });
}

#[test]
fn the_registry_waits_for_servers_and_forgets_earlier_restarts() {
    run(async |grid, services| {
        let before = services.list().await?;
        let stuck = before[0].name.as_str();

        let took_s = while_stuck((&grid, &services), (stuck, 25), async || {
            services.restart_registry().await?;
            pause(&grid, 9.0).await;
            // The deadline of the first restart does not apply to the second.
            services.restart_registry().await?;
            assert_eq!(services.list().await?.len(), before.len() - 1);
            services.restart_registry().await?;
            assert_eq!(services.list().await?, before);
            Ok(())
        });

        let took_s = took_s.await?;
        assert!((24.0..26.0).contains(&took_s), "9 s, 10 s, and the end of its call: {took_s} s");
        Ok(())
    });
}

#[test]
fn a_stuck_server_can_be_lost_whether_it_is_awaited_or_late() {
    for seconds_before in [0.0, 11.0] {
        run(async move |grid, services| {
            let before = services.list().await?;
            let stuck = before[0].name.as_str();

            let took_s = while_stuck((&grid, &services), (stuck, 100), async || {
                services.restart_registry().await?;
                pause(&grid, seconds_before).await;
                let (mut losing, mut others) = (
                    pin!(services.lose(stuck)),
                    pin!(async {
                        assert_eq!(services.list().await?, before[1..]);
                        let (mapper, heuristic) = (Mapper::new(&services), MinCompletionTime);
                        let mapped = mapper.map(&heuristic, async |group| {
                            let (two,) = group.call(&STEP, (group.value(&1)?,));
                            group.get(&two).await
                        });
                        mapped.await
                    }),
                );
                let others = std::future::poll_fn(|cx| {
                    assert!(losing.as_mut().poll(cx).is_pending(), "the server is in its call");
                    others.as_mut().poll(cx)
                });
                assert_eq!(others.await?, 2);
                assert!(now_s(&grid).await < 20.0, "no call waits");
                losing.await
            });

            assert!(took_s.await? > 99.0, "the server learns of it after its call");
            assert_eq!(services.list().await?, before[1..]);
            Ok(())
        });
    }
}

#[test]
fn a_group_waits_for_a_late_server_only_if_it_has_its_data() {
    run(async |grid, services| {
        let before = services.list().await?;
        let stuck = before[0].name.as_str();
        let (mapper, heuristic) = (Mapper::new(&services), MinCompletionTime);
        let mapped = mapper.map(&heuristic, async |group| {
            let mut made = Vec::new();
            for value in 0..before.len() as u64 {
                made.push(group.call(&STEP, (group.value(&value)?,)).0);
            }
            group.run().await?;
            let took_s = while_stuck((&grid, &services), (stuck, 100), async || {
                services.restart_registry().await?;
                let begin_s = now_s(&grid).await;
                // The first result is on the first server.
                for (value, one) in made.iter().enumerate().rev() {
                    let (next,) = group.call(&STEP, (one,));
                    assert_eq!(group.get(&next).await?, value as u64 + 2);
                    let took_s = now_s(&grid).await - begin_s;
                    assert_eq!(took_s < 20.0, value > 0, "{value} after {took_s} s");
                }
                Ok(())
            });
            took_s.await
        });
        let took_s = mapped.await?;
        assert!((99.0..110.0).contains(&took_s), "{took_s} s");
        Ok(())
    });
}

/// Polls a future up to `times` times; returns whether it is still pending then.
async fn polled_only(times: u32, something: impl Future) -> bool {
    let (mut something, mut polls) = (pin!(something), 0);
    std::future::poll_fn(|cx| {
        polls += 1;
        match something.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending if polls == times => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[test]
fn groups_wait_a_limited_time_for_a_server_whose_departure_was_given_up() {
    run(async |grid, services| {
        let before = services.list().await?;
        let [stuck, left] = [0, 1].map(|place: usize| before[place].name.as_str());
        let (mapper, heuristic) = (Mapper::new(&services), MinCompletionTime);
        let mapped = mapper.map(&heuristic, async |group| {
            let mut made = Vec::new();
            for value in 0..before.len() as u64 {
                made.push(group.call(&STEP, (group.value(&value)?,)).0);
            }
            group.run().await?;
            let took_s = while_stuck((&grid, &services), (stuck, 20), async || {
                services.restart_registry().await?;
                // The registry waits ten seconds for the stuck server before it answers.
                assert!(polled_only(1, services.leave(left)).await);
                pause(&grid, 15.0).await;
                assert_eq!(services.list().await?, before[2..]);
                says(services.leave(left).await, "lose it with `Services::lose`");
                Ok(())
            });
            took_s.await?;
            let (never,) = group.call(&ADD, (group.value(&u64::MAX)?, group.value(&1)?));
            says(group.run().await, "too large");
            let begin_s = now_s(&grid).await;
            let (next,) = group.call(&ADD, (&made[1], &never));
            says(group.get(&next).await, "too large");
            assert!(now_s(&grid).await - begin_s < 1.0, "it does not wait for the other");
            // The second result is on the second server.
            let (next,) = group.call(&STEP, (&made[1],));
            says(group.get(&next).await, "have not been listed");
            let took_s = now_s(&grid).await - begin_s;
            assert!((3600.0..7200.0).contains(&took_s), "{took_s} s");
            services.lose(left).await?;
            let (next,) = group.call(&STEP, (&made[1],));
            says(group.get(&next).await, "no server has data");
            Ok(())
        });
        mapped.await
    });
}

#[test]
fn a_server_whose_joining_was_given_up_can_leave_once_it_is_listed() {
    run(async |grid, services| {
        let plan = ServerPlan::new("new", grid.layout().pes().last().unwrap());
        // The future is dropped once the server is open and the registry has its message.
        assert!(polled_only(2, services.join(plan)).await);
        pause(&grid, 1.0).await;
        assert!(services.list().await?.iter().any(|card| card.name == "new"));

        services.leave("new").await
    });
}

#[test]
fn of_servers_that_join_at_the_same_time_under_one_name_only_the_first_is_accepted() {
    run(async |grid, services| {
        let pe = grid.layout().pes().last().unwrap();
        let plan = || ServerPlan::new("new", pe);
        let unable = plan().with_offers(["nowhere"]);
        says(services.join(unable).await, "`nowhere`, which is not in the catalogue");

        let (first, second) = join(services.join(plan()), services.join(plan())).await;

        first?;
        says(second, "there is a server `new` already");
        let cards = services.list().await?;
        assert_eq!(cards.iter().filter(|card| card.name == "new").count(), 1);
        services.leave("new").await?;
        services.join(plan()).await
    });
}
