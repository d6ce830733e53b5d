//! The `segno` command.
fn main() {}
