//! The program that `egeria-torture kill` kills; see `egeria_torture::kill`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    egeria_torture::kill::main()
}
