//! Lists of ranks as runs of consecutive numbers, since most groups are one run.

/// Ranks with consecutive numbers in the job: the first, and how many.
pub(crate) type Run = (u32, u32);

/// Cuts a list of ranks into runs, in its order. `None` if there are more than `most`.
pub(crate) fn runs(ranks: impl IntoIterator<Item = u32>, most: usize) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for rank in ranks {
        if let Some((first, count)) = runs.last_mut()
            && first.checked_add(*count) == Some(rank)
        {
            *count += 1;
        } else if runs.len() == most {
            return None;
        } else {
            runs.push((rank, 1));
        }
    }
    Some(runs)
}

/// The ranks of runs, in their order.
pub(crate) fn ranks(runs: &[Run]) -> impl Iterator<Item = u32> {
    runs.iter().flat_map(|(first, count)| *first..first.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_return_in_their_order_unless_there_are_too_many_runs() {
        let list = [4, 5, 6, 2, 3, 9, u32::MAX];
        let cut = runs(list, 4).unwrap();
        assert_eq!(cut, [(4, 3), (2, 2), (9, 1), (u32::MAX, 1)]);
        assert_eq!(ranks(&cut[..3]).collect::<Vec<_>>(), list[..6]);
        assert_eq!((runs(list, 3), runs([], 0)), (None, Some(vec![])));
    }
}
