//! Digests of files, which tell one build of a program from another, and their text.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Returns the SHA-256 digest of a file.
pub(crate) fn digest(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(context.finish().as_ref().to_vec());
        }
        context.update(bytes);
        let length = bytes.len();
        file.consume(length);
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
    }
}
