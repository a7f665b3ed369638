//! `egeria quota remove`: a directory tree without limits.

use std::path::PathBuf;

use clap::Args;
use egeria_machine::NamedPath;
use serde::Serialize;

use super::tree::{directory_at, refused};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria quota remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria quota remove /srv/data/home/alice
  egeria quota remove /srv/data/home/alice --json

Files stay as they are. The volume stays in use.")]
pub struct Arguments {
    /// A directory on a mount of Egeria that has limits
    directory: PathBuf,
}

#[derive(Serialize)]
struct Document {
    directory: NamedPath,
    ino: u64,
}

/// Removes the limits.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let (volume, identity) = directory_at(&arguments.directory)?;
    let removed = volume.remove_quota(identity.ino);
    removed.map_err(|error| refused(&arguments.directory, &error))?;
    volume.detach();
    let document = Document {
        directory: arguments.directory.clone().into(),
        ino: identity.ino.0,
    };
    format.print(&document, |document| {
        format!("{} has no limits any more", document.directory)
    })
}
