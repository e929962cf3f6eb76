//! The binomial tree of a hand-written broadcast: built from ranks alone, without knowledge of the
//! topology.

/// The children of `rank` in the tree over `members` ranks rooted at rank 0, those with the largest
/// subtrees first.
pub fn children(rank: u32, members: u32) -> impl Iterator<Item = u32> {
    let reach = if rank == 0 { members.next_power_of_two() } else { 1 << rank.trailing_zeros() };
    let steps = std::iter::successors(Some(reach / 2), |step| Some(step / 2));
    let next =
        steps.take_while(|&step| step > 0).map(move |step| u64::from(rank) + u64::from(step));
    next.filter(move |&child| child < u64::from(members)).map(|child| child as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_eight_ranks_is_the_textbook_tree() {
        let tree: Vec<Vec<u32>> = (0..8).map(|rank| children(rank, 8).collect()).collect();

        let none: &[u32] = &[];
        assert_eq!(tree, [&[4, 2, 1][..], none, &[3], none, &[6, 5], none, &[7], none]);
    }

    #[test]
    fn every_rank_but_the_root_has_one_parent() {
        for members in 1..70 {
            let mut reached: Vec<u32> =
                (0..members).flat_map(|rank| children(rank, members)).collect();
            reached.sort_unstable();

            assert_eq!(reached, (1..members).collect::<Vec<_>>());
        }
    }
}
