//! `egeria receive`: a tree from a stream.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;
use egeria_machine::{NamedPath, format_bytes};
use egeria_transfer::receive;
use serde::Serialize;

use super::send::failure;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::progress::Progress;

/// Arguments of `egeria receive`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria receive /srv/copy --from /backup/data.1
  egeria receive /srv/copy2 --base /srv/copy --from /backup/data.2
  egeria send /srv/data | egeria receive /mnt/other/data

Makes the directory, on a volume or any other file system, with all that the
stream has: names, data, links, owners (as root), times, extended attributes.
It appears when all was received and verified. After an error there is none; a
kill leaves what came so far next to it, in .egeria-receive-…: remove that. A
stream of what changed since another one needs --base, the directory that the
other one was received into. That stays as it is.")]
pub struct Arguments {
    /// The directory to make
    directory: PathBuf,
    /// Read the stream from this file, not from stdin
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The directory that the stream before was received into
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    directory: NamedPath,
    /// Of the stream.
    id: String,
    base: Option<String>,
    inodes: u64,
    data_bytes: u64,
    /// From the base.
    copied_bytes: u64,
    /// Owners, extended attributes and devices that cannot be had here.
    left_out: u64,
    /// Whether a stream of later changes can be received on top.
    can_be_base: bool,
}

/// Receives a tree.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let from: Box<dyn Read> = match &arguments.from {
        Some(path) => {
            let file = File::open(path);
            let hint = "name a stream that `egeria send` wrote";
            Box::new(file.map_err(|error| Failure::io("read", path, &error, hint))?)
        }
        None if io::stdin().is_terminal() => {
            return Err(Failure::Usage(
                "no stream comes from a terminal; name a file with --from, or pipe `egeria send` to it"
                    .to_owned(),
            ));
        }
        None => Box::new(io::stdin()),
    };
    let progress = Progress::bar("receiving");
    let received = receive(
        BufReader::new(from),
        &arguments.directory,
        arguments.base.as_deref(),
        &mut |inodes| progress.step(0, 0, &format!("received {inodes} inodes")),
    );
    let received = received.map_err(failure)?;
    let document = Document {
        directory: arguments.directory.clone().into(),
        id: received.id.to_string(),
        base: received.base.map(|id| id.to_string()),
        inodes: received.inodes,
        data_bytes: received.data_bytes,
        copied_bytes: received.copied_bytes,
        left_out: received.left_out,
        can_be_base: received.can_be_base,
    };
    format.print(&document, human)
}

fn human(document: &Document) -> String {
    let mut text = format!(
        "received {} inodes with {} of data into {}",
        document.inodes,
        format_bytes(document.data_bytes),
        document.directory
    );
    if document.base.is_some() {
        text += &format!(
            ", and {} from the base",
            format_bytes(document.copied_bytes)
        );
    }
    if document.left_out > 0 {
        text += &format!(
            "; {} owners, attributes or devices cannot be had there",
            document.left_out
        );
    }
    if !document.can_be_base {
        text += "; it can be no base: its file system has no user attributes";
    }
    text
}
