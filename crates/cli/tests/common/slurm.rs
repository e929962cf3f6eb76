//! A job whose nodes are tasks of Slurm, or of a script that replaces it.

/// Molecular dynamics whose result is compared bit by bit with a serial run. The number of steps
/// follows.
pub const JOB: [&str; 7] =
    ["leanmd", "--atoms", "4000", "--report-every", "5", "--check-serial", "--steps"];

/// The nodes share few cores and are silent at times, but Slurm's variables give each a separate
/// core.
pub const LOST_AFTER: &str = "--lost-after=20s";
