//! Expands Slurm's numbers per node, such as `2(x3),1`.

/// Returns a number for each node, in the order of the node list. `None` if the text has another
/// form, has a 0, or is about more than `limit` nodes.
pub(super) fn expand(text: &str, limit: usize) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, positive(times.strip_suffix(')')?)?),
            None => (part, 1),
        };
        if times as usize > limit - numbers.len() {
            return None;
        }
        numbers.extend(std::iter::repeat_n(positive(number)?, times as usize));
    }
    Some(numbers)
}

/// Reads a positive number.
pub(super) fn positive(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_plain && number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_numbers_are_expanded() {
        assert_eq!(expand("2(x3),1", 9), Some(vec![2, 2, 2, 1]));
        assert_eq!(expand("72", 9), Some(vec![72]));
        assert_eq!(expand("1,2(x2),1", 9), Some(vec![1, 2, 2, 1]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", ",", "2,", "0", "a", "-1", "+1", "2(x)", "2(x0)", "2(x2", "2(y2)", "2 (x2)", "2x2"]
        {
            assert_eq!(expand(text, 9), None, "{text:?}");
        }
        assert_eq!(expand("4294967296", 9), None, "more than a number holds");
    }

    #[test]
    fn there_are_no_more_numbers_than_nodes() {
        assert_eq!(expand("1(x4000000000)", 9), None);
        assert_eq!(expand("1(x5),2(x5)", 9), None);
        assert_eq!(expand("1(x5),2(x4)", 9).map(|numbers| numbers.len()), Some(9));
    }
}
