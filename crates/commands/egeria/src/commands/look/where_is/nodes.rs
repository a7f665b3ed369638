//! Nodes and users as all documents show them.

use egeria_cli::output::{self, printable};
use egeria_machine::{Machine, NamedPath, NodeId, format_bytes, format_cpu_list};
use egeria_pages::threads::{self, Threads};
use egeria_pages::users::{self, Used};
use egeria_pages::{NodeBytes, file};
use egeria_proc::task;
use serde::Serialize;

use super::look::Look;
use crate::commands::one_node;
use crate::owner;

/// Users shown to people.
const SHOWN_USERS: usize = 10;

/// One node.
#[derive(Serialize)]
pub(super) struct Node {
    pub(super) node: NodeId,
    /// As the kernel lists CPUs; empty where there are none.
    pub(super) cpus: String,
    pub(super) bytes: u64,
    /// Threads of users that ran here last.
    pub(super) threads: u64,
    /// How long they ran while observed.
    pub(super) busy_ns: u64,
}

/// A process that uses it.
#[derive(Serialize)]
pub(super) struct User {
    pub(super) process_id: u32,
    pub(super) name: String,
    /// Open descriptors.
    pub(super) open: u64,
    pub(super) mapped: u64,
    pub(super) threads: Vec<ThreadsOfNode>,
    /// Of all accesses, if its threads access all of it alike.
    pub(super) remote_percent: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct ThreadsOfNode {
    pub(super) node: NodeId,
    pub(super) threads: u64,
    pub(super) busy_ns: u64,
}

/// Users of something, their threads, and remarks.
pub(super) struct Use {
    pub(super) users: Vec<User>,
    pub(super) threads: Threads,
    pub(super) remarks: Vec<String>,
}

/// Nodes of the machine, and others that hold something.
pub(super) fn nodes(machine: &Machine, bytes: &NodeBytes, threads: &Threads) -> Vec<Node> {
    let mut ids: Vec<NodeId> = machine.nodes.iter().map(|node| node.id).collect();
    ids.extend(bytes.iter().map(|(node, _)| node));
    ids.sort_unstable();
    ids.dedup();
    let node = |id| {
        let on = threads.by_node.get(&id).copied().unwrap_or_default();
        let cpus = machine.node(id).map(|node| format_cpu_list(&node.cpus));
        Node {
            node: id,
            cpus: cpus.unwrap_or_default(),
            bytes: bytes.of(id),
            threads: on.threads,
            busy_ns: on.busy_ns,
        }
    };
    ids.into_iter().map(node).collect()
}

/// Looks for users, and observes their threads.
pub(super) fn users(used: &Used, bytes: &NodeBytes, look: &Look) -> Use {
    let found = users::of(used);
    let processes: Vec<u32> = found.found.iter().map(|user| user.process_id).collect();
    let threads = observe(&processes, look);
    let mut all = Threads::default();
    let mut users = Vec::new();
    for (user, threads) in found.found.into_iter().zip(threads) {
        all.add(&threads);
        users.push(User {
            process_id: user.process_id,
            name: task::name(user.process_id, user.process_id),
            open: user.open,
            mapped: user.mapped,
            remote_percent: percent(threads.remote_share(bytes)),
            threads: by_node(&threads),
        });
    }
    users.sort_by_key(|user| {
        let busy_ns: u64 = user.threads.iter().map(|on| on.busy_ns).sum();
        (std::cmp::Reverse(busy_ns), user.process_id)
    });
    let mut remarks = Vec::new();
    if found.hidden > 0 {
        let why = if owner::is_root() {
            "not even by root"
        } else {
            "run as root to see them"
        };
        let hidden = found.hidden;
        remarks.push(format!(
            "processes that may not be looked at: {hidden} ({why})"
        ));
    }
    if found.is_cut {
        remarks.push(
            "there are too many open files to look at all: there may be more users".to_owned(),
        );
    }
    remarks.extend(uncounted(&all));
    Use {
        users,
        threads: all,
        remarks,
    }
}

/// Threads of processes, observed.
pub(super) fn observe(processes: &[u32], look: &Look) -> Vec<Threads> {
    let begun = threads::Look::begin(processes);
    if !processes.is_empty() {
        std::thread::sleep(look.observe);
    }
    begun.end(&look.machine)
}

/// A remark when there were too many threads.
pub(super) fn uncounted(threads: &Threads) -> Option<String> {
    let looked_at: u64 = threads.by_node.values().map(|on| on.threads).sum();
    let is_cut = threads.count > threads::MAX_LOOKED_AT as u64;
    is_cut.then(|| format!("of {} threads, {looked_at} were observed", threads.count))
}

pub(super) fn by_node(threads: &Threads) -> Vec<ThreadsOfNode> {
    let all = threads.by_node.iter();
    let on = all.map(|(node, on)| ThreadsOfNode {
        node: *node,
        threads: on.threads,
        busy_ns: on.busy_ns,
    });
    on.collect()
}

/// A share as percent, with one digit behind the point.
pub(in crate::commands::look) fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| (share * 1000.0).round() / 10.0)
}

pub(super) fn node_table(nodes: &[Node]) -> String {
    let total = nodes
        .iter()
        .map(|node| node.bytes)
        .fold(0, u64::saturating_add);
    let rows = nodes.iter().map(|node| {
        vec![
            node.node.0.to_string(),
            match node.cpus.as_str() {
                "" => "none".to_owned(),
                cpus => cpus.to_owned(),
            },
            format_bytes(node.bytes),
            part(node.bytes, total),
            node.threads.to_string(),
            milliseconds(node.busy_ns),
        ]
    });
    output::table(
        &[">node", ">CPUs", ">held", ">%", ">threads", ">ran, ms"],
        rows.collect(),
    )
}

/// Percent without digits behind the point; nothing of nothing.
pub(in crate::commands::look) fn part(bytes: u64, total: u64) -> String {
    match total {
        0 => String::new(),
        _ => format!("{:.0}", 100.0 * bytes as f64 / total as f64),
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.0}", ns as f64 / 1e6)
}

pub(super) fn user_table(users: &[User]) -> String {
    if users.is_empty() {
        return "no process that may be looked at has it open or mapped".to_owned();
    }
    let on_nodes = |user: &User| {
        let on = user
            .threads
            .iter()
            .map(|on| format!("{} on node {}", on.threads, on.node.0));
        on.collect::<Vec<String>>().join(", ")
    };
    let rows = users.iter().take(SHOWN_USERS).map(|user| {
        vec![
            user.process_id.to_string(),
            printable(&user.name),
            user.open.to_string(),
            user.mapped.to_string(),
            on_nodes(user),
            user.remote_percent
                .map_or(String::new(), |percent| format!("{percent:.0}")),
        ]
    });
    let mut text = output::table(
        &[
            ">process",
            "name",
            ">open",
            ">mapped",
            "threads",
            ">remote %",
        ],
        rows.collect(),
    );
    if users.len() > SHOWN_USERS {
        text += &format!("\n… {} more: --json lists all", users.len() - SHOWN_USERS);
    }
    text
}

/// What people read last.
pub(super) fn conclusion(
    machine: &Machine,
    what: &str,
    remote_percent: Option<f64>,
    remarks: &[String],
) -> String {
    let mut text = match (remote_percent, one_node::line(machine)) {
        (_, Some(line)) => line.to_owned(),
        (Some(percent), None) => {
            format!("{percent:.0} % of {what} is remote to the threads that use it.")
        }
        (None, None) => format!(
            "How much of {what} is remote cannot be said: no thread was seen that uses it, or nothing of it is in memory."
        ),
    };
    for remark in remarks {
        text += &format!("\nnote: {}", printable(remark));
    }
    text
}

/// What a file lies in, as documents name it.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Store {
    PageCache,
    Tmpfs,
    Hugetlbfs,
    Dax,
    /// Pools of a volume.
    Pools,
}

impl From<file::Store> for Store {
    fn from(store: file::Store) -> Store {
        match store {
            file::Store::PageCache => Store::PageCache,
            file::Store::Tmpfs => Store::Tmpfs,
            file::Store::Hugetlbfs => Store::Hugetlbfs,
            file::Store::Dax => Store::Dax,
        }
    }
}

impl Store {
    /// What bytes are there.
    pub(super) fn words(self) -> &'static str {
        match self {
            Store::PageCache => "in the page cache",
            Store::Tmpfs => "in memory (tmpfs)",
            Store::Hugetlbfs => "in huge pages",
            Store::Dax => "on memory that is mapped directly (DAX)",
            Store::Pools => "in the pools of its volume",
        }
    }
}

/// A file of many.
#[derive(Serialize)]
pub(super) struct FileOfMany {
    pub(super) path: NamedPath,
    pub(super) store: Store,
    pub(super) bytes: u64,
    pub(super) nodes: Vec<BytesOfNode>,
}

#[derive(Clone, Serialize)]
pub(in crate::commands::look) struct BytesOfNode {
    pub(in crate::commands::look) node: NodeId,
    pub(in crate::commands::look) bytes: u64,
}

pub(in crate::commands::look) fn bytes_of_nodes(bytes: &NodeBytes) -> Vec<BytesOfNode> {
    let all = bytes
        .iter()
        .map(|(node, bytes)| BytesOfNode { node, bytes });
    all.collect()
}

/// Files with what each node has of them.
pub(super) fn file_table(files: &[FileOfMany], shown: usize) -> String {
    let rows = files.iter().take(shown).map(|file| {
        let nodes = file
            .nodes
            .iter()
            .map(|on| format!("{}: {} %", on.node.0, part(on.bytes, file.bytes)));
        vec![
            format_bytes(file.bytes),
            nodes.collect::<Vec<String>>().join(", "),
            file.path.to_string(),
        ]
    });
    output::table(&[">held", "by node", "file"], rows.collect())
}
