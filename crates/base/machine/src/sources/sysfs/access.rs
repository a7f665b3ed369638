//! Bandwidth and latency from the firmware's HMAT: `node*/access{0,1}/initiators`.
//!
//! Class 1 is for the nearest CPUs, class 0 for the nearest initiators of any kind (on kernels
//! before class 1, CPUs). The kernel shows whole MB/s and ns, and 0 for what it does not know.

use std::path::Path;

use super::tree::Tree;
use crate::{AccessClass, NodeId, check};

const BYTES_PER_MB: f64 = 1e6;

/// The speed of a node's memory, if firmware tells.
pub(super) fn read(tree: &mut Tree<'_>, node_directory: &Path) -> Option<AccessClass> {
    ["access1", "access0"].iter().find_map(|class| {
        let directory = node_directory.join(class).join("initiators");
        directory.is_dir().then(|| read_class(tree, &directory))?
    })
}

fn read_class(tree: &mut Tree<'_>, directory: &Path) -> Option<AccessClass> {
    let mut value = |name: &str| {
        let number = tree.extra_number(&directory.join(name))?;
        (number != 0).then_some(number as f64)
    };
    let read_bytes_s = value("read_bandwidth")? * BYTES_PER_MB;
    let write_bytes_s = value("write_bandwidth")? * BYTES_PER_MB;
    let read_latency_ns = value("read_latency")?;
    let write_latency_ns = value("write_latency")?;
    let initiators = tree.numbered(directory, "node");
    let initiators = initiators
        .into_iter()
        .map(|(number, _)| NodeId(number))
        .collect();
    let class = AccessClass {
        read_bytes_s,
        write_bytes_s,
        read_latency_ns,
        write_latency_ns,
        initiators,
    };
    match check::access_class("HMAT", &class) {
        Ok(()) => Some(class),
        Err(fault) => {
            tree.warn(
                directory,
                format_args!("{}: {}; it is ignored", fault.key, fault.problem),
            );
            None
        }
    }
}
