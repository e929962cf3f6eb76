//! Text between a launcher and its nodes (control lines, node bundles, addresses) is parsed or
//! rejected, and any output of a node is separated from control lines.
#![no_main]

use gridspan::control::{Control, OutputDemux};
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Control::parse(data));
    drop(serde_json::from_slice::<NodeBundle>(data));
    drop(serde_json::from_slice::<Addresses>(data));
    let mut demux = OutputDemux::default();
    data.split(|&byte| byte == b'\n').for_each(|line| demux.line(line, &mut |_| {}));
    demux.pass_on(&mut |_| {});
});
