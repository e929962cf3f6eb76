//! A session whose peer sends arbitrary frame numbers and acknowledgements.
#![no_main]

use gridspan_runtime::session::{Class, PlantedSessionFault, Received, Session};
use libfuzzer_sys::fuzz_target;

/// Maximum number of bytes that a connection of a hostile node can retain here.
const RETAINED_BYTES_MAX: u64 = 1 << 16;

fuzz_target!(|steps: Vec<(u8, u64, u64)>| {
    let Session { mut sender, mut receiver } =
        Session::new(RETAINED_BYTES_MAX, PlantedSessionFault::None);
    for (what, one, other) in steps {
        let class = if what & 1 == 0 { Class::Small } else { Class::Bulk };
        let claim = Received { small: one, bulk: other, bulk_above: vec![(one, other)] };
        match what / 2 % 8 {
            0 => drop(sender.push(class, vec![0; (one % 64) as usize])),
            1 => drop(sender.next(class)),
            2 => drop(sender.acknowledge(&claim)),
            3 => drop(sender.resume(&claim)),
            4 => receiver.begin_bulk(one),
            // The size of a frame is below 4 GiB.
            5 => drop(receiver.accept(class, one, other % (1 << 32))),
            6 => drop(receiver.resume()),
            _ => receiver.acknowledged(),
        }
        assert!(receiver.received().is_well_formed() || what / 2 % 8 == 4);
    }
});
