//! `egeria stat`: which node holds which part of a file.

use std::path::PathBuf;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, ExtentReport, FileKind, FileLayout, Volume};
use egeria_machine::{NamedPath, format_bytes};
use egeria_media::BLOCK_BYTES;
use serde::Serialize;

use crate::control::{self, Identity};
use crate::session::{self, PoolLabel};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

/// Most extents shown to people unless they ask for all.
const SHOWN_EXTENTS: usize = 20;

/// Arguments of `egeria stat`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria stat /mnt/file
  egeria stat --json /mnt/file | jq '.nodes[] | [.node, .bytes]'")]
pub struct Arguments {
    /// A file or directory on a mount of Egeria
    path: PathBuf,
    /// Show every extent, however many there are
    #[arg(long)]
    extents: bool,
}

#[derive(Serialize)]
struct Document {
    path: NamedPath,
    volume: String,
    ino: u64,
    kind: &'static str,
    size_bytes: u64,
    allocated_bytes: u64,
    /// `local` or `striped:BYTES`, where one was given.
    layout: Option<String>,
    nodes: Vec<NodeShare>,
    extents: Vec<Extent>,
}

#[derive(Serialize)]
struct NodeShare {
    #[serde(flatten)]
    label: PoolLabel,
    bytes: u64,
    extents: usize,
}

#[derive(Serialize)]
struct Extent {
    offset_bytes: u64,
    length_bytes: u64,
    node: u16,
    pool: u8,
    block: u64,
    unwritten: bool,
}

/// Shows where the file lies.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let identity = control::identify(&arguments.path)?;
    let volume = session::attach(
        &identity.pool,
        AttachMode::ReadOnly,
        &AttachOptions::default(),
    )?;
    if volume.uuid() != identity.volume {
        return Err(Failure::new(format!(
            "{} now holds another volume than the one mounted; unmount and mount again",
            identity.pool.display()
        )));
    }
    let document = document_of(arguments, &identity, &volume)?;
    let all = arguments.extents;
    format.print(&document, |document| human(document, all))
}

fn document_of(arguments: &Arguments, identity: &Identity, volume: &Volume) -> Outcome<Document> {
    let failed = |error| {
        Failure::new(format!(
            "cannot examine {}: {error}; run `egeria check`",
            arguments.path.display()
        ))
    };
    let attributes = volume.attributes(identity.ino).map_err(failed)?;
    let extents = match identity.kind {
        FileKind::Regular => volume.extents(identity.ino).map_err(failed)?,
        _ => Vec::new(),
    };
    Ok(Document {
        path: arguments.path.clone().into(),
        volume: identity.volume.to_string(),
        ino: identity.ino.0,
        kind: kind_name(identity.kind),
        size_bytes: attributes.size_bytes,
        allocated_bytes: attributes.blocks.saturating_mul(BLOCK_BYTES),
        layout: layout_name(volume.layout(identity.ino).map_err(failed)?),
        nodes: shares(session::pool_labels(volume), &extents),
        extents: extents.iter().map(Extent::of).collect(),
    })
}

impl Extent {
    fn of(extent: &ExtentReport) -> Extent {
        Extent {
            offset_bytes: extent.file_offset_bytes,
            length_bytes: extent.length_bytes,
            node: extent.node,
            pool: extent.pool,
            block: extent.block,
            unwritten: extent.unwritten,
        }
    }
}

/// What each pool holds of the file, also when that is nothing.
fn shares(pools: Vec<PoolLabel>, extents: &[ExtentReport]) -> Vec<NodeShare> {
    let share = |label: PoolLabel| {
        let here = || {
            extents
                .iter()
                .filter(|extent| usize::from(extent.pool) == label.pool)
        };
        NodeShare {
            bytes: here().map(|extent| extent.length_bytes).sum(),
            extents: here().count(),
            label,
        }
    };
    pools.into_iter().map(share).collect()
}

/// As the attribute says it.
fn layout_name(layout: FileLayout) -> Option<String> {
    match layout {
        FileLayout::Unset => None,
        FileLayout::Local => Some("local".to_owned()),
        FileLayout::Striped { stripe_bytes } => Some(format!("striped:{stripe_bytes}")),
    }
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

fn human(document: &Document, all: bool) -> String {
    let layout = document.layout.iter();
    let layout: String = layout.map(|layout| format!(", {layout}")).collect();
    let mut text = format!(
        "{}: {}, {} ({} allocated){layout}, inode {} of volume {}\n",
        document.path,
        document.kind,
        format_bytes(document.size_bytes),
        format_bytes(document.allocated_bytes),
        document.ino,
        document.volume
    );
    text.push_str(&share_table(&document.nodes));
    let shown = if all {
        document.extents.len()
    } else {
        SHOWN_EXTENTS.min(document.extents.len())
    };
    if shown > 0 {
        text.push_str(&format!("\n{}", extent_table(&document.extents[..shown])));
    }
    if shown < document.extents.len() {
        text.push_str(&format!(
            "\n… {} more: --extents shows all",
            document.extents.len() - shown
        ));
    }
    text
}

fn share_table(nodes: &[NodeShare]) -> String {
    let total = nodes.iter().map(|node| node.bytes).sum::<u64>().max(1);
    let rows = nodes.iter().map(|node| {
        vec![
            node.label.node.to_string(),
            format_bytes(node.bytes),
            format!("{:.0}", 100.0 * node.bytes as f64 / total as f64),
            node.extents.to_string(),
            node.label.path.to_string(),
        ]
    });
    output::table(
        &[">node", ">held", ">%", ">extents", "pool"],
        rows.collect(),
    )
}

fn extent_table(extents: &[Extent]) -> String {
    let rows = extents.iter().map(|extent| {
        vec![
            extent.offset_bytes.to_string(),
            extent.length_bytes.to_string(),
            extent.node.to_string(),
            extent.block.to_string(),
            if extent.unwritten { "unwritten" } else { "" }.to_owned(),
        ]
    });
    output::table(
        &[">offset", ">bytes", ">node", ">block", ""],
        rows.collect(),
    )
}
