//! The measured program of `egeria-lab bench datapath`; see `egeria_bench::datapath`. It knows nothing
//! of Egeria: the preload library is loaded into it like into any other program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    egeria_bench::datapath::worker::main()
}
