//! The program that `egeria bench fuzz` starts to try cases; see `egeria_bench::fuzz`.

use std::process::ExitCode;

/// What an input makes the code under test allocate has an end.
#[global_allocator]
static HEAP: egeria_bench::fuzz::BoundedHeap = egeria_bench::fuzz::BoundedHeap;

fn main() -> ExitCode {
    egeria_bench::fuzz::main()
}
