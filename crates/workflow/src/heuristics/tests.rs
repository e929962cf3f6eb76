//! Properties of all heuristics, and mappings that can be derived by hand.

use super::*;
use crate::graph::GraphBuilder;
use crate::id::{Endpoint, ServerId, TaskId};
use crate::platform::{ClientSpec, ServerSpec, Site};
use crate::simulate::{Perturbations, execute, execute_calls};
use crate::stragglers::StragglerPolicy;
use crate::study::study_platforms;
use crate::wfcommons::layered;
use gridspan_topology::{Bandwidth, Latency, Link};
use proptest::prelude::*;

const MB: u64 = 1_000_000;

fn mapped(name: &str, graph: &TaskGraph, platform: &Platform) -> Mapping {
    by_name(name, 1).unwrap().map(graph, platform).unwrap()
}

fn makespan_s(graph: &TaskGraph, platform: &Platform, mapping: &Mapping) -> f64 {
    execute(graph, platform, mapping, &Perturbations::default(), StragglerPolicy::None).makespan_s
}

/// Single-core servers of these speeds in one site, with fast links.
fn site(speeds: &[f64]) -> Platform {
    let server = |speed: &f64| ServerSpec {
        name: speed.to_string(),
        site: 0,
        cores: 1,
        speed: *speed,
        is_direct: true,
    };
    let lan = Link::new(Latency::ZERO, Bandwidth::from_bits_per_second(8_000 * MB));
    let sites = vec![Site { name: "a".to_owned(), lan, uplink: lan }];
    Platform::new(
        speeds.iter().map(server).collect(),
        sites,
        ClientSpec { site: Some(0), link: lan },
    )
}

/// The graph of Topcuoglu, Hariri and Wu (2002), figure 2: ten tasks. Their times depend on the
/// processor in ways that no speeds explain, so only the times on the first processor are used.
fn published() -> TaskGraph {
    let times = [14.0, 13.0, 11.0, 13.0, 12.0, 13.0, 7.0, 5.0, 18.0, 21.0];
    let edges = [
        (1, 2, 18),
        (1, 3, 12),
        (1, 4, 9),
        (1, 5, 11),
        (1, 6, 14),
        (2, 8, 19),
        (2, 9, 16),
        (3, 7, 23),
        (4, 8, 27),
        (4, 9, 23),
        (5, 9, 13),
        (6, 8, 15),
        (7, 10, 17),
        (8, 10, 11),
        (9, 10, 13),
    ];
    let mut builder = GraphBuilder::default();
    let tasks: Vec<TaskId> = times.iter().map(|&time| builder.task("n", time)).collect();
    for (from, to, bytes) in edges {
        let data = builder.write(tasks[from - 1], format!("{from}-{to}"), bytes);
        builder.read(tasks[to - 1], data);
    }
    builder.build().unwrap()
}

#[test]
fn all_heuristics_give_all_tasks_a_server_that_can_execute_them() {
    let graph = layered(60, 3).unwrap();
    for study_platform in study_platforms() {
        for name in NAMES.iter().filter(|name| **name != "exhaustive") {
            let mapping = mapped(name, &graph, &study_platform.platform);
            assert_eq!(mapping, mapped(name, &graph, &study_platform.platform), "{name}");
            let makespan_s = makespan_s(&graph, &study_platform.platform, &mapping);
            let execution = execute(
                &graph,
                &study_platform.platform,
                &mapping,
                &Perturbations::default(),
                StragglerPolicy::None,
            );
            assert_eq!(execution.runs.len(), 60, "{name} on {}", study_platform.name);
            assert!(makespan_s.is_finite() && makespan_s > 0.0, "{name}");
        }
    }
}

#[test]
fn no_heuristic_beats_exhaustive_search() {
    let (graph, platform) = (published(), site(&[1.0, 1.3]));

    let best = mapped("exhaustive", &graph, &platform);

    for name in ["greedy", "min-min", "max-min", "sufferage", "heft", "heft-c", "random"] {
        let other = mapped(name, &graph, &platform);
        // The search does not vary the order of the tasks on a server, so the other mapping gets
        // the same order.
        let other = Mapping { places: best.places.clone(), relays: true, ..other };
        assert!(makespan_s(&graph, &platform, &other) >= best.predicted_s - 1e-9, "{name}");
    }
}

#[test]
fn exhaustive_search_refuses_large_groups() {
    let refused = Exhaustive.map(&layered(60, 1).unwrap(), &study_platforms()[0].platform);

    assert!(matches!(refused, Err(MapError::TooMany { .. })));
}

#[test]
fn collective_mapping_gives_the_larger_of_two_parallel_tasks_the_faster_server() {
    // Brady et al. (2010), section 2.1: the smaller task is called first, and individual mapping
    // gives it the faster server.
    let mut builder = GraphBuilder::default();
    let (small, large) = (builder.task("small", 10.0), builder.task("large", 20.0));
    let graph = builder.build().unwrap();
    let platform = site(&[1.0, 2.0]);

    let heft = mapped("heft", &graph, &platform);

    assert_eq!(heft.servers[large.index()], ServerId(1));
    assert_eq!(heft.servers[small.index()], ServerId(0));
    assert_eq!(makespan_s(&graph, &platform, &heft), 10.0);
    let individually = execute_calls(&graph, &platform, &Perturbations::default());
    assert_eq!(
        individually.makespan_s, 15.0,
        "5 s for the small one, then 10 s on the same server"
    );
}

#[test]
fn heft_c_does_not_overload_a_slow_link() {
    // Inputs of 100 MB at site a, tasks of 10 s, and a link of 10 MB/s to a site of the same speed:
    // each task that is sent occupies the link for 10 s, so only a few are.
    let lan = Link::new(Latency::ZERO, Bandwidth::from_bits_per_second(80_000 * MB));
    let wan = Link::new(Latency::ZERO, Bandwidth::from_bits_per_second(80 * MB));
    let server = |site: usize| ServerSpec {
        name: site.to_string(),
        site,
        cores: 4,
        speed: 1.0,
        is_direct: true,
    };
    let sites = ["a", "b"].map(|name| Site { name: name.to_owned(), lan, uplink: wan });
    let client = ClientSpec { site: Some(0), link: lan };
    let platform = Platform::new(vec![server(0), server(1)], sites.into(), client);
    let mut builder = GraphBuilder::default();
    for number in 0..24 {
        let input = builder.external(number.to_string(), 100 * MB, [Endpoint::Client]);
        let task = builder.task(number.to_string(), 10.0);
        builder.read(task, input);
    }
    let graph = builder.build().unwrap();

    let (heft, reserved) = (mapped("heft", &graph, &platform), mapped("heft-c", &graph, &platform));

    let away = |mapping: &Mapping| mapping.servers.iter().filter(|server| server.0 == 1).count();
    // 24 tasks on four cores take 60 s. Five of them can be sent and completed by 60 s, which saves
    // one round.
    assert!(away(&heft) >= 10 && (3..=6).contains(&away(&reserved)), "{}", away(&reserved));
    assert!(makespan_s(&graph, &platform, &reserved) <= 60.0 + 1e-6);
    assert!(makespan_s(&graph, &platform, &heft) >= 100.0);
}

#[test]
fn a_task_that_few_servers_can_execute_goes_to_one_of_them() {
    let mut builder = GraphBuilder::default();
    let task = builder.task("special", 1.0);
    builder.restrict(task, vec![ServerId(2)]);
    let graph = builder.build().unwrap();

    for name in NAMES {
        assert_eq!(mapped(name, &graph, &site(&[9.0, 9.0, 1.0])).servers, [ServerId(2)], "{name}");
        let refused = by_name(name, 0).unwrap().map(&graph, &site(&[9.0]));
        assert_eq!(refused, Err(MapError::NoServer { task: "special".to_owned() }), "{name}");
        assert_eq!(by_name(name, 0).unwrap().map(&graph, &site(&[])), Err(MapError::NoServers));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_execution_is_faster_than_its_longest_path_or_all_cores_allow(
        tasks in 1..80_u32,
        seed: u64,
        number in 0..4_usize,
    ) {
        let graph = layered(tasks, seed).unwrap();
        let platform = &study_platforms()[number].platform;
        let fastest = platform.servers().iter().map(|server| server.speed).fold(0.0, f64::max);
        let all: f64 = platform.servers().iter().map(|s| s.speed * f64::from(s.cores)).sum();
        let mut way_s = vec![0.0_f64; graph.tasks().len()];
        for &task in graph.order() {
            let above = graph.parents(task).map(|(parent, _)| way_s[parent.index()]);
            way_s[task.index()] = above.fold(0.0, f64::max) + graph.task(task).work_s / fastest;
        }
        let longest_s = way_s.iter().copied().fold(graph.work_s() / all, f64::max);
        for name in NAMES.iter().filter(|name| **name != "exhaustive") {
            let mapping = mapped(name, &graph, platform);
            prop_assert!(makespan_s(&graph, platform, &mapping) >= longest_s * (1.0 - 1e-9));
        }
    }
}
