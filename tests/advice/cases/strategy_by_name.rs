//! Strategy by name, which must not compile.

use gridspan::prelude::*;

fn main() {
    let _ = Job::new("cells").strategy("refine").stealing("random");
}
