//! How much is sent in one piece.

/// Arguments and results of more bytes than this are refused: a node takes frames of up to 64 MiB, and a frame holds
/// more than its contents.
pub(crate) const PIECE_BYTES_MAX: usize = 60 << 20;

/// Refuses what is too much for one piece.
pub(crate) fn check_piece(what: &str, bytes: usize) -> Result<(), String> {
    match bytes <= PIECE_BYTES_MAX {
        true => Ok(()),
        false => Err(format!(
            "{what} has {bytes} bytes, and {PIECE_BYTES_MAX} are sent in one piece; divide it"
        )),
    }
}
