//! Figures: what benches and studies measure, and the page that lists it.
//!
//! - [`FigureRecord`]: one figure of one run, a line of JSON in `target/comparisons/SUITE.jsonl`.
//!   All programs of a comparison are in one record.
//! - [`FigureUnit`], [`FigureGoal`], [`FigureVerdict`]: units of times, goals of figures, and
//!   verdicts on them.
//! - [`table_rows`]: the table that benches print.
//! - [`ROWS`], [`update_page`]: the rows of `docs/src/figures.md`, and the page with them; the
//!   command is the example `figures`.
//! - `surroundings.rs`: the machine, the day and the commit, and the files of records.

mod interval;
mod page;
mod record;
mod rows;
mod surroundings;
mod table;
#[cfg(test)]
mod tests;
mod unit;

pub use interval::Interval;
pub use page::{PageError, PageRun, update_page, update_readme};
pub use record::{
    ComparedBaseline, ComparedProgram, Comparison, ComputedValue, Figure, FigureRecord, FigureRun,
    ProgramRounds, last_of, parse_records,
};
pub use rows::{ROWS, Row, RowTable};
pub use surroundings::{append_record, first_filter, read_records, records_path, target_folder};
pub use table::{TABLE_HEAD, table_rows};
pub use unit::{FigureGoal, FigureUnit, FigureVerdict};
