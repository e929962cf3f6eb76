//! Measures the links from other servers to this one, as the registry requests, and reports them.

use crate::server::task_server::TaskServer;
use crate::wire::messages::{LinkObservation, Peer, Request, Response, request_response};
use crate::wire::transfer::{Flow, pour};
use gridspan_rpc::calls::Catalogue;
use gridspan_topology::{Bandwidth, LinkSample};
use quinn::{Connection, VarInt};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between requests for links to measure.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of round trips that are measured per link; the smallest counts.
const ROUND_TRIPS: u32 = 4;
/// Number of bytes of the first transfer that measures a link's bandwidth. Further transfers are
/// larger, until one takes long enough.
const POUR_BYTES: u64 = 64 << 10;
/// Number of bytes from which no larger transfer follows.
const POUR_BYTES_MAX: u64 = 16 << 20;
/// Factor by which each further transfer is larger.
const POUR_GROWTH: u64 = 4;
/// Time that a transfer must take to show a link's bandwidth.
const TRANSFER_MIN: Duration = Duration::from_millis(50);
/// Number of round trips that a transfer must also take, because the congestion control of a
/// connection needs some of them to find its rate.
const ROUND_TRIPS_MIN: u32 = 5;
/// Number of bytes below which a transfer of data is not evaluated.
const FLOW_BYTES_MIN: u64 = 256 << 10;
/// Number of transfers of one size that must all take long enough; the fastest counts. A single one
/// can be slow because one of the processes waited for a processor.
const SLOW_TRANSFERS: u32 = 3;
/// A transfer that takes longer is not repeated, because no process waits that long for a
/// processor.
const CERTAIN: Duration = Duration::from_secs(1);
/// Time limit for the measurement of a link.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures until the connection to the registry ends, and then waits without end.
pub(crate) async fn probe_links<C: Catalogue>(
    registry: &Connection,
    task_server: &Arc<TaskServer<C>>,
    address_of_registry: SocketAddr,
) {
    let (mut observations, mut known) = (Vec::new(), BTreeMap::new());
    loop {
        for (address, flow) in task_server.take_flows() {
            if let Some(&(from, round_trip)) = known.get(&address) {
                let sample = of_flow(flow, round_trip);
                observations.extend(sample.map(|sample| LinkObservation { from, sample }));
            }
        }
        let said =
            request_response(registry, &Request::LinkReport(std::mem::take(&mut observations)))
                .await;
        let Ok(Response::Peers(peers)) = said else { break };
        for Peer { number, address, wants_rate } in peers {
            let is_registry = address.is_none();
            let address = address.unwrap_or(address_of_registry);
            let measure = async {
                if let Some(known) = task_server.known(address) {
                    return measured(&known, wants_rate).await;
                }
                // The connection is not kept: there may be many servers that exchange nothing else.
                let peer = task_server.connect(address, is_registry).await?;
                let sample = measured(&peer, wants_rate).await;
                peer.close(VarInt::from_u32(0), b"it was measured");
                sample
            };
            if let Ok(Some(sample)) = tokio::time::timeout(PATIENCE, measure).await {
                let round_trip = sample.round_trip.unwrap_or_default();
                known.insert(address, (number, round_trip));
                observations.push(LinkObservation { from: number, sample });
            }
        }
        // Observations are reported at once.
        if observations.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    std::future::pending().await
}

/// Measures the smallest of some round trips of a connection and, if requested, its bandwidth from
/// the other end.
pub(crate) async fn measured(connection: &Connection, wants_rate: bool) -> Option<LinkSample> {
    let mut round_trip = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        request_response(connection, &Request::Echo).await.ok()?;
        round_trip = round_trip.min(begun.elapsed());
    }
    let mut sample = LinkSample { round_trip: Some(round_trip), ..LinkSample::default() };
    if wants_rate {
        sample.rate = rate(sufficient_flow(connection, round_trip).await?);
        sample.is_full = true;
    }
    Some(sample)
}

/// Returns a flow that is long enough to show the link's bandwidth, or the longest permitted one.
async fn sufficient_flow(connection: &Connection, round_trip: Duration) -> Option<Flow> {
    let enough = TRANSFER_MIN.max(round_trip * ROUND_TRIPS_MIN);
    let mut bytes = POUR_BYTES;
    loop {
        let mut fastest = pour(connection, bytes).await?;
        for _ in 1..SLOW_TRANSFERS {
            if fastest.all < enough || fastest.all > CERTAIN {
                break;
            }
            let again = pour(connection, bytes).await?;
            fastest = if again.all < fastest.all { again } else { fastest };
        }
        if fastest.all >= enough || bytes >= POUR_BYTES_MAX {
            return Some(fastest);
        }
        bytes *= POUR_GROWTH;
    }
}

fn rate(flow: Flow) -> Option<Bandwidth> {
    let bits_per_s = flow.bytes as f64 * 8.0 / flow.took.as_secs_f64();
    bits_per_s.is_finite().then(|| Bandwidth::from_bits_per_second(bits_per_s as u64))
}

/// Evaluates a transfer of data, which shows the link's bandwidth or, if it was short, a lower
/// bound; `None` if it was too small.
fn of_flow(flow: Flow, round_trip: Duration) -> Option<LinkSample> {
    let rate = rate(flow).filter(|_| flow.bytes >= FLOW_BYTES_MIN)?;
    let is_full = flow.all >= TRANSFER_MIN.max(round_trip * ROUND_TRIPS_MIN);
    Some(LinkSample { rate: Some(rate), is_full, ..LinkSample::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(bytes: u64, took_ms: u64) -> Flow {
        let took = Duration::from_millis(took_ms);
        Flow { bytes, took, all: took * 2 }
    }

    #[test]
    fn a_long_transfer_shows_the_bandwidth_and_a_short_one_a_lower_bound() {
        let trip = Duration::from_millis(40);

        let [short, long] = [50, 400].map(|took_ms| of_flow(flow(1_000_000, took_ms), trip));

        let (short, long) = (short.unwrap(), long.unwrap());
        // A megabyte in 50 ms is 160 Mbit/s, a lower bound of the bandwidth, and in 400 ms 20
        // Mbit/s.
        assert_eq!(short.rate, Some(Bandwidth::from_bits_per_second(160_000_000)));
        assert_eq!(long.rate, Some(Bandwidth::from_bits_per_second(20_000_000)));
        assert_eq!((short.is_full, long.is_full), (false, true));
        assert_eq!(of_flow(flow(1000, 400), trip), None, "too little to tell");
    }
}
