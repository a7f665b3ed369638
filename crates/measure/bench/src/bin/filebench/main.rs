//! `egeria-filebench`: the op loops of filebench's fileserver, webserver, webproxy and varmail
//! personalities (NThread Table III), with plain POSIX calls.
//!
//! filebench itself is not packaged. This program knows nothing of Egeria: it runs on any
//! directory, and with the preload library as any other program does.

#![forbid(unsafe_code)]

mod file_set;
mod gamma;
mod options;
mod personality;
mod run;

use std::process::ExitCode;

use options::{Action, Options};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&arguments).and_then(|options| perform(&options)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("egeria-filebench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prepares, runs, or both; what to print.
fn perform(options: &Options) -> Result<String, String> {
    if options.action == Action::Help {
        return Ok(options::USAGE.to_owned());
    }
    if options.action != Action::RunOnly {
        file_set::prepare(options)?;
    }
    if options.action == Action::PrepareOnly {
        return Ok(format!("{{\"files\":{}}}", options.files));
    }
    let outcome = run::run(options)?;
    serde_json::to_string(&outcome).map_err(|error| error.to_string())
}
