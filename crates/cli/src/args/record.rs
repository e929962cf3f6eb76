//! Flags about recordings.

use clap::Args;
use gridspan_topology::ByteCount;
use std::path::PathBuf;

/// Smallest value of `--record-bytes`: less would keep hardly any span.
const RECORD_BYTES_MIN: u64 = 64_000;
/// Largest value: a reader refuses larger files.
const RECORD_BYTES_MAX: u64 = 1_000_000_000;

/// Whether and how a job is recorded.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecordFlags {
    /// Record what each PE does, and which message caused it, into the folder DIR, which must not
    /// exist or must be empty. Not with --detach or --guests.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: keep at most SIZE for each node, from 64kB to 1GB, and at most 1GB for all
    /// nodes together. If that is too little, times are coarser and spans are dropped.
    #[arg(long, value_name = "SIZE", default_value = "16MB", value_parser = record_bytes, requires = "record")]
    pub(crate) record_bytes: u64,
}

fn record_bytes(text: &str) -> Result<u64, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    let is_sensible = (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&bytes);
    is_sensible
        .then_some(bytes)
        .ok_or_else(|| "write a size from 64kB to 1GB, such as 16MB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::record_bytes;

    #[test]
    fn sizes_of_recordings_have_bounds() {
        assert_eq!(record_bytes("16MB"), Ok(16_000_000));
        for wrong in ["16", "1kB", "2GB", "unlimited", "much"] {
            assert!(record_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
