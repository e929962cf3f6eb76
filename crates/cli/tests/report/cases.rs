//! The planted runs, and what their reports must say.
//!
//! Shares follow from the plans. For example, where `n - 1` PEs wait for one that takes `f` times
//! as long, they are idle for `1 - 1/f` of the time. The bounds leave room for the start and the
//! end of a run, in which other rules hold.

/// The kind of a run without a limit.
pub const HEALTHY: &str = "healthy";

/// A planted run.
pub struct Case {
    pub name: &'static str,
    /// Flags of `gridctl sim`.
    pub flags: &'static [&'static str],
    /// Arguments of the planted job.
    pub job: &'static [&'static str],
    /// Kind of the first limit.
    pub kind: &'static str,
    /// Text in the first sentence.
    pub says: &'static str,
    /// Bounds of the share of the time that this limit takes.
    pub share: [f64; 2],
}

const fn case(
    name: &'static str,
    [flags, job]: [&'static [&'static str]; 2],
    kind: &'static str,
    says: &'static str,
    share: [f64; 2],
) -> Case {
    Case { name, flags, job, kind, says, share }
}

pub const CASES: &[Case] = &[
    // The slow PE takes four times as long: 7 of 8 PEs wait for 3/4 of the time, 0.66 in all.
    case(
        "slow_pe",
        [&["-e", "1x8,speed=1:1:1:0.25:1:1:1:1"], &["ring", "actors=16", "steps=20", "work=1000"]],
        "slow_pe",
        "PE 3 (",
        [0.48, 0.7],
    ),
    case(
        "slow_pe_of_five",
        [&["-e", "1x5,speed=1:0.5:1:1:1"], &["ring", "actors=5", "steps=24", "work=3000"]],
        "slow_pe",
        "PE 1 (",
        [0.28, 0.44],
    ),
    // Half of the PEs wait for half of the time.
    case(
        "slow_site",
        [
            &["-e", "2x4,wan=100us,speed=1:1:1:1:0.5:0.5:0.5:0.5"],
            &["ring", "actors=16", "steps=20", "work=1000"],
        ],
        "slow_site",
        "site b",
        [0.13, 0.32],
    ),
    case(
        "slow_site_of_three",
        [
            &["-e", "3x2,wan=100us,speed=1:1:0.25:0.25:1:1"],
            &["ring", "actors=12", "steps=24", "work=1000"],
        ],
        "slow_site",
        "site b",
        [0.35, 0.55],
    ),
    // 1 ms of work, 20 ms of latency.
    case(
        "slow_link",
        [&["-e", "2x2,wan=20ms"], &["ring", "actors=4", "steps=15", "work=1000"]],
        "slow_link",
        "the link between a and b",
        [0.75, 0.97],
    ),
    case(
        "slow_links_of_three_sites",
        [&["-e", "3x2,wan=8ms"], &["ring", "actors=12", "steps=20", "work=1000"]],
        "slow_link",
        "the link between ",
        [0.5, 0.9],
    ),
    // Waits are longer than the time windows whose spans the recording keeps.
    case(
        "slow_link_of_a_sampled_recording",
        [
            &["-e", "2x2,wan=32ms", "--record-bytes", "64kB"],
            &["ring", "actors=4", "steps=400", "work=1000"],
        ],
        "slow_link",
        "the link between a and b",
        [0.4, 1.0],
    ),
    case(
        "slower_link_of_a_sampled_recording",
        [
            &["-e", "2x2,wan=90ms", "--record-bytes", "64kB"],
            &["ring", "actors=8", "steps=300", "work=1000"],
        ],
        "slow_link",
        "the link between a and b",
        [0.4, 1.0],
    ),
    // Two messages of 20 kB in each direction take 32 ms at 10 Mbit/s.
    case(
        "narrow_link",
        [
            &["-e", "2x2,wan=1ms,rate=10mbit"],
            &["ring", "actors=4", "steps=10", "work=1000", "bytes=20000"],
        ],
        "narrow_link",
        "the link b → a and a → b",
        [0.6, 0.97],
    ),
    case(
        "narrow_link_of_larger_sites",
        [
            &["-e", "2x4,wan=2ms,rate=100mbit"],
            &["ring", "actors=8", "steps=10", "work=1000", "bytes=200000"],
        ],
        "narrow_link",
        "the link b → a and a → b",
        [0.55, 0.97],
    ),
    // A message is lost once on average, and each loss takes a round trip, twice the latency.
    case(
        "lossy_link",
        [
            &["-e", "2x3,wan=2ms,loss=50%", "--seed", "2"],
            &["ring", "actors=6", "steps=40", "work=300"],
        ],
        "lossy_link",
        "the link between a and b loses packets (50.0 %)",
        [0.4, 0.8],
    ),
    case(
        "very_lossy_link",
        [
            &["-e", "2x2,wan=5ms,loss=60%", "--seed", "1"],
            &["ring", "actors=4", "steps=40", "work=500"],
        ],
        "lossy_link",
        "the link between a and b loses packets (60.0 %)",
        [0.45, 0.9],
    ),
    // PE 3 has 13 parts of work, the others 4: 7/8 of 9/13.
    case(
        "hot_actor",
        [&["-e", "1x8"], &["ring", "actors=32", "steps=12", "work=500", "heavy=13/13/10"]],
        "hot_actor",
        "one actor of type ",
        [0.42, 0.68],
    ),
    case(
        "hot_actor_of_main_s_pe",
        [&["-e", "1x4"], &["ring", "actors=12", "steps=16", "work=500", "heavy=2/2/8"]],
        "hot_actor",
        "on PE 0 (",
        [0.38, 0.6],
    ),
    // The eight actors of PE 2 have three times as much work: 7/8 of 2/3.
    case(
        "imbalance",
        [&["-e", "1x8"], &["ring", "actors=64", "steps=20", "work=200", "heavy=16/23/3"]],
        "imbalance",
        "PE 2 (",
        [0.38, 0.65],
    ),
    case(
        "imbalance_of_four",
        [&["-e", "1x4"], &["ring", "actors=24", "steps=20", "work=300", "heavy=18/23/4"]],
        "imbalance",
        "PE 3 (",
        [0.4, 0.63],
    ),
    // Half of the PEs wait for 2/3 of the time.
    case(
        "site_imbalance",
        [&["-e", "2x4,wan=100us"], &["ring", "actors=32", "steps=24", "work=300", "heavy=0/15/3"]],
        "site_imbalance",
        "site a has too much work",
        [0.18, 0.4],
    ),
    case(
        "site_imbalance_of_the_second",
        [&["-e", "2x2,wan=200us"], &["ring", "actors=16", "steps=24", "work=600", "heavy=8/15/2"]],
        "site_imbalance",
        "site b has too much work",
        [0.13, 0.3],
    ),
    // A message takes 0.1 µs of work, and 0.3 µs for sending and accepting it.
    case(
        "small_grains",
        [&["--pes", "4"], &["grains", "actors=64", "steps=20", "work=100"]],
        "small_grains",
        "handlers are too short",
        [0.4, 0.88],
    ),
    case(
        "small_grains_of_eight",
        [&["--pes", "8"], &["grains", "actors=96", "steps=15", "work=200"]],
        "small_grains",
        "handlers are too short",
        [0.3, 0.8],
    ),
    // Each PE has two actors at first; after the rebalance, some PE has more.
    case(
        "bad_plan",
        [
            &["-e", "1x4", "--balance", "random"],
            &["driven", "actors=8", "steps=50", "work=2000", "rebalance=12"],
        ],
        "bad_plan",
        "the rebalance by random at ",
        [0.15, 0.75],
    ),
    case(
        "bad_plan_of_six",
        [
            &["-e", "1x6", "--balance", "random", "--seed", "5"],
            &["driven", "actors=12", "steps=45", "work=1500", "rebalance=9"],
        ],
        "bad_plan",
        "the rebalance by random at ",
        [0.15, 0.75],
    ),
    // Two other processes leave one PE a third of its processor: it waits for 2/3 of the time, and
    // the other three PEs wait for it as long.
    case(
        "foreign_load",
        [&["-e", "1x4; at 1ms node a2 load=2"], &["ring", "actors=8", "steps=30", "work=1000"]],
        "foreign_load",
        "node a/1",
        [0.45, 0.75],
    ),
    case(
        "foreign_load_at_a_site",
        [
            &["-e", "2x2,wan=100us; at 1ms node b1 load=1"],
            &["ring", "actors=12", "steps=30", "work=1000"],
        ],
        "foreign_load",
        "node b/2 at site b",
        [0.3, 0.6],
    ),
    // Five of eight PEs have nothing to do.
    case(
        "too_few_actors",
        [&["-e", "1x8"], &["ring", "actors=3", "steps=20", "work=2000"]],
        "too_few_actors",
        "3 actors for 8 PEs",
        [0.5, 0.68],
    ),
    case(
        "too_few_actors_at_two_sites",
        [&["-e", "2x3,wan=200us"], &["ring", "actors=4", "steps=12", "work=6000"]],
        "too_few_actors",
        "4 actors for 6 PEs",
        [0.22, 0.42],
    ),
    // A step takes 1 ms of work, and then main sleeps for 4 ms.
    case(
        "main",
        [&["-e", "1x4"], &["driven", "actors=8", "steps=20", "work=500", "sleep=4000"]],
        "main",
        "actors wait for main",
        [0.55, 0.85],
    ),
    case(
        "main_of_two_sites",
        [&["-e", "2x2,wan=1ms"], &["driven", "actors=8", "steps=12", "work=1000", "sleep=10000"]],
        "main",
        "actors wait for main",
        [0.5, 0.85],
    ),
    // 5.5 ms of work on PE 5, 0.5 ms on the others: 7/8 of 5/5.5.
    case(
        "flood",
        [&["-e", "1x8"], &["flood", "actors=8", "steps=8", "work=500", "flood=1/5/100"]],
        "flood",
        "PE 5 (node a/5) has a long queue of messages from PE 1 (node a/1)",
        [0.55, 0.85],
    ),
    case(
        "flood_of_main_s_pe",
        [&["-e", "1x4"], &["flood", "actors=4", "steps=10", "work=800", "flood=3/0/160"]],
        "flood",
        "PE 0 (node a/0) has a long queue of messages from PE 3 (node a/3)",
        [0.45, 0.72],
    ),
    // Three tasks on eight PEs.
    case(
        "starved_tasks",
        [&["--pes", "8"], &["tasks", "actors=3", "work=20000"]],
        "starved_tasks",
        "tasks ran out",
        [0.45, 0.95],
    ),
    case(
        "starved_tasks_at_two_sites",
        [&["-e", "2x4,wan=1ms"], &["tasks", "actors=5", "work=40000"]],
        "starved_tasks",
        "tasks ran out",
        [0.25, 0.9],
    ),
    // One of four PEs works at a time.
    case(
        "serial_chain",
        [&["-e", "1x4"], &["chain", "actors=8", "steps=10", "work=1000"]],
        "serial_chain",
        "handlers run in a chain",
        [0.6, 0.78],
    ),
    case(
        "serial_chain_of_six",
        [&["--pes", "6"], &["chain", "actors=6", "steps=20", "work=300"]],
        "serial_chain",
        "handlers run in a chain",
        [0.7, 0.86],
    ),
    // A step takes 20 ms with the way to main and back, and a checkpoint four crossings of 5 ms.
    case(
        "checkpoints",
        [&["-e", "2x2,wan=5ms"], &["driven", "actors=4", "steps=10", "work=10000", "checkpoint=1"]],
        "checkpoints",
        "checkpoints of ",
        [0.3, 0.75],
    ),
    case(
        "checkpoints_every_second_step",
        [&["-e", "2x3,wan=8ms"], &["driven", "actors=6", "steps=14", "work=5000", "checkpoint=2"]],
        "checkpoints",
        "checkpoints of ",
        [0.25, 0.7],
    ),
    // Four actors on each PE hide the latency.
    case(
        "healthy",
        [&["-e", "1x4"], &["ring", "actors=16", "steps=20", "work=2000"]],
        HEALTHY,
        "",
        [0.0, 0.0],
    ),
    case(
        "healthy_at_two_sites",
        [&["-e", "2x2,wan=1ms"], &["ring", "actors=24", "steps=15", "work=2000"]],
        HEALTHY,
        "",
        [0.0, 0.0],
    ),
];
