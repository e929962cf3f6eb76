//! The limit on silence for jobs whose nodes are tasks of Slurm, or of a script that replaces it.

/// The nodes share few cores, so they may be silent for seconds. The runtime does not raise the
/// limit itself, because Slurm's variables state a separate core for each node.
pub const LOST_AFTER: &str = "--lost-after=20s";
