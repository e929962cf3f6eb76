//! A search whose total does not implement `Merge`; it must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Board;

impl Search for Board {
    type Total = u64;

    fn visit(self, _cx: &mut SearchContext<'_, Self>) {}
}

fn main() {}
