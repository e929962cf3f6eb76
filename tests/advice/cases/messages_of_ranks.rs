//! Must not compile: sends texts as elements, and names an operation by a text.

use gridspan::prelude::*;
use gridspan::ranks::{self, Comm};

fn main() -> ExitCode {
    gridspan::main(ranks::run(2, async |world: Comm| {
        world.send(&["text".to_owned()], 1, 0).await?;
        world.allreduce(&[1.5_f64], "sum").await?;
        Ok(())
    }))
}
