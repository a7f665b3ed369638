//! `egeria where`: which nodes hold a file, a directory or a process, and which threads use it from where.

mod directory;
mod file;
mod look;
pub(in crate::commands) mod memory;
pub(in crate::commands::look) mod nodes;
mod process;
mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use egeria_machine::Machine;

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use look::{Look, unreachable_path};

/// Arguments of `egeria where`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria where /var/lib/postgresql/15/main
  egeria where /srv/data.db
  sudo egeria where 4711
  egeria where --json /srv/data.db | jq '.nodes[] | [.node, .bytes]'

It only looks: nothing is read into the page cache, moved or counted as used.
What is remote is what threads would access on other nodes if they accessed all
of it alike, weighed by how long they ran in --observe. As root it also sees
programs and files of others.")]
pub struct Arguments {
    /// A file or directory on any file system, or a process id (a file named so: ./4711)
    #[arg(value_name = "FILE|DIR|PID")]
    of: PathBuf,
    /// How long threads are observed, ms
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    observe: u64,
    /// Locate every page, however long that takes, instead of samples of what is large
    #[arg(long)]
    exact: bool,
}

/// Pages that are located before files are sampled: 4 GiB, in less than a second.
const SAMPLED_ABOVE_PAGES: u64 = 1 << 20;

/// Shows where it is.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let look = Look {
        machine: Machine::detect()?,
        observe: Duration::from_millis(arguments.observe),
        budget: if arguments.exact {
            u64::MAX
        } else {
            SAMPLED_ABOVE_PAGES
        },
    };
    let name = arguments.of.to_str();
    let process =
        name.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(process) = process {
        return process::run(process, &look, format);
    }
    match kind(&arguments.of)? {
        Kind::File => file::run(&arguments.of, &look, format),
        Kind::Directory => directory::run(&arguments.of, &look, format),
    }
}

enum Kind {
    File,
    Directory,
}

fn kind(path: &Path) -> Outcome<Kind> {
    let metadata = fs::metadata(path).map_err(|error| unreachable_path(path, &error))?;
    match metadata.file_type() {
        kind if kind.is_file() => Ok(Kind::File),
        kind if kind.is_dir() => Ok(Kind::Directory),
        _ => Err(Failure::new(format!(
            "{} is neither a file nor a directory, and has no pages; name a file, a directory or a process id",
            path.display()
        ))),
    }
}
