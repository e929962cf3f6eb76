//! The memory that is left on this machine, so that copies of checkpoints do not exhaust it, and
//! the memory of this process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Checkpoints leave 1 / `FREE_SHARE` of the machine's memory free.
const FREE_SHARE: u64 = 16;

/// The memory of this machine.
///
/// ```
/// use gridspan_runtime::driver::Memory;
///
/// if let Some(memory) = Memory::of_machine() {
///     assert!(memory.available_bytes() <= memory.total_bytes());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    total: u64,
    available: u64,
}

impl Memory {
    /// The memory of the machine, or of a control group of this process that has less left. `None`
    /// on systems that do not report it.
    pub fn of_machine() -> Option<Self> {
        let machine = machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        // The limit may be that of a group around this one.
        let of_group = |path: &Path| {
            let folder = Path::new("/sys/fs/cgroup").join(path);
            let read = |name| fs::read_to_string(folder.join(name)).ok();
            control_group(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
        };
        let groups = Path::new(path).ancestors().filter_map(of_group);
        groups.chain([machine]).min_by_key(|memory| memory.available)
    }

    /// Bytes that this process could have if it were alone.
    pub fn total_bytes(self) -> u64 {
        self.total
    }

    /// Bytes that are left.
    pub fn available_bytes(self) -> u64 {
        self.available
    }

    /// A warning if too little memory is left for a job that continues from parts of this size and
    /// keeps this many copies of checkpoints, and what to do; see [`bytes_to_come`].
    #[cfg(feature = "net")]
    pub(super) fn shortage(self, parts: u64, copies: u32) -> Option<String> {
        let needs = match copies {
            0 => "the actors",
            1 => "the actors and the checkpoints",
            _ => "the actors and the copies of checkpoints",
        };
        self.shortage_of(needs, bytes_to_come(parts, copies), copies)
    }

    /// A warning if too little memory is left for the copies of another checkpoint beside those of
    /// the complete one, of which this machine keeps `kept` bytes, and what to do.
    pub(super) fn shortage_for_next(self, kept: u64, copies: u32) -> Option<String> {
        let needs =
            if copies < 2 { "the next checkpoint" } else { "copies of the next checkpoint" };
        self.shortage_of(needs, kept, copies)
    }

    fn shortage_of(self, needs: &str, bytes: u64, copies: u32) -> Option<String> {
        let Self { total, available } = self;
        let least = total / FREE_SHARE;
        let action = match copies {
            0 => "; use more machines",
            1 => ", so checkpoints may be given up; use more machines",
            _ => {
                ", so checkpoints may be given up; use more machines, or keep one copy and use a \
                 folder (`--copies 1 --checkpoint DIR`)"
            }
        };
        (available < least.saturating_add(bytes)).then(|| {
            format!(
                "{needs} will need about {} MB more on this machine, where {} MB are left and {} \
                 MB are to stay free{action}",
                bytes >> 20,
                available >> 20,
                least >> 20
            )
        })
    }

    /// The reason why no checkpoint should be kept, if too little memory is left, and what to do.
    pub(super) fn scarcity(self) -> Option<String> {
        let Self { total, available } = self;
        let least = total / FREE_SHARE;
        (available < least).then(|| {
            format!(
                "with it, only {} MB of {} MB of memory are left on a node, and {} MB are to stay \
                 free; keep one copy and use a folder (`--checkpoint-every WHEN --copies 1 \
                 --checkpoint DIR`), or more machines",
                available >> 20,
                total >> 20,
                least >> 20
            )
        })
    }
}

/// Returns the bytes that a job still needs when it continues from parts of this size, which are in
/// memory: for its actors, and for checkpoints with this many copies, one complete and one in the
/// making. The parts are one of these copies. Assumes that the parts of other nodes, whose copies
/// are here, are as large.
#[cfg(feature = "net")]
fn bytes_to_come(parts: u64, copies: u32) -> u64 {
    parts.saturating_mul(1 + (2 * u64::from(copies)).saturating_sub(1))
}

/// Parses the kernel's report about the machine.
fn machine(text: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    Some(Memory { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
}

/// Parses the kernel's report about a control group (version 2). `None` if it has no limit. Its
/// file cache that is not in use counts as available.
fn control_group(max: &str, current: &str, statistics: &str) -> Option<Memory> {
    let total: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let cache = statistics.lines().find_map(|line| line.strip_prefix("inactive_file "));
    let cache: u64 = cache.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
    Some(Memory { total, available: total.saturating_sub(current.saturating_sub(cache)) })
}

/// Bytes of a line of statm in proc_pid_statm(5): seven numbers of up to 20 digits.
const STATM_BYTES_MAX: usize = 160;
/// Type of the entry with the size of a page in the auxiliary vector; see getauxval(3).
const AT_PAGESZ: usize = 6;

/// The resident memory of this process.
pub(super) struct ResidentMemory {
    file: Option<File>,
    page_bytes: u64,
}

impl ResidentMemory {
    /// Opens the file in which Linux reports the resident memory. On other systems it is unknown.
    pub(super) fn open() -> Self {
        let page_bytes = fs::read("/proc/self/auxv").ok().and_then(|vector| page_bytes(&vector));
        let file = File::open("/proc/self/statm").ok().filter(|_| page_bytes.is_some());
        Self { file, page_bytes: page_bytes.unwrap_or_default() }
    }

    /// The resident bytes now, if they are known.
    pub(super) fn bytes(&self) -> Option<u64> {
        let mut line = [0; STATM_BYTES_MAX];
        let length = self.file.as_ref()?.read_at(&mut line, 0).ok()?;
        resident_pages(line.get(..length)?)?.checked_mul(self.page_bytes)
    }
}

/// Reads the second number of a line of statm.
fn resident_pages(line: &[u8]) -> Option<u64> {
    str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Reads the size of a page from the auxiliary vector: pairs of a type and a value.
fn page_bytes(vector: &[u8]) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.first_chunk::<WORD>().map(|it| usize::from_ne_bytes(*it));
    let mut entries = vector.chunks_exact(2 * WORD);
    let entry = entries.find(|entry| word(entry) == Some(AT_PAGESZ))?;
    word(&entry[WORD..]).map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_of_this_process_is_read() {
        assert_eq!(resident_pages(b"5000 1234 300 1 0 99 0\n"), Some(1234));
        assert_eq!(resident_pages(b"nonsense"), None);
        let vector: Vec<u8> =
            [3, 64, AT_PAGESZ, 4096, 0, 0].into_iter().flat_map(usize::to_ne_bytes).collect();
        assert_eq!(page_bytes(&vector), Some(4096));
        assert_eq!(page_bytes(&vector[..size_of::<usize>() * 2]), None);

        let bytes = ResidentMemory::open().bytes();
        if cfg!(target_os = "linux") {
            assert!(bytes.is_some_and(|bytes| bytes > 1 << 20), "{bytes:?}");
        }
    }

    #[test]
    fn the_memory_of_machine_and_control_group_is_read() {
        let text = "MemTotal:       16000000 kB\nMemFree:  10 kB\nMemAvailable:   8000000 kB\n";
        let found = Memory { total: 16_000_000 << 10, available: 8_000_000 << 10 };
        assert_eq!(machine(text), Some(found));
        assert_eq!(machine("MemTotal: many"), None);

        let group = control_group("1000\n", "900\n", "anon 5\ninactive_file 300\n");
        assert_eq!(group, Some(Memory { total: 1000, available: 400 }));
        assert_eq!(control_group("max\n", "900\n", ""), None);
        assert!(cfg!(not(target_os = "linux")) || Memory::of_machine().is_some());
    }

    #[cfg(feature = "net")]
    #[test]
    fn actors_and_copies_of_checkpoints_count_before_a_job_continues() {
        // The actors, and without copies nothing else.
        assert_eq!([0, 1, 2].map(|copies| bytes_to_come(100, copies)), [100, 200, 400]);
        assert_eq!(bytes_to_come(u64::MAX, 2), u64::MAX);

        let memory = Memory { total: 160 << 20, available: 50 << 20 };
        assert_eq!(memory.shortage(10 << 20, 2), None, "10 MB stay free");
        let text = memory.shortage((10 << 20) + 1, 2).unwrap();
        assert!(text.contains("about 40 MB more on this machine, where 50 MB are left"), "{text}");
        assert!(text.ends_with("keep one copy and use a folder (`--copies 1 --checkpoint DIR`)"));
        let one_copy = memory.shortage(u64::MAX, 1).unwrap();
        assert!(one_copy.ends_with("may be given up; use more machines"), "{one_copy}");
        let none = memory.shortage(u64::MAX, 0).unwrap();
        assert!(!none.contains("checkpoints"), "the job makes none: {none}");
    }

    #[test]
    fn another_checkpoint_needs_as_much_as_the_complete_one() {
        let memory = Memory { total: 160 << 20, available: 50 << 20 };
        assert_eq!(memory.shortage_for_next(40 << 20, 2), None, "10 MB stay free");
        let text = memory.shortage_for_next((40 << 20) + 1, 2).unwrap();
        assert!(
            text.starts_with("copies of the next checkpoint will need about 40 MB more on this"),
            "{text}"
        );
        assert!(text.ends_with("keep one copy and use a folder (`--copies 1 --checkpoint DIR`)"));
        let one_copy = memory.shortage_for_next(u64::MAX, 1).unwrap();
        assert!(one_copy.starts_with("the next checkpoint will need"), "{one_copy}");
        assert!(one_copy.ends_with("may be given up; use more machines"), "{one_copy}");
    }

    #[test]
    fn a_sixteenth_stays_free() {
        let memory = |available| Memory { total: 160 << 20, available };
        assert_eq!(memory(10 << 20).scarcity(), None);
        let text = memory((10 << 20) - 1).scarcity().unwrap();
        assert!(text.starts_with("with it, only 9 MB of 160 MB of memory are left"), "{text}");
    }
}
