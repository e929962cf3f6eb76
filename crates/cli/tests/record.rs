//! Recordings of jobs: of processes, of threads and in virtual time.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{LIMIT, Output, Running, finish, gridctl, run, until};
use gridspan_record::{DriverKind, PeRecord, Recording, What};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;

/// A small run of molecular dynamics.
const JOB: [&str; 5] = ["leanmd", "--atoms", "4000", "--steps", "6"];

fn arguments<'a>(place: &[&'a str], folder: &'a Path) -> Vec<&'a str> {
    let record = ["--record", folder.to_str().unwrap()];
    place.iter().copied().chain(record).chain(JOB).collect()
}

fn recorded(place: &[&str], folder: &Path) -> (Output, Recording) {
    let output = run(&arguments(place, folder));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("recorded in "), "{output:?}");
    (output, Recording::read(folder).unwrap())
}

/// Number of spans with a cause on another PE. Asserts that each cause is recorded and precedes its
/// span.
fn crossings(recording: &Recording) -> usize {
    let caused = |record: &PeRecord| {
        let causes = record.spans.iter().filter_map(|span| Some((span, span.cause.as_ref()?)));
        let crossing = causes.filter(|(_, cause)| cause.pe != record.pe && cause.span.is_some());
        let crossing = crossing.inspect(|(span, cause)| {
            assert!(cause.sent_ns <= cause.received_ns, "{span:?}");
            assert!(cause.received_ns <= span.begin_ns, "{span:?}");
            let sender = recording.pes.iter().find(|record| record.pe == cause.pe).unwrap();
            let number = cause.span.unwrap();
            assert!(sender.spans.iter().any(|sender| sender.number == number), "{span:?}");
        });
        crossing.count()
    };
    recording.pes.iter().map(caused).sum()
}

/// Number of runs of the handlers of types whose name ends with `name`.
fn handled(recording: &Recording, name: &str) -> u64 {
    let of_type = |record: &PeRecord| {
        let number = record.types.iter().position(|known| known.ends_with(name))?;
        let total = record.totals.iter().find(|total| usize::from(total.number) == number)?;
        Some(total.count)
    };
    recording.pes.iter().filter_map(of_type).sum()
}

#[test]
fn two_processes_record_what_each_did_and_which_message_caused_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");

    let (_, recording) = recorded(&["run", "-n", "2"], &folder);

    let header = &recording.header;
    assert_eq!((&*header.job, header.driver), ("leanmd", DriverKind::Processes));
    assert_eq!(&header.command[..3], ["run", "-n", "2"]);
    assert_eq!((header.nodes.len(), header.pes.len()), (2, 2));
    assert_eq!(header.nodes[0].host, header.nodes[1].host, "one machine has one clock");
    assert!(header.started_unix_ms.is_some());
    let [host] = &header.hosts[..] else { panic!("{:?}", header.hosts) };
    assert_eq!(host.name, header.nodes[0].host);
    // The nodes may use the same processors as this process; a CPU quota may allow fewer at once.
    let allowed = rustix::thread::sched_getaffinity(None).unwrap().count();
    let at_once = std::thread::available_parallelism().unwrap().get() as u32;
    assert_eq!(host.hardware_threads, allowed.min(at_once));
    assert!(host.cores >= 1 && host.cores <= host.hardware_threads);
    let ending = recording.ending.as_ref().unwrap();
    assert_eq!((ending.exit_code, &ending.failure), (0, &None));
    assert!(ending.is_verified(), "{ending:?}");
    assert_eq!(header.gridctl.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(header.build.as_ref().map(String::len), Some(16), "{:?}", header.build);
    assert!(recording.missing.is_empty());
    assert_eq!(recording.pes.iter().map(|record| record.pe).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(recording.dropped_share(), 0.0);
    assert!(handled(&recording, "::Cell") > 0 && handled(&recording, "::Pair") > 0);
    assert!(crossings(&recording) > 100, "{}", crossings(&recording));
    for record in &recording.pes {
        assert!(record.spans.iter().any(|span| span.step.is_some()));
        assert!(record.spans.iter().all(|span| span.end_ns() <= recording.end_ns()));
        assert!(record.bins.iter().any(|bin| bin.idle_ns > 0));
        let sent = record.bins.iter().flat_map(|bin| &bin.sent);
        assert!(sent.map(|sent| sent.bytes).sum::<u64>() > 10_000);
    }
}

#[test]
fn threads_record_like_processes() {
    let parent = tempfile::tempdir().unwrap();
    let place = ["run", "--emulate", "2x1,wan=3ms"];
    let (_, recording) = recorded(&place, &parent.path().join("emulated"));
    assert_eq!(recording.header.driver, DriverKind::Threads);
    assert_eq!(recording.header.hosts.len(), 1);
    let build = recording.header.build.clone();
    assert!(build.is_some());
    assert_eq!(recording.header.sites.len(), 2);
    let wan = recording.header.links.iter().find(|link| link.from != link.to).unwrap();
    assert_eq!(wan.latency_us, 3000.0);
    assert!(crossings(&recording) > 100);
    let spans = recording.pes.iter().flat_map(|record| &record.spans);
    let causes = spans.filter_map(|span| span.cause.as_ref().filter(|cause| cause.bytes > 0));
    let fastest = causes.map(|cause| cause.received_ns - cause.sent_ns).min().unwrap();
    assert!(fastest >= 3_000_000, "a message over the link took {fastest} ns");

    let (_, recording) = recorded(&["run"], &parent.path().join("embedded"));
    assert_eq!(recording.header.nodes.len(), 1);
    assert_eq!(recording.header.build, build, "both are gridctl");
    assert_eq!(recording.pes.len(), recording.header.pes.len());
    assert!(handled(&recording, "::Cell") > 0);
}

#[test]
fn the_recording_of_a_simulation_is_the_same_for_the_same_seed() {
    let parent = tempfile::tempdir().unwrap();
    let simulate = |name: &str| {
        let place = ["sim", "--emulate", "2x2,wan=5ms", "--seed", "4", "--balance", "refine"];
        let mut command = gridctl(&arguments(&place, Path::new("rec")));
        let home = parent.path().join(name);
        fs::create_dir(&home).unwrap();
        command.current_dir(&home);
        let output = finish(command);
        assert_eq!(output.code, Some(0), "{output:?}");
        let folder = home.join("rec");
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap()))
            .collect();
        files.sort();
        (files, Recording::read(&folder).unwrap())
    };

    let (files, recording) = simulate("one");
    let (again, _) = simulate("other");

    assert!(files == again, "the files differ");
    assert_eq!((recording.header.driver, recording.header.seed), (DriverKind::Simulated, 4));
    assert_eq!(recording.header.started_unix_ms, None);
    assert_eq!(recording.header.build.as_ref().map(String::len), Some(16));
    assert!(recording.ending.as_ref().unwrap().is_verified(), "{:?}", recording.ending);
    assert_eq!(recording.header.hosts, [], "those of this machine mean nothing in virtual time");
    assert_eq!(recording.pes.len(), 4);
    assert!(crossings(&recording) > 100);
    assert!(recording.end_ns() > 0);
}

#[test]
fn large_broadcasts_are_recorded_and_reported_with_their_trees() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    let record = ["--record", folder.to_str().unwrap()];
    let place = ["sim", "--emulate", "2x2,wan=10ms,rate=100mbit"];
    let job = ["bcast", "--bytes", "100kB", "--rounds", "2"];
    let output = run(&[&place[..], &record, &job].concat());
    assert_eq!(output.code, Some(0), "{output:?}");

    let recording = Recording::read(&folder).unwrap();

    let large = recording.events.iter().filter_map(|event| match &event.what {
        What::Broadcast { root: 0, bytes, hops, .. } if *bytes > 100_000 => Some(hops),
        _ => None,
    });
    let large: Vec<_> = large.collect();
    assert!(large.len() >= 2, "{:?}", recording.events);
    assert!(large.iter().all(|hops| hops.len() >= 3), "{large:?}");
    let output = run(&["report", folder.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("<section id=\"broadcasts\">"));
    assert!(page.contains("all of it after"));
}

#[test]
fn each_process_is_recorded_with_its_exit_code() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    let record = ["--record", folder.to_str().unwrap()];
    let job = ["run", "-n", "2"].into_iter().chain(record).chain(["drill", "--abort", "1"]);

    let output = run(&job.collect::<Vec<_>>());

    assert_eq!(output.code, Some(1), "{output:?}");
    let recording = Recording::read(&folder).unwrap();
    let aborted = What::Exited { node: 1, code: None, signal: Some(6) };
    let mut whats = recording.events.iter().map(|event| &event.what);
    assert!(whats.any(|what| *what == aborted), "{:?}", recording.events);
    let ends = recording.events.iter().filter(|it| matches!(it.what, What::Exited { .. }));
    assert_eq!(ends.count(), 2, "{:?}", recording.events);
}

#[test]
fn what_cannot_be_recorded_is_refused_before_the_job_starts() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("notes.txt"), "mine").unwrap();
    for place in [&["run", "-n", "2"][..], &["sim", "--pes", "2"]] {
        let output = run(&arguments(place, parent.path()));
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("is not empty"), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    // Linux creates no folder there, for any user.
    let output = run(&arguments(&["run", "-n", "2"], Path::new("/proc/no-such-folder")));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot write /proc/no-such-folder: "), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let folder = parent.path().join("rec");
    for flag in ["--detach", "--guests=2"] {
        let output = run(&arguments(&["run", "-n", "2", flag], &folder));
        assert_eq!(output.code, Some(2), "{output:?}");
        let flag = flag.split('=').next().unwrap();
        let error = format!("a job with --record cannot have {flag}");
        assert!(output.stderr.contains(&error), "{output:?}");
        assert!(!folder.exists());
    }
}

#[test]
fn all_nodes_of_a_job_that_fails_tell_what_they_recorded() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    let record = ["--record", folder.to_str().unwrap()];
    let job = ["run", "-n", "3"].into_iter().chain(record).chain(["drill", "--panic", "1"]);

    let output = run(&job.collect::<Vec<_>>());

    assert_eq!(output.code, Some(1), "{output:?}");
    let recording = Recording::read(&folder).unwrap();
    assert!(recording.missing.is_empty(), "{:?}", recording.missing);
    assert_eq!(recording.pes.len(), 3);
    let ending = recording.ending.unwrap();
    assert_eq!(ending.exit_code, 1);
    assert!(ending.failure.unwrap().contains("told to panic"), "{output:?}");
}

#[test]
fn a_node_that_leaves_and_joins_again_is_recorded_since_then() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    // A step crosses the wide area twice, so it takes 40 ms and little processor time.
    let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=20ms", "--record"];
    let job = ["leanmd", "--atoms", "2000", "--report-every", "5", "--steps", "200"];
    let arguments = [&place[..], &[folder.to_str().unwrap()], &job].concat();
    let variables = [("XDG_RUNTIME_DIR", parent.path().to_str().unwrap())];
    let mut running = Running::start_with(&arguments, &variables);
    let ask = |arguments: &[&str]| {
        let mut command = gridctl(arguments);
        command.env("XDG_RUNTIME_DIR", parent.path());
        finish(command).code == Some(0)
    };
    running.nodes(4);
    running.await_line("      20 ");

    assert!(ask(&["drain", "b/3"]));
    // Its process may not have ended yet.
    until(|| ask(&["add", "b/3"]).then_some(()));

    running.await_line("with only a part of b/3");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
    let recording = Recording::read(&folder).unwrap();
    assert!(recording.missing.is_empty(), "{:?}", recording.missing);
    let mut events = recording.events.iter();
    let left = events.find(|it| it.what == What::Left { node: 3 }).unwrap().at_ns;
    assert!(events.any(|it| it.what == What::Joined { node: 3 }));
    let again = recording.pes.iter().filter(|it| recording.header.pes[it.pe as usize].node == 3);
    for record in again {
        assert!(record.began_ns > left && !record.spans.is_empty());
        assert!(record.spans.iter().all(|span| span.begin_ns >= record.began_ns));
    }
}

#[test]
fn a_job_that_loses_a_node_is_recorded_to_its_end() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    let place = ["run", "-n", "3", "--checkpoint-every", "10steps", "--record"];
    let job = ["leanmd", "--atoms", "4000", "--report-every", "5", "--steps", "60"];
    let record = [folder.to_str().unwrap()];
    let mut running =
        Running::start(&place.into_iter().chain(record).chain(job).collect::<Vec<_>>());
    let nodes = running.nodes(3);
    running.await_line("      20 ");
    kill_process(Pid::from_raw(nodes[2] as i32).unwrap(), Signal::KILL).unwrap();
    running.await_line("2 nodes go on");
    running.await_line("recorded in ");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));

    let recording = Recording::read(&folder).unwrap();

    assert_eq!(recording.missing.len(), 1);
    let lost = recording.missing[0];
    let whats: Vec<&What> = recording.events.iter().map(|it| &it.what).collect();
    assert!(whats.contains(&&What::Lost { nodes: vec![lost] }), "{whats:?}");
    assert!(whats.iter().any(|what| matches!(what, What::Recovered { .. })), "{whats:?}");
    assert!(whats.iter().any(|what| matches!(what, What::Checkpoint { .. })), "{whats:?}");
    assert_eq!(recording.pes.len(), 2);
    // Both runs of the job are on one time line.
    for record in &recording.pes {
        let loss = recording.events.iter().find(|it| matches!(it.what, What::Lost { .. }));
        let loss = loss.unwrap().at_ns;
        assert!(record.spans.iter().any(|span| span.end_ns() < loss));
        assert!(record.spans.iter().any(|span| span.begin_ns > loss));
    }
}
