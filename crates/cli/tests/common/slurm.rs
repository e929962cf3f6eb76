//! A job whose nodes are tasks of Slurm, or of a script that replaces it.

/// The nodes share few cores and are silent at times, but Slurm's variables give each a separate
/// core.
pub const LOST_AFTER: &str = "--lost-after=20s";
