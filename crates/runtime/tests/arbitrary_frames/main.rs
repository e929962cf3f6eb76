//! The runtime handles or rejects frames of arbitrary bytes without a panic. The fuzz target
//! `frame` searches longer, guided by coverage.
#![allow(missing_docs)]

mod handle;

use gridspan_runtime::COORDINATOR;
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Mutex;

/// Number of frames for each combination of sender, receiver and next bytes.
const FRAMES: u32 = 150;
/// Number of kinds of control to try: more than there are.
const CONTROLS: u8 = 90;
/// Number of tags of contents to try: more than the largest, which is that of traced messages.
const CONTENTS: u8 = 11;
const BODY_BYTES_END: u64 = 41;

/// Place and message of the last panic.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn take_place() -> String {
    std::mem::take(&mut *PLACE.lock().expect("no panic holds it"))
}

#[test]
fn random_frames_do_not_panic() {
    let mut dice = Dice::new(1);
    let (mut decoded, mut frames) = (0, BTreeMap::new());
    // Keep one frame for each place of a panic.
    std::panic::set_hook(Box::new(|panic| {
        *PLACE.lock().expect("no panic holds it") = panic.to_string()
    }));
    let mut try_frame = |start: &[u8]| {
        for (from, to) in [(0, 0), (2, 0), (0, COORDINATOR.0), (1, COORDINATOR.0), (!0, !0)] {
            for _ in 0..FRAMES {
                let mut frame = [u32::to_le_bytes(from), u32::to_le_bytes(to)].concat();
                frame.extend(start);
                // Small numbers identify PEs, collections and so on that exist.
                let end = if dice.chance(0.5) { 4_u64 } else { 256 };
                for _ in 0..dice.below(BODY_BYTES_END) {
                    frame.push(dice.below(end) as u8);
                }
                match catch_unwind(|| handle::handle(&frame)) {
                    Ok(is_decoded) => decoded += u32::from(is_decoded),
                    Err(_) => drop(frames.insert(take_place(), frame)),
                }
            }
        }
    };
    for content in 0..CONTENTS {
        try_frame(&[content]);
        for control in 0..CONTROLS {
            try_frame(&[content, control]);
        }
    }
    drop(std::panic::take_hook());
    assert!(frames.is_empty(), "{frames:#?}");
    assert!(decoded > 10_000, "{decoded} frames decode");
}
