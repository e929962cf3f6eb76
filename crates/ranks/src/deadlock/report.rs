//! The text of a deadlock.

/// Largest number of ranks that a deadlock names.
const NAMED_MAX: usize = 32;

/// Names the ranks of a deadlock and what each waits for, after the clause `deadlock`.
pub(crate) fn text<'a>(
    deadlock: &str,
    waits: impl Iterator<Item = (&'a u32, &'a String)> + Clone,
) -> String {
    let named: Vec<String> = waits
        .clone()
        .take(NAMED_MAX)
        .map(|(rank, waits)| format!("rank {rank} waits in {waits}"))
        .collect();
    let more = waits.count().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{deadlock}: {}{more}", named.join("; "))
}
