//! `egeria quota set`: limit a directory tree.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use egeria_engine::QuotaLimits;

use super::tree::{Row, directory_at, refused};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::{progress, sizes};

/// Arguments of `egeria quota set`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria quota set /srv/data/home/alice --bytes 10GiB
  egeria quota set /srv/data/cache --bytes 1GiB --inodes 100000 --json

Counts what is in the directory and below it, and limits it from then on. The
volume stays in use. Limits that were set before are replaced: a limit that is
not given is removed. Bytes are blocks of 4 KiB, as `du` shows them; inodes are
files, directories, symbolic links and the like, with the directory itself. A
limit below what is used is allowed: nothing more fits until files are removed.
Names cannot be moved or linked into the directory or out of it: `mv` copies.")]
#[command(group(ArgGroup::new("limits").required(true).multiple(true).args(["bytes", "inodes"])))]
pub struct Arguments {
    /// A directory on a mount of Egeria
    directory: PathBuf,
    /// Most bytes of its files
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    bytes: Option<u64>,
    /// Most inodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    inodes: Option<u64>,
}

/// Sets the limits.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let (volume, identity) = directory_at(&arguments.directory)?;
    let limits = QuotaLimits {
        bytes: arguments.bytes,
        inodes: arguments.inodes,
    };
    let set = progress::spinning("counting", || volume.set_quota(identity.ino, limits));
    set.map_err(|error| refused(&arguments.directory, &error))?;
    let quota = volume.quota_of(identity.ino).ok_or_else(|| {
        Failure::new(format!(
            "the limits of {} were removed just now; set them again",
            arguments.directory.display()
        ))
    })?;
    let document = Row::of(&volume, &quota);
    volume.detach();
    format.print(&document, |row| {
        format!("{}: {} used", arguments.directory.display(), row.text())
    })
}
