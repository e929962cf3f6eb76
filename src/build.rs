//! Identifies the build of the program that this process runs, and its host.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Number of evenly spread samples of the program that identify a build. The whole program may have
/// a hundred megabytes, and many nodes of a machine would each have to read it. Builds of one size
/// that differ only between the samples count as the same one.
const SAMPLES: u64 = 64;
/// Largest number of bytes of a sample.
const SAMPLE_BYTES: u64 = 16 << 10;
/// Maximum length of a host name (RFC 1035, section 2.3.4).
#[cfg(feature = "net")]
const HOST_BYTES_MAX: usize = 255;

/// Returns a hash that identifies the build of the program, or 0 if it cannot be read.
pub(crate) fn build() -> u64 {
    std::env::current_exe().and_then(File::open).and_then(digest).unwrap_or(0)
}

fn digest(mut file: File) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    let mut hash = fnv(0xcbf2_9ce4_8422_2325, &bytes.to_le_bytes());
    let mut sample = Vec::new();
    for number in 0..SAMPLES {
        file.seek(SeekFrom::Start(bytes / SAMPLES * number))?;
        sample.clear();
        // A single read may return less than there is.
        file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample)?;
        hash = fnv(hash, &sample);
    }
    // 0 means an unknown build.
    Ok(hash.max(1))
}

/// FNV-1a of 64 bits (G. Fowler, L. C. Noll and K.-P. Vo, 1991).
fn fnv(begin: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(begin, step)
}

/// Returns the name of this machine.
#[cfg(feature = "net")]
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.or_else(|_| std::env::var("HOSTNAME").map_err(io::Error::other));
    let name = name.unwrap_or_default();
    let name = name.trim();
    match name.is_empty() || name.len() > HOST_BYTES_MAX {
        true => "unknown".to_owned(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn different_files_have_different_digests() {
        let path = std::env::temp_dir().join(format!("gridspan-build-{}", std::process::id()));
        let mut digests = Vec::new();
        for byte in [1, 2, 1] {
            let mut file = File::create(&path).unwrap();
            file.write_all(&vec![byte; 300_000]).unwrap();
            digests.push(digest(File::open(&path).unwrap()).unwrap());
        }
        std::fs::remove_file(&path).unwrap();
        assert_ne!(digests[0], digests[1]);
        assert_eq!(digests[0], digests[2]);
        assert_ne!(build(), 0, "this test can be read");
    }
}
