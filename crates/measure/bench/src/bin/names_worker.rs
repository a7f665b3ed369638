//! The measured program of `egeria-lab bench names`; see `egeria_bench::names`. It knows nothing of Egeria: the preload
//! library is loaded into it like into any other program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    egeria_bench::names::worker::main()
}
