//! The measured program: reads requests from standard input, one JSON line each, and answers on standard output.
//!
//! ```text
//! egeria-names-worker DIRECTORY
//! egeria-names-worker print DIRECTORY [without-link-counts]
//! ```
//! It works in `DIRECTORY/d0` and `d1`, of each thread one, and calls libc as programs do. With `print` it only
//! lists what is in a tree, for [`crate::everyday`].

mod calls;
mod fresh;
mod timed;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::plan::Case;
use crate::programs::tree::{self, Look};
use crate::programs::worker;

/// What the worker is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Say that it runs.
    Hello,
    /// Make the directories, or fill them up.
    Fill {
        /// How many directories.
        directories: usize,
        /// Names in each afterwards.
        entries: usize,
    },
    /// Measure one case.
    Measure {
        case: Case,
        /// How long the timed calls shall take, ms.
        milliseconds: u64,
    },
    /// Make, rename and remove this many names in one new directory.
    Fresh { entries: usize },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Ready,
    /// Done and timed.
    Measured {
        /// Time in which one call of any thread is done, ns.
        ns: f64,
    },
    /// Time of one call of each of [`super::plan::FRESH`], ns.
    Fresh {
        ns: [f64; 3],
    },
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["print", root] => print(root.as_ref(), Look::Everything),
        ["print", root, "without-link-counts"] => print(root.as_ref(), Look::NoLinkCounts),
        [root] => worker::serve(|request| answer(root.as_ref(), request)),
        _ => {
            eprintln!("egeria-names-worker: started by hand; run `egeria-lab bench names` instead");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("egeria-names-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One line for everything in a tree.
fn print(root: &Path, look: Look) -> io::Result<()> {
    let mut text = tree::fingerprint(root, look, &[])?.join("\n");
    text.push('\n');
    io::stdout().lock().write_all(text.as_bytes())
}

fn answer(root: &Path, request: &Request) -> io::Result<Reply> {
    match request {
        Request::Hello => Ok(Reply::Ready),
        &Request::Fill {
            directories,
            entries,
        } => {
            for thread in 0..directories {
                calls::fill(&calls::directory(root, thread), entries)?;
            }
            Ok(Reply::Ready)
        }
        Request::Measure { case, milliseconds } => {
            let ns = timed::measure(root, case, *milliseconds)?;
            Ok(Reply::Measured { ns })
        }
        &Request::Fresh { entries } => Ok(Reply::Fresh {
            ns: fresh::measure(root, entries)?,
        }),
    }
}
