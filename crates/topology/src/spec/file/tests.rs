//! Tests of the grid file: accepted and rejected input, and the positions of errors.

use super::*;
use crate::id::NodeId;
use crate::units::{Bandwidth, Time};
use proptest::prelude::*;
use std::time::Duration;

const EXAMPLE: &str = r#"
loopback = "1us"

[site.urbana]
hosts = ["u1", "u2"]

[site.delft]
hosts = ["d[01-02]"]
pes = 2
lan = { latency = "20us", bandwidth = "40gbit" }

[site.ankara]
hosts = ["a1"]

[[link]]
from = "delft"
to = "urbana"
loss = "0.1%"

[[link]]
between = ["urbana", "delft"]
latency = "32ms"
jitter = "1ms"
queue = "1MB"
reorder = true
lost_after = "60s"

[wan]
latency = "12ms"
bandwidth = "100mbit"
"#;

fn refusal(text: &str) -> String {
    GridSpec::from_toml(text).unwrap_err().to_string()
}

#[test]
fn sites_keep_the_order_of_the_file() {
    let spec = GridSpec::from_toml(EXAMPLE).unwrap();

    let layout = spec.layout();
    let names: Vec<&str> = layout.sites().map(|site| layout.site_name(site)).collect();
    assert_eq!(names, ["urbana", "delft", "ankara"]);
    let hosts: Vec<&str> = spec.hosts().map(|(_, host)| host).collect();
    assert_eq!(hosts, ["u1", "u2", "d01", "d02", "a1"]);
    assert_eq!(layout.place(NodeId(2)).pes, 2..4);
    assert_eq!(layout.pe_count(), 7);
    assert_eq!(spec.loopback(), Latency::from_micros(1));
}

#[test]
fn missing_keys_of_a_link_come_from_the_wan_or_the_pair() {
    let spec = GridSpec::from_toml(EXAMPLE).unwrap();

    let wan = Link::new(Latency::from_millis(12), Bandwidth::from_bits_per_second(100_000_000));
    let pair = wan
        .with_latency(Latency::from_millis(32))
        .with_jitter(Duration::from_millis(1))
        .with_queue_bytes(1_000_000)
        .with_reorder(true)
        .with_lost_after(Duration::from_secs(60));
    let (urbana, delft, ankara) = (NodeId(0), NodeId(2), NodeId(4));
    assert_eq!(spec.link(urbana, ankara), &wan);
    assert_eq!(spec.link(urbana, delft), &pair);
    assert_eq!(spec.link(delft, urbana), &pair.with_loss(0.001));
}

#[test]
fn a_site_may_have_its_own_lan() {
    let spec = GridSpec::from_toml(EXAMPLE).unwrap();

    let fast = Link::new(Latency::from_micros(20), Bandwidth::from_bits_per_second(40_000_000_000));
    assert_eq!(spec.link(NodeId(2), NodeId(3)), &fast);
    assert_eq!(spec.link(NodeId(0), NodeId(1)), &Link::lan());
}

#[test]
fn a_site_may_have_an_uplink() {
    let site = |uplink: &str| format!("[site.a]\nhosts = [\"a\"]\nuplink = {uplink}\n");
    let text = site("\"1.5gbit\"") + "[site.b]\nhosts = [\"b\"]";

    let spec = GridSpec::from_toml(&text).unwrap();

    let rate = Bandwidth::from_bits_per_second(1_500_000_000);
    assert_eq!([0, 1].map(|site| spec.uplink(SiteId(site))), [Some(rate), None]);
    assert_eq!(
        refusal(&site("\"0mbit\"")),
        "line 3, column 10: `0mbit` would let nothing pass; write a bandwidth above zero, or a \
         loss of 100%"
    );
    assert_eq!(
        refusal(&site("1000")),
        "line 3, column 10: `uplink` must be a string with a unit; write it as in \
         `uplink = \"1gbit\"`"
    );
}

#[test]
fn an_error_names_its_line_and_column() {
    let place = |text: &str| {
        let error = GridSpec::from_toml(text).unwrap_err();
        (error.line, error.column)
    };
    assert_eq!(place("[site.a]\nhosts = [\"ä\", 7]"), (2, 10));
    assert_eq!(place("[site.a]\nhosts = [\"a\", 7]"), (2, 15));
    assert_eq!(place("[site.a]\nhosts = [\"a\"]\n\n  colour = 1"), (4, 3));
    assert_eq!(place("[site.a]\nhosts = [\"a\"]\nlan = { latency = \"1\" }"), (3, 19));
    assert_eq!(place("[site.ü]\nhosts = [\"a\"]"), (1, 7));
    assert_eq!(place("[site.b]\nhosts = []"), (1, 7));
    assert_eq!(place("[site.a]\nhosts = [\"a\"]\n[[link]]\nlatency = \"1ms\""), (3, 1));
}

#[test]
fn a_refusal_says_what_to_write() {
    assert_eq!(
        refusal("[site.a]\nhost = [\"a\"]"),
        "line 2, column 1: there is no `host` in a site; write one of `hosts`, `pes`, `speed`, `lan`, `cluster`, `port`, `gateway`, `uplink`"
    );
    assert_eq!(
        refusal("[site.a]\nhosts = \"a\""),
        "line 2, column 9: `hosts` must be a list of strings; write it as in \
         `hosts = [\"d[01-04]\"]`"
    );
    assert_eq!(
        refusal("[wan]\nlatency = 32"),
        "line 2, column 11: `latency` must be a string with a unit; write it as in \
         `latency = \"32ms\"`"
    );
    assert_eq!(
        refusal("[wan]\nbandwidth = \"100mbps\""),
        "line 2, column 13: `100mbps` has no known unit; write one of bit, kbit, mbit, gbit, tbit, \
         such as `100mbit`"
    );
    assert_eq!(
        refusal("[site.a]\nhosts = [\"a[4-1]\"]"),
        "line 2, column 10: `a[4-1]` cannot be expanded: the range 4-1 runs backwards; write 1-4"
    );
    assert_eq!(
        refusal(""),
        "line 1, column 1: the file has no site; write `[site.NAME]` and below it \
         `hosts = [\"HOST\"]`"
    );
    assert_eq!(
        refusal("[[link]]\nbetween = [\"a\", \"c\"]\n[site.a]\nhosts = [\"a\"]"),
        "line 2, column 17: there is no site `c`; write one of `a`"
    );
    assert!(refusal("[site.a\nhosts").starts_with("line 1, column 8: this is not TOML: "));
}

#[test]
fn link_entries_that_contradict_themselves_or_each_other_are_refused() {
    let problem = |links: &str| {
        let sites = "[site.a]\nhosts = [\"a\"]\n[site.b]\nhosts = [\"b\"]\n";
        GridSpec::from_toml(&format!("{sites}{links}")).unwrap_err().problem
    };
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(problem("[[link]]\nfrom = \"a\""), GridFileProblem::LinkEnds);
    assert_eq!(
        problem("[[link]]\nbetween = [\"a\", \"b\"]\nto = \"b\""),
        GridFileProblem::LinkEnds
    );
    assert_eq!(
        problem("[[link]]\nbetween = [\"a\", \"a\"]"),
        GridFileProblem::SameSite { name: a.clone() }
    );
    assert_eq!(
        problem("[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"b\", \"a\"]"),
        GridFileProblem::DuplicateLink { from: a, to: b }
    );
    assert!(matches!(
        problem("[[link]]\nbetween = [\"a\"]"),
        GridFileProblem::Kind { expected: "two names of sites", .. }
    ));
}

#[test]
fn numbers_out_of_range_are_refused() {
    for pes in ["0", "-1", "4294967296", "1.5", "\"2\""] {
        let error = GridSpec::from_toml(&format!("[site.a]\nhosts = [\"a\"]\npes = {pes}"));
        let problem = error.unwrap_err().problem;
        assert!(matches!(problem, GridFileProblem::Kind { .. }), "{pes}: {problem}");
    }
}

#[test]
fn hostile_files_are_refused_without_being_expanded() {
    let refused = |text: &str| GridSpec::from_toml(text).is_err();
    assert!(refused("[site.a]\nhosts = [\"a[0-9999999999]\"]"));
    assert!(refused("[site.a]\nhosts = [\"a[1-60000]\", \"b[1-60000]\"]"));
    assert!(refused("[site.a]\nhosts = [\"a[1-60000]\"]\n[site.b]\nhosts = [\"b[1-60000]\"]"));
    assert!(refused("[site.a]\nhosts = [\"a[1-60000]\"]\npes = 4000000000"));
    assert!(refused(&" ".repeat(MAX_FILE_BYTES + 1)));
    assert!(refused(&format!("a = {}", "[".repeat(500_000))));
    assert!(refused(&"a.".repeat(500_000)));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = GridSpec::from_toml(&text);
    }

    #[test]
    fn no_damaged_file_makes_the_reader_panic(
        cuts in prop::collection::vec((0..EXAMPLE.len(), 0..20_usize, "\\PC{0,4}"), 0..4),
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for (start, len, insert) in cuts {
            let start = start.min(bytes.len());
            let end = (start + len).min(bytes.len());
            bytes.splice(start..end, insert.into_bytes());
        }
        let _ = GridSpec::from_toml(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_stored_grid_is_read_back_unchanged(
        shape in prop::collection::vec((1..4_u32, 1..4_u32), 1..5),
        latency_us in 0..1_000_000_u64,
        loss in 0.0..=1.0_f64,
        ends in (0..5_u32, 0..5_u32),
    ) {
        let mut text = String::new();
        for (n, (hosts, pes)) in shape.iter().enumerate() {
            text += &format!("[site.s{n}]\nhosts = [\"h[1-{hosts}]\"]\npes = {pes}\n");
        }
        let (from, to) = ends;
        let sites = shape.len() as u32;
        if from != to && from < sites && to < sites {
            text += &format!("[[link]]\nfrom = \"s{from}\"\nto = \"s{to}\"\n");
            text += &format!("latency = \"{latency_us}us\"\nloss = \"{loss}\"\n");
        }
        let spec = GridSpec::from_toml(&text).unwrap();

        let stored = postcard::to_stdvec(&spec).unwrap();

        prop_assert_eq!(postcard::from_bytes::<GridSpec>(&stored).unwrap(), spec);
    }
}

#[test]
fn clusters_have_separate_hosts_and_networks() {
    let spec = GridSpec::from_toml(
        r#"
        [site.a]
        hosts = ["front"]
        pes = 2
        lan = { latency = "300us" }
        [site.a.cluster.x]
        hosts = ["x[1-2]"]
        lan = { latency = "10us" }
        [site.a.cluster.y]
        hosts = ["y1"]
        pes = 4
        [site.b.cluster.x]
        hosts = ["b1"]
        "#,
    )
    .unwrap();

    let pes: Vec<_> =
        spec.layout().nodes().map(|node| spec.layout().place(node).pes.len()).collect();
    assert_eq!(pes, [2, 2, 2, 4, 1]);
    let latency = |from, to| spec.link(NodeId(from), NodeId(to)).latency;
    assert_eq!(latency(1, 2), Latency::from_micros(10));
    assert_eq!(latency(0, 1), Latency::from_micros(300));
    assert_eq!(latency(2, 3), Latency::from_micros(300));
    assert_eq!(latency(3, 4), Link::wan().latency);
    let clusters: Vec<_> = spec.layout().nodes().map(|node| spec.cluster_of(node)).collect();
    assert_eq!(clusters, [None, Some(0), Some(0), Some(1), Some(2)]);
    assert_eq!(spec.cluster_name(2), "x");
    assert!(spec.is_emulated(NodeId(2), NodeId(3)) && !spec.is_emulated(NodeId(1), NodeId(2)));
}

#[test]
fn nodes_of_one_host_take_consecutive_ports() {
    let text = "[site.a]\nhosts = [\"h\", \"h\", \"i\"]\nport = 7000\ngateway = \"head\"\n[site.b]\nhosts = [\"h\"]\n";
    let spec = GridSpec::from_toml(text).unwrap();

    let ports: Vec<_> = spec.layout().nodes().map(|node| spec.port(node)).collect();
    assert_eq!(ports, [Some(7000), Some(7001), Some(7000), None]);
    assert_eq!((spec.gateway(SiteId(0)), spec.gateway(SiteId(1))), (Some("head"), None));
}

#[test]
fn errors_locate_invalid_ports_gateways_clusters_and_changes() {
    let cases = [
        ("[site.a]\nhosts = [\"h\"]\nport = 70000", "line 3, column 8: `port` must be"),
        ("[site.a]\nhosts = [\"h\"]\nport = 0", "line 3, column 8: `port` must be"),
        ("[site.a]\nhosts = [\"h\"]\ngateway = \"-x\"", "line 1, column 7: `-x` is not a host"),
        (
            "[site.a.cluster.\"x y\"]\nhosts = [\"h\"]",
            "line 1, column 7: `x y` cannot name a cluster",
        ),
        (
            "timeline = [\"at noon\"]\n[site.a]\nhosts = [\"h\"]",
            "line 1, column 13: `at noon` is not a change",
        ),
    ];
    for (text, expected) in cases {
        let error = GridSpec::from_toml(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_timeline_changes_links_in_the_order_of_time() {
    let text = "timeline = [\"at 2s link a-b rate=1mbit\", \"at 1s link a>b latency=99ms\"]\n\
                [site.a]\nhosts = [\"h\"]\n[site.b]\nhosts = [\"i\"]\n";
    let spec = GridSpec::from_toml(text).unwrap();

    let at = |seconds: u64| spec.link_at(Time(seconds * 1_000_000_000), NodeId(0), NodeId(1));
    assert_eq!(at(0), Link::wan());
    assert_eq!(at(1), Link::wan().with_latency(Latency::from_millis(99)));
    assert_eq!(at(2), at(1).with_bandwidth(Bandwidth::from_bits_per_second(1_000_000)));
    assert_eq!(spec.link_at(Time(1_000_000_000), NodeId(1), NodeId(0)), Link::wan());
}

#[test]
fn hosts_have_the_speed_of_their_cluster_or_site() {
    let spec = GridSpec::from_toml(
        r#"
        [site.a]
        hosts = ["a1"]
        speed = 2
        cluster.x = { hosts = ["x1"], speed = "1/3" }
        cluster.y = { hosts = ["y1"] }
        [site.b]
        hosts = ["b1"]
        [site.c]
        hosts = ["c1"]
        speed = 0x10
        "#,
    )
    .unwrap();

    let factors: Vec<f64> = (0..5).map(|node| spec.speed(NodeId(node)).factor()).collect();
    assert_eq!(factors, [2.0, 0.333_333, 2.0, 1.0, 16.0]);
    let refused = GridSpec::from_toml("[site.a]\nhosts = [\"a1\"]\nspeed = 0").unwrap_err();
    assert!(refused.to_string().contains("`0` is not a speed; write a number from"), "{refused}");
    assert!(GridSpec::from_toml("[site.a]\nhosts = [\"a1\"]\nspeed = true").is_err());
}
