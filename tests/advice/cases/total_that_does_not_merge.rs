//! Has a total of a search that does not implement `Merge`, and must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Board;

impl Search for Board {
    type Total = u64;

    fn visit(self, _cx: &mut SearchContext<'_, Self>) {}
}

fn main() {}
