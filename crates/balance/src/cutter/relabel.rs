//! Assigns names to parts so that as much weight as possible stays in its home part.

/// Returns the new name of each part, a permutation. `kept[part][name]` is the weight that is kept
/// if the part gets the name, or `None` if it must not get it. Each part must be allowed to keep
/// its own name.
///
/// Up to [`EXACT_MAX`] parts this is the best assignment, found in cubic time (H. W. Kuhn, "The
/// Hungarian method for the assignment problem", 1955, with potentials). With more parts, names are
/// assigned greedily, by descending weight.
pub(super) fn relabel(kept: &[Vec<Option<i64>>]) -> Vec<u32> {
    if kept.len() <= EXACT_MAX { exact(kept) } else { greedy(kept) }
}

/// Maximum number of parts for the exact method: 256 parts take about 10 ms.
const EXACT_MAX: usize = 256;

fn exact(kept: &[Vec<Option<i64>>]) -> Vec<u32> {
    let parts = kept.len();
    let most = kept.iter().flatten().flatten().copied().max().unwrap_or(0).max(1) as f64;
    // One forbidden name costs more than all allowed names together can save.
    let forbidden = 4.0 * (parts as f64 + 1.0);
    let cost =
        |part: usize, name: usize| kept[part][name].map_or(forbidden, |k| -(k as f64) / most);
    // Rows are parts and columns are names, from 1 on; 0 means that none is assigned yet.
    let (mut row_price, mut column_price) = (vec![0.0; parts + 1], vec![0.0; parts + 1]);
    let mut part_of = vec![0_usize; parts + 1];
    let mut before = vec![0_usize; parts + 1];
    for part in 1..=parts {
        part_of[0] = part;
        let mut column = 0;
        let mut slack = vec![f64::INFINITY; parts + 1];
        let mut is_used = vec![false; parts + 1];
        while part_of[column] != 0 {
            is_used[column] = true;
            let row = part_of[column];
            let (mut least, mut next) = (f64::INFINITY, 0);
            for name in 1..=parts {
                if is_used[name] {
                    continue;
                }
                let reduced = cost(row - 1, name - 1) - row_price[row] - column_price[name];
                if reduced < slack[name] {
                    (slack[name], before[name]) = (reduced, column);
                }
                if slack[name] < least {
                    (least, next) = (slack[name], name);
                }
            }
            for name in 0..=parts {
                if is_used[name] {
                    row_price[part_of[name]] += least;
                    column_price[name] -= least;
                } else {
                    slack[name] -= least;
                }
            }
            column = next;
        }
        while column != 0 {
            part_of[column] = part_of[before[column]];
            column = before[column];
        }
    }
    let mut names = vec![0; parts];
    for name in 1..=parts {
        names[part_of[name] - 1] = name as u32 - 1;
    }
    let is_allowed = |(part, &name): (usize, &u32)| kept[part][name as usize].is_some();
    if names.iter().enumerate().all(is_allowed) { names } else { own_names(parts) }
}

fn greedy(kept: &[Vec<Option<i64>>]) -> Vec<u32> {
    let parts = kept.len();
    let mut values: Vec<(i64, usize, usize)> = Vec::new();
    for (part, row) in kept.iter().enumerate() {
        let worth = row.iter().enumerate().filter_map(|(name, kept)| Some((name, (*kept)?)));
        values.extend(worth.filter(|(_, kept)| *kept > 0).map(|(name, k)| (k, part, name)));
    }
    values.sort_by_key(|&(kept, part, name)| (-kept, part, name));
    let mut names = own_names(parts);
    let mut part_of = names.clone();
    let mut is_settled = vec![false; parts];
    // The part that has `name` gets the name of `part` in exchange, so that `names` stays a
    // permutation.
    for (_, part, name) in values {
        let other = part_of[name] as usize;
        let given = names[part] as usize;
        if is_settled[part] || is_settled[other] || kept[other][given].is_none() {
            continue;
        }
        (names[part], names[other]) = (name as u32, given as u32);
        (part_of[name], part_of[given]) = (part as u32, other as u32);
        is_settled[part] = true;
    }
    names
}

fn own_names(parts: usize) -> Vec<u32> {
    (0..parts as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_method_keeps_the_greatest_total_weight() {
        // The first part has most of name 0, but giving it to the second keeps more.
        let kept = [[10, 9, 0], [8, 0, 0], [0, 0, 1]];
        let kept: Vec<Vec<_>> =
            kept.iter().map(|row| row.iter().map(|&k| Some(k)).collect()).collect();

        assert_eq!(exact(&kept), [1, 0, 2]);
        assert_eq!(greedy(&kept), [0, 1, 2]);
    }

    #[test]
    fn a_forbidden_name_is_never_given() {
        let kept = [vec![Some(0), None], vec![Some(100), Some(0)]];

        assert_eq!(exact(&kept), [0, 1]);
        assert_eq!(greedy(&kept), [0, 1]);
    }
}
