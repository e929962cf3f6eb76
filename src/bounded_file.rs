//! Reads files that users name, up to a number of bytes: a path may also lead to a device or a pipe
//! without end.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a file.
///
/// # Errors
///
/// If the file cannot be read, or has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let check = |bytes: u64| match bytes > bytes_max {
        true => Err(io::Error::other(format!("it is larger than {bytes_max} bytes"))),
        false => Ok(()),
    };
    let file = File::open(path)?;
    // The content of a pipe or a device has no known size.
    check(file.metadata()?.len())?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    check(bytes.len() as u64)?;
    Ok(bytes)
}

/// Reads a file of text.
///
/// # Errors
///
/// As [`read`], and of the kind `InvalidData` if the content is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, bytes_max)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_one_byte_too_many_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc\n").unwrap();
        assert_eq!(read_text(file.path(), 4).unwrap(), "abc\n");
        assert_eq!(read(file.path(), 3).unwrap_err().to_string(), "it is larger than 3 bytes");
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path(), 4).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_end_is_refused() {
        let error = read_text(Path::new("/dev/zero"), 4096).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 4096 bytes");
    }
}
