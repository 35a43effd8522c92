//! The `seeklab` command: one file per verb, no logic.

fn main() {}
