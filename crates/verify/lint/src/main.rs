//! Runs the checks; `make lint` does. Prints what is wrong, one line each, and fails if anything is.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use egeria_lint::modules::Exceptions;
use egeria_lint::skips::Skips;
use egeria_lint::{early_returns, layers, links, locks, modules, test_files, transcript, words};

/// Checks of this repository that no other tool makes.
#[derive(Parser)]
struct Arguments {
    /// Root of the source tree
    #[arg(long, default_value = ".")]
    root: PathBuf,
    #[command(subcommand)]
    check: Check,
}

#[derive(Subcommand)]
enum Check {
    /// Find modules of a crate that import each other
    Modules {
        /// Print a smallest set of exceptions for the cycles there are, instead of failing
        #[arg(long)]
        propose: bool,
    },
    /// Find crates and folders that depend on what is above them
    Layers,
    /// Find links and paths in documents that lead nowhere
    Links,
    /// Find files of tests that no test program has, long names of tests, and tests that return early unnoticed
    Tests,
    /// Count words that readers of other languages stumble over
    Words,
    /// Find where the Python package's lock file does not know the crates as they are
    Locks,
    /// Compare the output that a page shows of its commands with a log of them
    Transcript {
        /// The page, in Markdown
        page: PathBuf,
        /// What a shell printed: each command after `$ `, then its output
        log: PathBuf,
    },
    /// Count the tests that noted a skip in a file
    Skips {
        /// What tests and scripts noted ($EGERIA_SKIPS)
        file: PathBuf,
        /// Fail for what is not in this list
        #[arg(long)]
        known: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.check {
        Check::Modules { propose: true } => modules::propose(&arguments.root).map(|text| {
            print!("{text}");
            Vec::new()
        }),
        Check::Modules { propose: false } => check_modules(&arguments.root),
        Check::Layers => layers::check(&arguments.root),
        Check::Tests => check_tests(&arguments.root),
        Check::Skips { file, known } => count_skips(&file, known.as_deref()),
        Check::Transcript { page, log } => transcript::check(&page, &log),
        Check::Words => words::check(&arguments.root),
        Check::Locks => locks::check(&arguments.root),
        Check::Links => links::check(&arguments.root).map_err(|error| error.to_string()),
    };
    match outcome {
        Ok(wrong) if wrong.is_empty() => ExitCode::SUCCESS,
        Ok(wrong) => {
            wrong.iter().for_each(|line| eprintln!("{line}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("egeria-lint: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check_modules(root: &Path) -> Result<Vec<String>, String> {
    let exceptions = Exceptions::read(&root.join(modules::EXCEPTIONS))?;
    modules::check(root, &exceptions)
}

fn check_tests(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = test_files::check(root)?;
    wrong.extend(early_returns::check(root)?);
    Ok(wrong)
}

fn count_skips(file: &Path, known: Option<&Path>) -> Result<Vec<String>, String> {
    let skips = Skips::read(file)?;
    print!("{}", skips.summary());
    known.map_or(Ok(Vec::new()), |known| skips.unknown(known))
}
