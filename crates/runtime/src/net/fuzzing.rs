//! Private decoders of bytes from peers, made public for the fuzz targets. Each takes arbitrary
//! bytes and must not panic.

use super::hello::Hello;
use super::probe_packet::ProbePacket;
use ring::hmac;

/// Reads the first bytes of a connection.
pub fn hello(data: &[u8]) {
    if let Ok(Some(hello)) = Hello::read(data) {
        assert!(hello.received.is_well_formed());
    }
}

/// Reads a probe with a valid signature.
pub fn probe(data: &[u8]) {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]);
    let tag = hmac::sign(&key, data);
    let signed = [data, &tag.as_ref()[..super::probe_packet::TAG_BYTES]].concat();
    // A packet that decodes must also decode after it was encoded again.
    if let Some(packet) = ProbePacket::decode(&signed, &key) {
        let again = ProbePacket::decode(&packet.encode(signed.len(), &key), &key);
        assert!(again.is_some());
    }
}
