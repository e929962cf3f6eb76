//! The virtual-time driver: costs, ends, and agreement with the embedded driver.

use gridspan_balance::Rotate;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Layout, Op, Reply, SiteId, To};
use gridspan_sim::{Ending, FaultPlan, SessionFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Link, Time};
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Cell {
    value: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Add(u64),
    Sum,
    Compute(Duration),
    ComputeTwice(Duration),
    Panic,
    Get { reply: Reply<u64> },
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(value: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { value }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Add(n) => {
                self.value += n;
                if n > 1 {
                    let next = Ix1((cx.index().0 + 1) % 100);
                    cx.send(&cx.collection().at(next), Msg::Add(n - 1));
                }
            }
            Msg::Sum => cx.contribute(Op::Sum, self.value, To::main()),
            Msg::Compute(time) => cx.charge(time),
            Msg::ComputeTwice(time) => (0..2).for_each(|_| cx.charge(time)),
            Msg::Panic => panic!("on purpose"),
            Msg::Get { reply } => cx.reply(reply, self.value),
        }
    }
}

/// Passes additions along a ring; sends the total to `out`.
fn ring(out: mpsc::Sender<u64>) -> Job {
    Job::new("ring").actor::<Cell>().main(async move |grid| {
        let cells = grid.create::<Cell>(Ix1::range(100), |ix| ix.0 as u64).await?;
        cells.broadcast(Msg::Add(1));
        cells.member(Ix1(7)).send(Msg::Add(1000));
        grid.quiescence().await?;
        cells.broadcast(Msg::Sum);
        out.send(cells.reduction(Op::Sum).await?).map_err(|_| "the test has ended")?;
        Ok(())
    })
}

fn two_sites() -> GridSpec {
    let layout = Layout::new(vec![("a".into(), vec![2, 2]), ("b".into(), vec![3])]);
    GridSpec::from_layout(&layout).expect("a valid layout")
}

fn simulate(job: Job, spec: GridSpec) -> SimReport {
    Simulation::new(job, spec, SimOptions::default()).expect("a valid job").run()
}

#[test]
fn an_observer_gets_time_and_events_and_does_not_change_the_run() {
    let (out, _results) = mpsc::channel();
    let unobserved = simulate(ring(out.clone()), two_sites());
    let (send, observations) = mpsc::channel();
    let simulation = Simulation::new(ring(out), two_sites(), SimOptions::default());

    let observed = simulation
        .expect("a valid job")
        .observed_by(move |now, events| send.send((now, events)).expect("the test goes on"))
        .run();

    assert_eq!(observed.log_hash, unobserved.log_hash);
    assert_eq!(observed.events, unobserved.events);
    let observations: Vec<(Time, u64)> = observations.iter().collect();
    let events: Vec<u64> = observations.iter().map(|(_, events)| *events).collect();
    assert_eq!(events, (1..=observed.events / 64).map(|it| it * 64).collect::<Vec<_>>());
    assert!(observations.is_sorted() && observations.len() > 10, "{observations:?}");
    assert!(observations.iter().all(|(now, _)| *now <= observed.virtual_time));
}

#[test]
fn a_job_gives_the_same_result_on_threads_and_in_virtual_time() {
    let (out, results) = mpsc::channel();
    let lossy = two_sites().with_wan(Link::wan().with_loss(0.2));

    assert_eq!(embedded::run(ring(out.clone()), 3), Ok(()));
    let near = simulate(ring(out.clone()), GridSpec::single(5));
    let far = simulate(ring(out), lossy);

    assert_eq!((near.outcome, far.outcome), (Ok(()), Ok(())));
    let results: Vec<u64> = results.iter().collect();
    assert_eq!(results, [4950 + 100 + 500_500; 3]);
}

/// Runs a [`ring`] in sessions. The link is cut at 50 ms, while frames are on their way.
fn cut_ring(end: &str) -> (SimReport, Option<u64>) {
    let (out, results) = mpsc::channel();
    let spec = format!("2x2,wan=8ms; at 50ms link a-b loss=100%{end}");
    let faults = FaultPlan::default().with_sessions(SessionFaults::default());
    let options = SimOptions::with_seed(3).with_faults(faults);
    let spec = GridSpec::from_emulate(&spec).unwrap();
    let report = Simulation::new(ring(out), spec, options).unwrap().run();
    (report, results.try_iter().next())
}

#[test]
fn frames_of_sessions_arrive_after_a_cut_of_their_link() {
    let (report, total) = cut_ring("; at 60ms link a-b latency=9ms; at 3s link a-b loss=0%");

    assert_eq!((report.outcome, total), (Ok(()), Some(4950 + 100 + 500_500)));
    assert!(report.virtual_time > Time(3_000_000_000), "{}", report.virtual_time);
}

#[test]
fn a_job_in_sessions_stalls_if_a_cut_does_not_end() {
    let (report, total) = cut_ring("");

    assert_eq!((report.ending, total), (Ending::Stalled, None), "{:?}", report.outcome);
}

/// Makes a member compute and then answer. Fails with the answer, and the time until then in
/// microseconds.
fn question(member: i32, compute: Duration) -> Job {
    Job::new("question").actor::<Cell>().main(async move |grid| {
        let cells = grid.create::<Cell>(Ix1::range(7), |ix| ix.0 as u64).await?;
        let begin = grid.now().await?;
        cells.member(Ix1(member)).send(Msg::Compute(compute));
        let get = |reply| Msg::Get { reply };
        let answer: u64 = cells.member(Ix1(member)).ask(Duration::from_secs(60), get).await?;
        let took = grid.now().await?.since(begin);
        Err(JobError::Failed(format!("{answer} {}", took.as_micros())))
    })
}

/// Time of a [`question`] in microseconds, over a wide area with a round trip of 20 ms.
fn question_us(member: i32, compute: Duration, options: SimOptions) -> u64 {
    let link = Link::new(Latency::from_millis(10), Bandwidth::UNLIMITED);
    let (job, spec) = (question(member, compute), two_sites().with_wan(link));
    let report = Simulation::new(job, spec, options).expect("a valid job").run();
    let text = report.outcome.unwrap_err().to_string();
    text.split_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn links_and_charges_of_handlers_take_virtual_time() {
    let ask = |member, compute| question_us(member, compute, SimOptions::default());

    let (near, far) = (ask(0, Duration::ZERO), ask(6, Duration::ZERO));
    let busy = ask(6, Duration::from_millis(500));

    assert!(near < 20, "{near} us on PE 0 itself");
    assert!((20_000..20_100).contains(&far), "{far} us for a round trip of 20 ms");
    assert!((520_000..520_100).contains(&busy), "{busy} us with 500 ms of work");
}

#[test]
fn packets_take_time_of_the_pes_that_send_and_accept_them() {
    const MS: Duration = Duration::from_millis(1);
    // Member 1 is on the other PE of main's node, and member 6 at the other site.
    for (member, options) in [
        (1, SimOptions::default().with_packet_cost(MS)),
        (6, SimOptions::default().with_packet_cost(MS)),
        (1, SimOptions::default().with_local_send_cost(MS)),
        (6, SimOptions::default().with_remote_send_cost(MS)),
    ] {
        let cheap = question_us(member, Duration::ZERO, SimOptions::default());
        let dear = question_us(member, Duration::ZERO, options.clone());
        // The question and its answer are at least one packet each, and each replaces a default
        // cost of at most 0.5 us.
        assert!(
            dear >= cheap + 1_995,
            "member {member}: {dear} us instead of {cheap}, {options:?}"
        );
    }
}

#[test]
fn a_stalled_job_ends_with_the_reason() {
    let job = Job::new("stall").actor::<Cell>().main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
        cells.member(Ix1(1)).send(Msg::Sum);
        let _: u64 = cells.reduction(Op::Sum).await?;
        Ok(())
    });

    let report = simulate(job, two_sites());

    assert_eq!(report.ending, Ending::Stalled);
    let reason = report.outcome.unwrap_err().to_string();
    assert!(reason.contains("every PE is idle"), "{reason}");
    assert!(reason.contains("reduction 0 over collection 0, to which 1 of 10"), "{reason}");
}

#[test]
fn the_report_at_the_time_limit_names_a_member_that_has_not_contributed() {
    let job = Job::new("late").actor::<Cell>().main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
        (1..10).for_each(|index| cells.member(Ix1(index)).send(Msg::Sum));
        grid.sleep(Duration::from_secs(1000)).await?;
        Ok(())
    });
    let options = SimOptions::default().with_time_limit(Duration::from_secs(100));

    let report = Simulation::new(job, two_sites(), options).unwrap().run();

    assert_eq!(report.ending, Ending::TimeLimit);
    let reason = report.outcome.unwrap_err().to_string();
    let cause = "100s: reduction 0 over collection 0, to which 9 of 10 have contributed, waits for";
    assert!(reason.contains(cause), "{reason}");
    assert!(reason.contains("Cell 0x0 of collection 0; main sleeps for another "), "{reason}");
}

#[test]
fn an_endless_job_ends_at_the_time_limit() {
    let job = Job::new("endless").main(async |grid| {
        loop {
            grid.sleep(Duration::from_secs(1)).await?;
        }
    });
    let options = SimOptions::default().with_time_limit(Duration::from_secs(100));

    let report = Simulation::new(job, GridSpec::single(2), options).unwrap().run();

    assert_eq!(report.ending, Ending::TimeLimit);
    assert!(report.outcome.unwrap_err().to_string().contains("time limit"));
}

#[test]
fn charges_beyond_the_range_of_virtual_time_end_a_job_at_its_time_limit() {
    for spec in ["1x1x2", "1x1x2; at 0s node a1 load=1"] {
        // Time stands still at the end of the range, which is the longest limit.
        let hour = Duration::from_secs(3600);
        for (time, limit) in
            [(Duration::MAX, hour), (Duration::from_nanos(u64::MAX), Duration::MAX)]
        {
            let job = Job::new("long").actor::<Cell>().main(async move |grid| {
                let cells = grid.create::<Cell>(Ix1::range(10), |_| 0).await?;
                cells.broadcast(Msg::ComputeTwice(time));
                cells.broadcast(Msg::Sum);
                let _: u64 = cells.reduction(Op::Sum).await?;
                Ok(())
            });

            let options = SimOptions::default().with_time_limit(limit);
            let grid = GridSpec::from_emulate(spec).unwrap();
            let report = Simulation::new(job, grid, options).unwrap().run();

            assert_eq!(report.ending, Ending::TimeLimit, "{spec}, {time:?}: {:?}", report.outcome);
        }
    }
}

#[test]
fn a_panic_in_a_handler_ends_the_job_and_names_the_place() {
    let job = Job::new("panic").actor::<Cell>().main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(7), |_| 0).await?;
        // The PE fails at the first message and does not handle the second.
        cells.member(Ix1(6)).send(Msg::Panic);
        cells.member(Ix1(6)).send(Msg::Add(1));
        grid.quiescence().await?;
        grid.sleep(Duration::from_secs(1)).await?;
        Ok(())
    });

    let outcome = simulate(job, two_sites()).outcome;

    let reason = outcome.unwrap_err().to_string();
    assert!(reason.contains("site b") && reason.contains("on purpose"), "{reason}");
}

#[test]
fn a_rebalance_is_over_when_all_moved_actors_have_arrived() {
    // The latency from b to c is so large that an actor that moves there arrives long after b has
    // released it.
    let sites = ["a", "b", "c"].map(|name| (name.to_owned(), vec![1]));
    let link = |latency| Link::new(Latency::from_millis(latency), Bandwidth::UNLIMITED);
    let spec = GridSpec::from_layout(&Layout::new(sites.to_vec()))
        .expect("a valid layout")
        .with_wan(link(1))
        .with_link(SiteId(1), SiteId(2), link(200));
    let job = Job::new("rotation").actor::<Cell>().strategy(Rotate).main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(100), |ix| ix.0 as u64).await?;
        for _ in 0..4 {
            assert_eq!(grid.rebalance().await?, 100);
        }
        cells.broadcast(Msg::Sum);
        let total: u64 = cells.reduction(Op::Sum).await?;
        assert_eq!(total, 4950);
        Ok(())
    });
    let report = simulate(job, spec);
    assert_eq!(report.outcome, Ok(()));
}

#[test]
fn a_main_that_looks_at_the_clock_until_it_is_late_ends() {
    for spec in ["1x1x2", "1x1x2; at 0s node a1 load=1"] {
        let job = Job::new("clock").main(async |grid| {
            let begin = grid.now().await?;
            while grid.now().await?.since(begin) < Duration::from_millis(1) {}
            Ok(())
        });

        let report = simulate(job, GridSpec::from_emulate(spec).unwrap());

        assert_eq!(report.outcome, Ok(()), "{spec}");
    }
}

#[test]
fn a_main_that_wakes_itself_is_polled_again() {
    let job = Job::new("self").main(async move |_grid| {
        let mut rest = 3;
        std::future::poll_fn(|cx| {
            rest -= 1;
            cx.waker().wake_by_ref();
            if rest == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        Ok(())
    });

    let report = simulate(job, GridSpec::single(1));

    assert_eq!(report.outcome, Ok(()));
}
