//! Sites, clusters and links, inferred from measurements of a real network with emulated links.
#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(feature = "net")]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Placement};
use gridspan_topology::{GridSpec, Hierarchy, Latency, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The members of the groups of each level, without levels in which all groups are single nodes.
fn groups(hierarchy: &Hierarchy) -> Vec<Vec<Vec<u32>>> {
    let members = |group| -> Vec<u32> {
        hierarchy.group(group).members().iter().map(|node| node.0).collect()
    };
    (0..hierarchy.depth())
        .map(|level| hierarchy.groups_at(level).map(members).collect::<Vec<_>>())
        .filter(|level| level.iter().any(|group| group.len() > 1))
        .collect()
}

fn inferred(spec: &GridSpec) -> Vec<Vec<Vec<u32>>> {
    let (send, receive) = std::sync::mpsc::channel();
    let job = Job::new("places").main(async move |grid| {
        let places = grid.places().await?;
        assert_eq!(places.contradictions, []);
        send.send(groups(&places.measured)).unwrap();
        Ok(())
    });
    embedded::run_emulated(job, spec).unwrap();
    receive.recv().unwrap()
}

/// Asserts that the grid is inferred. If other programs have the processors during all probes of a
/// node, its links seem slower than they are, so this measures up to three times.
fn assert_inferred(spec: &GridSpec, name: &str) {
    let expected = groups(&Hierarchy::from_grid(spec));
    let mut all = Vec::new();
    while all.len() < 3 && all.last() != Some(&expected) {
        all.push(inferred(spec));
    }
    assert_eq!(all.last(), Some(&expected), "{name}: {all:?}");
}

#[test]
fn sites_are_inferred_from_round_trips() {
    for shorthand in ["2x2,wan=8ms", "3x3,wan=20ms,jitter=1ms", "4x2,wan=5ms,loss=1%"] {
        let spec = GridSpec::from_emulate(shorthand).unwrap();
        assert_inferred(&spec, shorthand);
    }
}

#[test]
fn clusters_of_sites_are_inferred() {
    let spec = GridSpec::from_toml(
        r#"
        wan = { latency = "30ms" }
        lan = { latency = "3ms" }
        [site.a]
        cluster.x = { hosts = ["x[1-3]"], lan = { latency = "20us" } }
        cluster.y = { hosts = ["y[1-3]"], lan = { latency = "20us" } }
        [site.b]
        cluster.x = { hosts = ["v[1-3]"], lan = { latency = "20us" } }
        cluster.y = { hosts = ["w[1-3]"], lan = { latency = "20us" } }
        "#,
    )
    .unwrap();
    assert_inferred(&spec, "clusters");
}

/// Answers each message with one to the other member, after 5 ms.
#[derive(Serialize, Deserialize)]
struct Chatter;

impl Actor for Chatter {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        let other = cx.collection().at(Ix1(1 - cx.index().0));
        cx.send_after(Duration::from_millis(5), &other, ());
    }
}

#[test]
fn a_link_that_becomes_slow_is_noticed_while_traffic_flows() {
    const CHANGE: Duration = Duration::from_secs(4);
    let spec = GridSpec::from_emulate("2x2,wan=10ms; at 4s link a-b latency=40ms").unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let job = Job::new("chat").actor::<Chatter>().main(async move |grid| {
        let chatters =
            grid.create_placed::<Chatter>(Placement::BySite, Ix1::range(2), |_| ()).await?;
        chatters.broadcast(());
        let mut change = grid.link_change().await?;
        // On a busy machine a link inside a site may seem to change, too.
        while change.before.latency < Latency::from_millis(5) {
            change = grid.link_change().await?;
        }
        send.send((grid.now().await?, change)).unwrap();
        Err(JobError::Failed("done".into()))
    });
    assert_eq!(embedded::run_emulated(job, &spec), Err(JobError::Failed("done".into())));
    let (noticed, change) = receive.recv().unwrap();
    let delay = noticed.since(gridspan_topology::Time::ZERO + CHANGE);
    println!("noticed after {delay:?}: {} became {}", change.before, change.after);
    assert!(noticed > gridspan_topology::Time::ZERO + CHANGE, "nothing had changed before");
    assert!(delay < Duration::from_secs(5), "{delay:?}");
    let ms = change.after.latency.duration().as_secs_f64() * 1e3;
    assert!((38.0..60.0).contains(&ms), "{ms} ms");
}

#[test]
fn a_named_site_with_distant_clusters_stays_one_site_with_a_warning() {
    let spec = GridSpec::from_toml(
        r#"
        wan = { latency = "5ms" }
        [site.a]
        lan = { latency = "40ms" }
        cluster.x = { hosts = ["x[1-2]"], lan = { latency = "20us" } }
        cluster.y = { hosts = ["y[1-2]"], lan = { latency = "20us" } }
        [site.b]
        hosts = ["v[1-2]"]
        "#,
    )
    .unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let job = Job::new("places").main(async move |grid| {
        send.send(grid.places().await?).unwrap();
        Ok(())
    });
    embedded::run_emulated(job, &spec).unwrap();
    let places = receive.recv().unwrap();
    let site = |node| places.hierarchy.group_of(NodeId(node), 1);
    assert!(site(0) == site(3) && site(0) != site(4), "the named sites hold");
    let warning = places.contradictions[0].to_string();
    println!("{warning}");
    assert!(warning.contains('a') && warning.contains("ms"), "{warning}");
}
