//! Next steps that errors of several commands advise.

/// The next step if no grid is named.
pub(super) const NAME_A_GRID: &str =
    "name a grid file with `--grid FILE`, or write one in short, such as `--emulate 4x8,wan=32ms`";
