//! `egeria quota show`: limits of directory trees, and what they use.

use std::path::PathBuf;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions};
use serde::Serialize;

use super::tree::Row;
use crate::{control, session};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria quota show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria quota show /srv/data
  egeria quota show /mnt/pmem0/pool --json | jq '.trees[] | .used_bytes'

Shows all directories of the volume that have limits. Their paths begin at the
root of the volume.")]
pub struct Arguments {
    /// A pool of the volume, or a path on its mount
    #[arg(value_name = "POOL|PATH")]
    of: PathBuf,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    trees: Vec<Row>,
}

/// Shows the limits.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let pool = control::pool_of(&arguments.of)?;
    let volume = session::attach(&pool, AttachMode::ReadOnly, &AttachOptions::default())?;
    let quotas = volume.quotas();
    let mut trees: Vec<Row> = quotas.iter().map(|quota| Row::of(&volume, quota)).collect();
    trees.sort_by(|one, other| one.path().cmp(other.path()));
    let document = Document {
        volume: volume.uuid().to_string(),
        trees,
    };
    volume.detach();
    format.print(&document, human)
}

fn human(document: &Document) -> String {
    if document.trees.is_empty() {
        return "no directory has limits; `egeria quota set` sets some".to_owned();
    }
    let lines = document
        .trees
        .iter()
        .map(|row| format!("{}: {} used", row.directory, row.text()));
    lines.collect::<Vec<_>>().join("\n")
}
