//! Completes the bundle of a node with the key and address that only the agent of its task knows.

use gridspan_runtime::net::NodeKey;
use gridspan_runtime::net::bootstrap::NodeBundle;
use std::net::IpAddr;

/// If a line of the launcher is a bundle, adds the key of the node and the address at which it
/// receives packets. Other lines stay as they are.
pub(super) fn completed(line: Vec<u8>, key: &NodeKey, own: IpAddr) -> Vec<u8> {
    // No other line of the launcher is a JSON object.
    if !line.starts_with(b"{") {
        return line;
    }
    let Ok(mut bundle) = serde_json::from_slice::<NodeBundle>(&line) else { return line };
    bundle.identity.key = key.to_pem();
    bundle.listen = Some((own, bundle.listen.map_or(0, |listen| listen.port())).into());
    // If this fails, the node gets the bundle without a key, and reports that.
    bundle.to_line().map_or(line, String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::net::Authority;
    use gridspan_runtime::net::bootstrap::{Addresses, LEAVE, PauseOrder, RECOVER};
    use gridspan_topology::{GridSpec, NodeId};

    #[test]
    fn only_bundles_get_the_key() {
        let spec = GridSpec::from_emulate("1x2").unwrap();
        let (authority, key) = (Authority::new("ring").unwrap(), NodeKey::new().unwrap());
        let mut bundle = NodeBundle::issue(&authority, &spec, NodeId(1), 1).unwrap();
        bundle.identity = authority.certify(NodeId(1), 1, &key.public()).unwrap();
        let own = IpAddr::from([10, 0, 0, 7]);

        let line = completed(bundle.to_line().unwrap().into_bytes(), &key, own);

        assert_eq!(line.last(), Some(&b'\n'));
        let read: NodeBundle = serde_json::from_slice(&line).unwrap();
        assert_eq!(read.listen, Some((own, 0).into()));
        assert!(read.identity.quic_client().is_ok(), "key and certificate fit");
        bundle.listen = read.listen;
        bundle.identity.key = key.to_pem();
        assert_eq!(read, bundle, "nothing else has changed");

        let addresses = Addresses(vec![(own, 1).into()]).to_line().unwrap();
        let pause = PauseOrder { number: 1, leaving: vec![], is_end: true }.to_line().unwrap();
        for other in [RECOVER, LEAVE, "{}\n", "{\n", "\n", "", &addresses, &pause] {
            let line = completed(other.as_bytes().to_vec(), &key, own);
            assert_eq!(line, other.as_bytes());
        }
    }
}
