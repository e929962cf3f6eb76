//! gridctl
fn main() {}
