//! One process.

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format, printable};
use egeria_cli::progress;
use egeria_machine::{Machine, NodeId, format_bytes, format_cpu_list};
use egeria_pages::numa_maps::Memory;
use egeria_pages::threads::Threads;
use egeria_pages::{NodeBytes, file, process};
use egeria_proc::task;
use serde::Serialize;

use super::look::Look;
use super::memory::{mapped_files, unseen};
use super::nodes::{self, FileOfMany};

/// Open files that are looked at.
const MAX_OPEN_FILES: usize = 4096;
/// Files that documents list, of each kind.
const LISTED_FILES: usize = 100;
/// Of them, shown to people.
const SHOWN_FILES: usize = 5;

#[derive(Serialize)]
struct Document {
    kind: &'static str,
    process_id: u32,
    name: String,
    threads: u64,
    nodes: Vec<Node>,
    /// Of `anonymous_bytes` and `mapped_bytes`, huge pages of hugetlbfs.
    huge_bytes: u64,
    /// Files it has mapped, those with most first.
    mapped: Vec<FileOfMany>,
    /// Files it has open, with what the page cache holds of them.
    open: Vec<FileOfMany>,
    /// Share of remote accesses to its memory, per cent, if each thread accesses all of it alike.
    remote_percent: Option<f64>,
    /// Share of remote accesses to its open files, per cent, if each thread accesses all of them alike.
    open_remote_percent: Option<f64>,
    remarks: Vec<String>,
}

#[derive(Serialize)]
struct Node {
    node: NodeId,
    cpus: String,
    anonymous_bytes: u64,
    mapped_bytes: u64,
    /// In the page cache, of files it has open.
    open_bytes: u64,
    threads: u64,
    busy_ns: u64,
}

/// Shows where the memory, the files and the threads of a process are.
pub(super) fn run(number: &str, look: &Look, format: Format) -> Outcome {
    let process_id: Option<u32> = number.parse().ok().filter(|id| *id != 0);
    let process_id = process_id.filter(|id| task::began(*id).is_some());
    let Some(process_id) = process_id else {
        return Err(Failure::new(format!(
            "there is no process {number}; check with `ps`, or write ./{number} for a file of that name"
        )));
    };
    let failed = |error| unseen(process_id, &error);
    let memory = progress::spinning("looking at its memory", || process::memory(process_id));
    let memory = memory.map_err(failed)?;
    let mut remarks = Vec::new();
    let (open, open_bytes) = progress::spinning("looking at its files", || {
        open_files(process_id, look, &mut remarks)
    })?;
    let mut observed = nodes::observe(&[process_id], look);
    let threads = observed.pop().unwrap_or_default();
    if threads.by_node.is_empty() {
        return Err(Failure::new(format!(
            "process {process_id} ended while it was looked at; look at one that lives"
        )));
    }
    remarks.extend(nodes::uncounted(&threads));
    let document = Document {
        kind: "process",
        process_id,
        name: task::name(process_id, process_id),
        threads: threads.count,
        nodes: nodes_of(&look.machine, &memory, &open_bytes, &threads),
        huge_bytes: memory.huge_bytes,
        mapped: mapped_files(&memory, LISTED_FILES),
        open,
        remote_percent: nodes::percent(threads.remote_share(&memory.by_node())),
        open_remote_percent: nodes::percent(threads.remote_share(&open_bytes)),
        remarks,
    };
    format.print(&document, |document| human(document, &look.machine))
}

/// What the page cache holds of open files, those with most first.
fn open_files(
    process_id: u32,
    look: &Look,
    remarks: &mut Vec<String>,
) -> Outcome<(Vec<FileOfMany>, NodeBytes)> {
    let open = process::open_files(process_id, MAX_OPEN_FILES);
    let open = open.map_err(|error| unseen(process_id, &error))?;
    if open.len() == MAX_OPEN_FILES {
        remarks.push(format!("only {MAX_OPEN_FILES} open files were looked at"));
    }
    let mut locator = look.locator(true)?;
    let mut by_node = NodeBytes::default();
    let (mut files, mut problem) = (Vec::new(), None);
    for open in open {
        let looked = open
            .borrow()
            .and_then(|file| file::look(&file, &mut locator));
        let pages = match looked {
            Ok(pages) => pages,
            Err(error) => {
                problem = problem.or(untold(&error));
                continue;
            }
        };
        problem = problem.or(pages.problem);
        by_node.add_all(&pages.by_node);
        if pages.cached_bytes > 0 {
            files.push(FileOfMany {
                path: open.path.into(),
                store: pages.store.into(),
                bytes: pages.cached_bytes,
                nodes: nodes::bytes_of_nodes(&pages.by_node),
            });
        }
    }
    remarks.extend(problem.map(|problem| format!("of its open files not all is known: {problem}")));
    files.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.path.cmp(&other.path)));
    files.truncate(LISTED_FILES);
    Ok((files, by_node))
}

/// Why nothing of an open file is known, where the remedy is the user's.
fn untold(error: &std::io::Error) -> Option<String> {
    let cause = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "this process may not trace it; run as root",
        Some(libc::ENOSYS) => "the kernel is older than Linux 5.6",
        _ => return None,
    };
    Some(cause.to_owned())
}

fn nodes_of(machine: &Machine, memory: &Memory, open: &NodeBytes, threads: &Threads) -> Vec<Node> {
    let mut all = memory.by_node();
    all.add_all(open);
    let nodes = nodes::nodes(machine, &all, threads).into_iter();
    let node = nodes.map(|node| Node {
        node: node.node,
        cpus: machine
            .node(node.node)
            .map_or(String::new(), |node| format_cpu_list(&node.cpus)),
        anonymous_bytes: memory.anonymous.of(node.node),
        mapped_bytes: memory.files.of(node.node),
        open_bytes: open.of(node.node),
        threads: node.threads,
        busy_ns: node.busy_ns,
    });
    node.collect()
}

fn human(document: &Document, machine: &Machine) -> String {
    let rows = document.nodes.iter().map(|node| {
        vec![
            node.node.0.to_string(),
            match node.cpus.as_str() {
                "" => "none".to_owned(),
                cpus => cpus.to_owned(),
            },
            format_bytes(node.anonymous_bytes),
            format_bytes(node.mapped_bytes),
            format_bytes(node.open_bytes),
            node.threads.to_string(),
            format!("{:.0}", node.busy_ns as f64 / 1e6),
        ]
    });
    let headers = [
        ">node",
        ">CPUs",
        ">anonymous",
        ">mapped files",
        ">open files, cached",
        ">threads",
        ">ran, ms",
    ];
    let mut text = format!(
        "process {} ({}), threads: {}\n\n{}\n",
        document.process_id,
        printable(&document.name),
        document.threads,
        output::table(&headers, rows.collect())
    );
    if document.huge_bytes > 0 {
        text += &format!(
            "{} of that are huge pages\n",
            format_bytes(document.huge_bytes)
        );
    }
    for (what, files) in [
        ("mapped", &document.mapped),
        ("open, in the page cache", &document.open),
    ] {
        if !files.is_empty() {
            text += &format!("\n{what}:\n{}\n", nodes::file_table(files, SHOWN_FILES));
        }
    }
    text += "\n";
    if let Some(percent) = document
        .open_remote_percent
        .filter(|_| machine.nodes.len() > 1)
    {
        text += &format!(
            "{percent:.0} % of what is cached of its open files is remote to its threads.\n"
        );
    }
    text + &nodes::conclusion(
        machine,
        "its memory",
        document.remote_percent,
        &document.remarks,
    )
}
