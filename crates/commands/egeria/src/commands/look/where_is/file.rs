//! One file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_machine::{Machine, NamedPath, NodeId, format_bytes};
use egeria_pages::file::{self, FilePages};
use egeria_pages::mount;
use egeria_pages::users::Used;
use serde::Serialize;

use super::look::{Look, unreachable_path};
use super::nodes::{self, Node, Store, User};
use super::volume;

#[derive(Serialize)]
struct Document {
    kind: &'static str,
    path: NamedPath,
    file_system: Option<String>,
    store: Store,
    size_bytes: u64,
    allocated_bytes: u64,
    /// In memory; of pools, allocated.
    held_bytes: u64,
    #[serde(skip)]
    is_told: bool,
    dirty_bytes: Option<u64>,
    /// Held, but the node is not known.
    unknown_bytes: u64,
    /// What nodes hold is extrapolated from a sample.
    sampled: bool,
    /// Nodes of the device below.
    device_nodes: Vec<NodeId>,
    nodes: Vec<Node>,
    users: Vec<User>,
    remote_percent: Option<f64>,
    remarks: Vec<String>,
}

/// Shows where a file lies.
pub(super) fn run(path: &Path, look: &Look, format: Format) -> Outcome {
    let failed = |error| unreachable_path(path, &error);
    let absolute = path.canonicalize().map_err(failed)?;
    let metadata = fs::metadata(&absolute).map_err(failed)?;
    let (pages, store, file_system) = match volume::of(path)? {
        Some((volume, inode)) => {
            let by_node = volume::bytes(&volume, inode);
            let pages = FilePages::known(file::Store::Dax, &metadata, by_node);
            (pages, Store::Pools, Some("egeria".to_owned()))
        }
        None => {
            let file = file::open(path).map_err(failed)?;
            let pages = file::look(&file, &mut look.locator(false)?).map_err(failed)?;
            let store = pages.store.into();
            (pages, store, mount::file_system(&file))
        }
    };
    let used = Used::File {
        path: absolute,
        device: metadata.dev(),
        inode: metadata.ino(),
    };
    let of_users = nodes::users(&used, &pages.by_node, look);
    let mut remarks: Vec<String> = pages.problem.iter().cloned().collect();
    remarks.extend(of_users.remarks);
    let document = Document {
        kind: "file",
        path: path.into(),
        file_system,
        store,
        size_bytes: pages.size_bytes,
        allocated_bytes: pages.allocated_bytes,
        held_bytes: pages.cached_bytes,
        is_told: pages.is_told,
        dirty_bytes: pages.dirty_bytes,
        unknown_bytes: pages.unknown_bytes,
        sampled: pages.sampled,
        device_nodes: pages.device_nodes,
        nodes: nodes::nodes(&look.machine, &pages.by_node, &of_users.threads),
        users: of_users.users,
        remote_percent: nodes::percent(of_users.threads.remote_share(&pages.by_node)),
        remarks,
    };
    format.print(&document, |document| human(document, &look.machine))
}

fn human(document: &Document, machine: &Machine) -> String {
    let held = if document.is_told {
        format_bytes(document.held_bytes)
    } else {
        "an unknown part".to_owned()
    };
    let mut text = format!(
        "{}: {}, {held} of them {}",
        document.path,
        format_bytes(document.size_bytes),
        document.store.words(),
    );
    if let Some(dirty) = document.dirty_bytes.filter(|dirty| *dirty > 0) {
        text += &format!(" ({} not written yet)", format_bytes(dirty));
    }
    if let Some(name) = &document.file_system {
        text += &format!("; {name}");
    }
    if !document.device_nodes.is_empty() {
        let nodes: Vec<String> = document
            .device_nodes
            .iter()
            .map(|node| node.0.to_string())
            .collect();
        text += &format!(" on a device at node {}", nodes.join(", "));
    }
    text += &format!("\n\n{}\n", nodes::node_table(&document.nodes));
    if document.sampled {
        text += "(of a sample of its pages; --exact locates all)\n";
    }
    if document.unknown_bytes > 0 {
        text += &format!(
            "{} more are held, their node is not known\n",
            format_bytes(document.unknown_bytes)
        );
    }
    text += &format!("\n{}\n\n", nodes::user_table(&document.users));
    text + &nodes::conclusion(machine, "it", document.remote_percent, &document.remarks)
}
