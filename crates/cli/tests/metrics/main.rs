//! `gridctl run --metrics`: the text for Prometheus, and requests that get none.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod exposition;

use common::{LIMIT, Running, run, until};
use exposition::{Family, read};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The labels that metrics may have: each has few values.
const LABELS: [&str; 8] = ["job", "program", "site", "node", "state", "type", "from", "to"];

/// Starts a job of four processes at two sites.
fn start(folder: &Path, address: &str, job: &[&str]) -> Running {
    let place = ["run", "--emulate", "2x2,wan=2ms", "--metrics", address];
    let variables = [("XDG_RUNTIME_DIR", folder.to_str().unwrap())];
    Running::start_with(&[&place[..], job].concat(), &variables)
}

/// Sends a request. Returns the code of the answer, its head and its body.
fn ask(mut stream: impl Read + Write, request: &str) -> (u16, String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    (code, head.to_lowercase(), body.to_owned())
}

/// Scrapes a job until all four nodes report.
fn scrape(port: &str) -> BTreeMap<String, Family> {
    until(|| {
        let (code, head, body) = ask(TcpStream::connect(port).unwrap(), GET);
        if code == 503 {
            // The nodes of the job are not connected yet.
            return None;
        }
        assert_eq!(code, 200, "{body}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        let families = read(&body);
        let nodes = families["gridspan_job_nodes_reporting"].value(&[]);
        (nodes == 4.0).then_some(families)
    })
}

#[test]
fn a_scrape_describes_all_parts_of_a_job_and_its_counters_never_fall() {
    let folder = tempfile::tempdir().unwrap();
    let md = ["leanmd", "--atoms", "2000", "--steps", "100000000", "--quiet"];
    let mut job = start(folder.path(), "0", &md);
    let line = job.await_line("metrics: http://127.0.0.1:");
    let (_, place) = line.split_once("http://").unwrap();
    let port = place.strip_suffix("/metrics").unwrap();

    let is_working = |families: &BTreeMap<String, Family>| {
        let handled = families.get("gridspan_node_messages_handled_total");
        let others = ["gridspan_link_bytes_total", "gridspan_job_newest_step"];
        handled.is_some_and(|it| it.samples.values().all(|value| *value > 0.0))
            && others.iter().all(|name| families.contains_key(*name))
    };
    let before = until(|| Some(scrape(port)).filter(is_working));
    // For a second, scrapes get the same text.
    let steps =
        |families: &BTreeMap<String, Family>| families["gridspan_job_newest_step"].value(&[]);
    let handled = "gridspan_site_messages_handled_total";
    let have_all_handled = |after: &BTreeMap<String, Family>| {
        let mut sites = before[handled].samples.iter();
        sites.all(|(labels, value)| after[handled].samples[labels] > *value)
    };
    let has_gone_on =
        |after: &BTreeMap<String, Family>| steps(after) > steps(&before) && have_all_handled(after);
    let after = until(|| Some(scrape(port)).filter(has_gone_on));

    assert_eq!(
        before["gridspan_job_info"].values_of("program").into_iter().collect::<Vec<_>>(),
        ["leanmd"]
    );
    assert_eq!(before["gridspan_job_nodes"].value(&[]), 4.0);
    let nodes = &before["gridspan_node_pe_seconds_total"];
    assert_eq!(
        nodes.values_of("node").into_iter().collect::<Vec<_>>(),
        ["a/0", "a/1", "b/2", "b/3"]
    );
    assert_eq!(
        nodes.values_of("state").into_iter().collect::<Vec<_>>(),
        ["busy", "idle", "network"]
    );
    for site in ["a", "b"] {
        assert_eq!(before["gridspan_site_pes"].value(&[("site", site)]), 2.0);
        assert!(before["gridspan_site_resident_memory_bytes"].value(&[("site", site)]) > 1e6);
    }
    let actors: f64 = before["gridspan_actor_type_actors"].samples.values().sum();
    let of_sites: f64 = before["gridspan_site_actors"].samples.values().sum();
    assert!(actors == of_sites && actors > 10.0, "{actors} and {of_sites}");
    let crossed = |it: &BTreeMap<String, Family>| {
        it["gridspan_link_bytes_total"].value(&[("from", "a"), ("to", "b")])
    };
    assert!(crossed(&before) > 0.0 && crossed(&after) > crossed(&before));
    for (name, family) in &before {
        for (labels, value) in &family.samples {
            assert!(
                labels.keys().all(|label| LABELS.contains(&label.as_str())),
                "{name} {labels:?}"
            );
            if family.kind == "counter" {
                let later = after[name].samples[labels];
                assert!(later >= *value, "{name} {labels:?}: {later} after {value}");
            }
        }
    }
    job.signal(Signal::TERM);
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn a_socket_is_private_and_neither_slow_nor_large_requests_hinder_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let mut job =
        start(folder.path(), &format!("unix:{}", path.display()), &["drill", "--wait", "60"]);
    job.await_line("4 lines from 4 nodes");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let connect = || UnixStream::connect(&path).unwrap();

    let mut slow = connect();
    slow.write_all(b"GET /metr").unwrap();
    let silent = connect();
    let mut large = connect();
    // The server may close the connection while this is written.
    let _ =
        large.write_all(format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(1 << 20)).as_bytes());
    until(|| {
        let begin = Instant::now();
        let (code, _, body) = ask(connect(), GET);
        assert!(begin.elapsed() < Duration::from_secs(10), "it waits for no other client");
        // The nodes of a site may not have answered yet.
        (code == 200).then(|| read(&body)).filter(|it| it["gridspan_site_pes"].samples.len() == 2)
    });

    let mut answer = Vec::new();
    // A reset is an answer, too.
    let _ = large.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let request = |what: &str| format!("{what} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(ask(connect(), &request("GET /")).0, 404);
    let (code, head, _) = ask(connect(), &request("POST /metrics"));
    assert!(code == 405 && head.contains("allow: get, head"), "{head}");
    let of_a_page = "GET /metrics HTTP/1.1\r\nHost: page.example\r\n\r\n";
    assert_eq!(ask(connect(), of_a_page).0, 403);

    job.signal(Signal::TERM);
    assert!(job.wait(LIMIT).is_some());
    assert!(!path.exists(), "the launcher removes its socket");
    drop((slow, silent));
}

#[test]
fn addresses_that_cannot_be_used_are_refused_before_anything_runs() {
    let output = run(&["run", "-n", "1", "--metrics", "0.0.0.0:9464", "ring"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("ssh -L"), "{output:?}");

    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["run", "-n", "1", "--metrics", &address, "ring"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:?}");
    assert!(output.stderr.contains(&format!("error: --metrics {address}: ")), "{output:?}");
    assert!(output.stderr.contains("hint: another program is there"), "{output:?}");
}
