//! `egeria send`: a tree as it is at one instant, as a stream.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, InodeNumber, Volume};
use egeria_machine::format_bytes;
use egeria_transfer::{Known, Sent, TransferError, read_manifest, send, write_manifest};
use serde::Serialize;
use uuid::Uuid;

use super::quota::tree::directory_at;
use crate::commands::whole_file::WholeFile;
use crate::{owner, session};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{Format, remark};
use egeria_cli::progress::Progress;

/// Arguments of `egeria send`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria send /srv/data --to /backup/data.1 --manifest /backup/data.m1
  egeria send /srv/data --since /backup/data.m1 --to /backup/data.2
  egeria send /srv/data/db | ssh other egeria receive /srv/copy

Sends the directory, or all of a volume, as it is at the instant it begins.
Programs go on. What they replace stays on the volume until the end. If they
run out of space before, sending fails, and they go on.
The manifest says what was sent. With --since, only blocks that changed since
are sent; names and attributes are always sent.
Without --to the stream goes to stdout, and the summary to stderr.")]
pub struct Arguments {
    /// A directory on a mount of Egeria, or a pool: all of its volume
    of: PathBuf,
    /// Write the stream to this file
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Write what a later --since needs to this file
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Leave out data that has not changed since this manifest
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    /// Of the stream.
    id: String,
    /// Of the stream that this one needs; `null`: none.
    base: Option<String>,
    volume: String,
    inodes: u64,
    /// Files of which the base has all data.
    unchanged: u64,
    data_bytes: u64,
    stream_bytes: u64,
}

/// Sends a tree.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let is_json = matches!(format, Format::Json);
    if arguments.to.is_none() && is_json {
        return Err(Failure::Usage(
            "--json needs --to: the stream goes to stdout; name a file for it".to_owned(),
        ));
    }
    if arguments.to.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "the stream is no text; name a file with --to, or pipe it to `egeria receive`"
                .to_owned(),
        ));
    }
    let base = arguments.since.as_deref().map(known_of).transpose()?;
    let manifest = arguments.manifest.as_deref();
    let manifest = manifest.map(WholeFile::open_private).transpose()?;
    let to = arguments.to.as_deref();
    let to = to.map(WholeFile::open_private).transpose()?;
    let (volume, top) = source_of(&arguments.of)?;
    let sent = match to {
        Some(mut file) => {
            let sent = send_from(&volume, top, base, BufWriter::new(file.file()))?;
            file.keep()?;
            sent
        }
        None => send_from(&volume, top, base, io::stdout().lock())?,
    };
    if let Some(mut file) = manifest {
        write_manifest(&sent, BufWriter::new(file.file())).map_err(failure)?;
        file.keep()?;
    }
    let document = Document {
        id: sent.id.to_string(),
        base: sent.base.map(|id| id.to_string()),
        volume: volume.uuid().to_string(),
        inodes: sent.inodes,
        unchanged: sent.unchanged,
        data_bytes: sent.data_bytes,
        stream_bytes: sent.stream_bytes,
    };
    volume.detach();
    if arguments.to.is_none() {
        remark(&human(&document));
        return Ok(());
    }
    format.print(&document, human)
}

fn send_from(
    volume: &Arc<Volume>,
    top: InodeNumber,
    base: Option<(Uuid, Vec<Known>)>,
    to: impl Write,
) -> Outcome<Sent> {
    let space = volume.space(None);
    let all = space.inodes - space.free_inodes;
    let progress = Progress::bar("sending");
    let snapshot = volume.snapshot()?;
    let sent = send(&snapshot, top, base, to, &mut |inodes| {
        progress.advance(inodes, all);
    });
    sent.map_err(failure)
}

/// The volume, and the directory in it.
fn source_of(path: &Path) -> Outcome<(Arc<Volume>, InodeNumber)> {
    if path.is_dir() {
        let (volume, identity) = directory_at(path)?;
        return Ok((volume, identity.ino));
    }
    owner::run_as_owner(path)?;
    let options = AttachOptions::default();
    let volume = session::attach(path, AttachMode::CreateOrJoin, &options)?;
    Ok((volume, InodeNumber::ROOT))
}

fn known_of(path: &Path) -> Outcome<(Uuid, Vec<Known>)> {
    let hint = "name a manifest that `egeria send` wrote";
    let file = File::open(path).map_err(|error| Failure::io("read", path, &error, hint))?;
    read_manifest(BufReader::new(file)).map_err(|error| {
        let what = match error {
            TransferError::Read(error) => error.to_string(),
            _ => "it is damaged, or no manifest".to_owned(),
        };
        Failure::new(format!("{}: {what}; {hint}", path.display()))
    })
}

/// A reader that closes the pipe ends it without a message.
pub(super) fn failure(error: TransferError) -> Failure {
    match error {
        TransferError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Failure::BrokenPipe
        }
        error => Failure::new(error),
    }
}

fn human(document: &Document) -> String {
    let unchanged = match document.base {
        Some(_) => format!(", {} files unchanged", document.unchanged),
        None => String::new(),
    };
    format!(
        "sent {} inodes with {} of data{unchanged}: stream {} of {}",
        document.inodes,
        format_bytes(document.data_bytes),
        document.id,
        format_bytes(document.stream_bytes)
    )
}
