//! Tests of what a transport knows of other nodes, without packets.

use super::super::identity::Authority;
use super::*;
use crate::session::DetectorSettings;
use gridspan_topology::SiteId;

/// The transport of node 0 of two founders, its layout, and the first guest.
fn transport() -> (Transport, NodeId) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let guest = layout.guest(SiteId(0), 0).unwrap();
    let identity = Authority::new("job").unwrap().issue(NodeId(0), 1).unwrap();
    let config = TransportConfig::new(layout, identity, [7; 32]);
    (Transport::new(config, Instant::now()).unwrap(), guest)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_node_that_moves_leaves_its_old_address_to_the_node_that_has_taken_it() {
    let (mut transport, guest) = transport();
    transport.set_address(NodeId(1), address(1));
    transport.set_address(guest, address(1));

    transport.set_address(NodeId(1), address(2));

    assert_eq!(transport.node_at(address(1)), Some(guest));
    assert_eq!(transport.node_at(address(2)), Some(NodeId(1)));
    transport.set_address(guest, address(3));
    assert_eq!(transport.node_at(address(1)), None);
}

/// Runs the upkeep after each of these times. Returns those after which a port is to be checked.
fn checked_after(transport: &mut Transport, all_millis: &[u64]) -> Vec<u64> {
    let is_checked = |millis: &&u64| {
        transport.now = transport.began + Duration::from_millis(**millis);
        transport.do_upkeep();
        !transport.take_ports_to_check().is_empty()
    };
    all_millis.iter().filter(is_checked).copied().collect()
}

#[test]
fn the_port_of_a_silent_guest_is_checked_unless_a_firewall_hides_it() {
    // One upkeep per beat, so that the node has run all the time.
    let times: Vec<u64> = (200..=2_200).step_by(200).collect();
    for (is_port_hidden, expected) in [(false, vec![600, 1_600]), (true, vec![])] {
        let (mut transport, guest) = transport();
        transport.set_address(guest, address(1));
        let detector = Detector::new(DetectorSettings::default(), Time::ZERO);
        transport.peers[guest].detector = Some(detector);
        transport.peers[guest].is_port_hidden = is_port_hidden;

        assert_eq!(checked_after(&mut transport, &times), expected);
    }
}
