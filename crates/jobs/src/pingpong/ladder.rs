//! The message sizes of the Java Grande Forum benchmark, and the number of repetitions of each.
//!
//! Source: Java Grande Forum MPJ benchmark suite, section 1 "PingPong", as used by Zhang et al.
//! (2007): 25 sizes from 4 to nearly 5 million doubles in equal steps of the logarithm, synchronous
//! sends, and repetitions that are doubled until the measurement is long enough.

/// Number of sizes.
pub const SIZES: usize = 25;

/// Size in bytes of a double, of which messages consist.
const DOUBLE_BYTES: usize = 8;

/// Minimum number of doubles in a message.
const DOUBLES_MIN: f64 = 4.0;
/// Upper bound of the number of doubles in a message.
const DOUBLES_MAX: f64 = 5_000_000.0;

/// Maximum number of repetitions of one size, as in the original.
pub const REPETITIONS_MAX: u64 = 1_000_000;

/// Number of messages that are under way at the same time when the rate is measured, as in the OSU
/// micro-benchmarks.
pub const WINDOW: u32 = 64;

/// Returns the sizes of the messages in bytes, ascending:
/// `8 floor(exp(ln 4 + l/25 (ln 5e6 - ln 4)))` for `l` from 0 to 24.
pub fn sizes_bytes() -> [usize; SIZES] {
    let (low, high) = (DOUBLES_MIN.ln(), DOUBLES_MAX.ln());
    std::array::from_fn(|index| {
        let doubles = (low + index as f64 / SIZES as f64 * (high - low)).exp().floor();
        doubles as usize * DOUBLE_BYTES
    })
}

/// Returns the number of repetitions of the next measurement of a size, after `repetitions` took
/// `elapsed_ns`; `None` if this was long enough.
///
/// `enough_ns` is ten seconds in the original, and less for a quick look.
pub fn next_repetitions(repetitions: u64, elapsed_ns: u64, enough_ns: u64) -> Option<u64> {
    let done = elapsed_ns >= enough_ns || repetitions >= REPETITIONS_MAX;
    (!done).then(|| repetitions.saturating_mul(2).clamp(1, REPETITIONS_MAX))
}

/// Returns the latency in ns, half of the mean round trip, for `repetitions` round trips in
/// `elapsed_ns`.
pub fn one_way_ns(repetitions: u64, elapsed_ns: u64) -> f64 {
    elapsed_ns as f64 / (2.0 * repetitions.max(1) as f64)
}

/// Returns the bandwidth in bytes per second for `repetitions` round trips of `bytes` in
/// `elapsed_ns`: each transfers the bytes twice.
pub fn bytes_per_second(bytes: usize, repetitions: u64, elapsed_ns: u64) -> f64 {
    2.0 * bytes as f64 * repetitions as f64 / (elapsed_ns.max(1) as f64 * 1e-9)
}

/// Returns the content of a message, in which lost and duplicate parts are detectable.
pub fn payload(bytes: usize) -> Vec<f64> {
    (0..bytes / DOUBLE_BYTES).map(|index| index as f64).collect()
}

/// Whether a payload is complete and unchanged.
pub fn is_whole(payload: &[f64], bytes: usize) -> bool {
    payload.len() == bytes / DOUBLE_BYTES
        && payload.iter().enumerate().all(|(index, &value)| value == index as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_those_of_the_java_grande_forum() {
        let published = [
            32, 56, 96, 168, 296, 528, 928, 1624, 2856, 5008, 8784, 15408, 27016, 47368, 83064,
            145640, 255368, 447760, 785096, 1376576, 2413664, 4232080, 7420456, 13010888, 22813056,
        ];
        assert_eq!(sizes_bytes(), published);
    }

    #[test]
    fn repetitions_double_until_the_time_or_their_maximum_is_reached() {
        assert_eq!(next_repetitions(1, 500, 1000), Some(2));
        assert_eq!(next_repetitions(600_000, 500, 1000), Some(1_000_000));
        assert_eq!(next_repetitions(1_000_000, 500, 1000), None);
        assert_eq!(next_repetitions(64, 1000, 1000), None);
        assert_eq!(next_repetitions(0, 0, 1000), Some(1));
    }

    #[test]
    fn a_round_trip_counts_as_two_transfers() {
        assert_eq!(one_way_ns(10, 2_000), 100.0);
        assert_eq!(bytes_per_second(1_000, 1_000, 1_000_000_000), 2e6);
    }

    #[test]
    fn a_damaged_payload_is_detected() {
        let mut sent = payload(56);
        assert!(is_whole(&sent, 56) && !is_whole(&sent, 48));
        sent[3] = 0.0;
        assert!(!is_whole(&sent, 56));
    }
}
