//! Gives a strategy and a stealing policy by name, and must not compile.

use gridspan::prelude::*;

fn main() {
    let _ = Job::new("cells").strategy("refine").stealing("random");
}
