//! Places and links, measured on modelled networks.

use gridspan_runtime::{Job, Links, Locality, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, LinkChange, Pipes};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

fn run<T: Send + 'static>(
    spec: &GridSpec,
    main: impl AsyncFnOnce(gridspan_runtime::Grid) -> Result<T, gridspan_runtime::GridError>
    + Send
    + 'static,
) -> T {
    let (send, receive) = mpsc::channel();
    let job = Job::new("places").main(async move |grid| {
        send.send(main(grid).await?).unwrap();
        Ok(())
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    receive.recv().unwrap()
}

#[test]
fn eight_sites_of_a_thousand_nodes_are_inferred_from_samples() {
    let spec = GridSpec::from_emulate("8x128,wan=10ms,jitter=1ms").unwrap();
    let places: Arc<Locality> = run(&spec, async |grid| grid.places().await);
    assert_eq!(places.contradictions, []);
    let measured = &places.measured;
    assert_eq!(measured.groups_at(1).len(), 8);
    for (site, group) in measured.groups_at(1).enumerate() {
        let members: Vec<u32> = measured.group(group).members().iter().map(|node| node.0).collect();
        let first = site as u32 * 128;
        assert_eq!(members, (first..first + 128).collect::<Vec<_>>());
    }
}

#[test]
fn known_links_are_told_at_once() {
    let spec = GridSpec::from_emulate("2x2,wan=100ms").unwrap();
    let (first, at, later): (Option<Links>, Time, Option<Links>) = run(&spec, async |grid| {
        let first = grid.known_links().await?;
        let at = grid.now().await?;
        // The first request has started the measurements, which take some round trips.
        grid.sleep(Duration::from_secs(2)).await?;
        Ok((first, at, grid.known_links().await?))
    });
    assert_eq!(first, None);
    assert!(at.as_secs_f64() < 0.1, "{at}");
    let later = later.expect("the places are known");
    assert_eq!(later.places.measured.groups_at(1).len(), 2);
    assert_eq!(later.uplinks, [], "no trains of packets were sent");
}

#[test]
fn a_shared_uplink_is_detected_and_measured() {
    // All pairs of nodes of two sites share one modelled link.
    let spec = GridSpec::from_emulate("2x2,wan=10ms,rate=20mbit").unwrap();
    let links: Links = run(&spec, async |grid| {
        // Shared uplinks are detected only after a request for links.
        grid.links().await?;
        grid.sleep(Duration::from_secs(5)).await?;
        grid.links().await
    });
    assert_eq!(links.uplinks.len(), 2);
    for (_, uplink) in &links.uplinks {
        assert_eq!(uplink.pipes, Pipes::Shared);
        let mbit = uplink.bandwidth.bits_per_second() as f64 * 1e-6;
        assert!((15.0..25.0).contains(&mbit), "{mbit} Mbit/s");
    }
    let (_, wide) = links.estimates.iter().find(|((from, to), _)| from != to).unwrap();
    let mbit = wide.bandwidth.unwrap().bits_per_second() as f64 * 1e-6;
    assert!((15.0..25.0).contains(&mbit), "{mbit} Mbit/s");
}

#[test]
fn a_silent_link_is_probed_and_its_change_announced() {
    let shorthand = "3x2,wan=10ms; at 60s link a-c latency=50ms; at 60s link c-a latency=50ms";
    let spec = GridSpec::from_emulate(shorthand).unwrap();
    let (change, at): (LinkChange, Time) = run(&spec, async |grid| {
        let change = grid.link_change().await?;
        Ok((change, grid.now().await?))
    });
    let (before, after) = (change.before.latency.duration(), change.after.latency.duration());
    assert!((9..12).contains(&before.as_millis()), "{before:?}");
    assert!((49..52).contains(&after.as_millis()), "{after:?}");
    // A longer round trip has to be measured several times, or any burst would be announced.
    assert!((60.0..80.0).contains(&at.as_secs_f64()), "{at}");
}
