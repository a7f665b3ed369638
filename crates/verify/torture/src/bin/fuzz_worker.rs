//! The program that `egeria-torture fuzz` starts to try cases; see `egeria_torture::fuzz`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// What an input makes the code under test allocate has an end.
#[global_allocator]
static HEAP: egeria_torture::fuzz::BoundedHeap = egeria_torture::fuzz::BoundedHeap;

fn main() -> ExitCode {
    egeria_torture::fuzz::main()
}
