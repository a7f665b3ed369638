//! The program that `egeria bench kill` kills; see `egeria_bench::kill`.

use std::process::ExitCode;

fn main() -> ExitCode {
    egeria_bench::kill::main()
}
