//! The names of launchers: which process on which machine, for which folder.

use crate::job_folder::machine;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of this launcher of the job in a folder. No other one has it, since the system does not
/// use the number of a process twice within a microsecond.
pub(super) fn new(folder: &Path) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{}@{}:{}", std::process::id(), now.as_micros(), machine(), folder.display())
}

/// The machine and the folder in the name of a launcher.
pub(super) fn place(name: &str) -> &str {
    name.split_once('@').map_or(name, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_of_one_folder_differ_and_have_one_place() {
        let first = new(Path::new("/state/ring-1"));
        std::thread::sleep(std::time::Duration::from_micros(2));
        let second = new(Path::new("/state/ring-1"));
        assert_ne!(first, second);
        assert_eq!(place(&first), place(&second));
        assert_ne!(place(&first), place(&new(Path::new("/other/ring-1"))));
        assert!(place(&first).ends_with(":/state/ring-1"));
    }
}
