//! The number of cores that this process may use.

/// Returns the number of hardware threads whose time this process may use at once, at least 1. The
/// limits are the hardware threads on which the system lets it run (`sched_setaffinity`, cpusets)
/// and, on Linux, the quotas of its control groups, such as those of containers: `cpu.max` in
/// version 2, `cpu.cfs_quota_us` in version 1. A quota is rounded down to whole cores.
///
/// ```
/// assert!(gridspan_runtime::driver::cores() >= 1);
/// ```
pub fn cores() -> u32 {
    // The standard library reads the quotas.
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}
