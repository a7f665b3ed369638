//! A recording as a workload: what threads did, window by window, to be done again elsewhere.
//!
//! A recording says how many bytes each thread read and wrote, where, and how long it ran; not in how many
//! operations. Their size is the caller's word. What a thread ran beyond its accesses, at the speed of the machine it
//! was recorded on, it computes again; when it did not run, it waits again.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{FileKey, ThreadFacts, ThreadKey, Window};
use egeria_machine::{AccessKind, Machine, NodeId};

use crate::error::SimError;
use crate::rates::model::Model;
use crate::workload::{FileGroup, MediumKind, Phase, ThreadGroup, Workload};
use egeria_machine::costs::{Access, Pattern};

/// Phases that a thread is given at most; windows are put together until that many are left.
const MAX_PHASES: usize = 1000;
/// A node that holds less of what is read than this share of an even part is left out.
const MIN_PART: f64 = 0.25;
/// One operation in a phase in which nothing was done: there must be one.
const NOTHING: f64 = 1.0;

/// What one thread did in one phase.
#[derive(Clone, Default)]
struct Did {
    read_bytes: f64,
    written_bytes: f64,
    busy_ns: f64,
    /// Of all bytes, on the thread's own node.
    local_bytes: f64,
}

/// One thread over all phases.
struct Story {
    name: String,
    node: NodeId,
    pinned: bool,
    did: Vec<Did>,
    /// Bytes per file, and per node (by position).
    files: HashMap<FileKey, u64>,
    nodes: Vec<f64>,
}

impl Workload {
    /// The workload recorded on a machine, in operations of `request_bytes`. Threads that read and wrote nothing are
    /// left out. Each uses the file it used most; threads that used the same file then share it.
    ///
    /// # Errors
    /// When nothing was recorded, or nothing read or written.
    pub fn recorded(
        name: &str,
        machine: &Machine,
        windows: &[Window],
        request_bytes: u64,
    ) -> Result<Workload, SimError> {
        let request_bytes = request_bytes.max(1);
        let lengths = lengths(windows);
        let stories = stories(machine, windows, lengths.len());
        if stories.is_empty() {
            return Err(SimError::NothingRecorded {
                origin: name.to_owned(),
            });
        }
        // A machine that says nothing of its speeds computed all the time it ran.
        let model = Model::new(machine).ok();
        let mut files: BTreeMap<FileKey, FileGroup> = BTreeMap::new();
        let mut threads = Vec::new();
        for (key, story) in &stories {
            let file = story.add_file(machine, *key, &mut files);
            threads.push(ThreadGroup {
                name: story.name.clone(),
                count: 1,
                files: file_name(file),
                start_node: Some(story.node),
                pinned: story.pinned,
                phases: story.phases(machine, model.as_ref(), &lengths, request_bytes),
                ..ThreadGroup::default()
            });
        }
        Ok(Workload {
            name: name.chars().filter(|c| !c.is_control()).take(64).collect(),
            seconds: lengths.iter().sum::<f64>().max(1e-3),
            warm_up_seconds: 0.0,
            files: files.into_values().collect(),
            threads,
        })
    }
}

impl Workload {
    /// The workload on another machine: nodes that this machine lacks are replaced by nodes that it has.
    #[must_use]
    pub fn onto(mut self, machine: &Machine) -> Workload {
        let count = machine.nodes.len();
        let fit = |id: &mut NodeId| {
            if machine.index_of(*id).is_none() {
                *id = machine.nodes[usize::from(id.0) % count].id;
            }
        };
        for files in &mut self.files {
            files.node.iter_mut().for_each(fit);
            files.nodes.iter_mut().for_each(fit);
            files.nodes.sort_unstable();
            files.nodes.dedup();
        }
        for threads in &mut self.threads {
            threads.start_node.iter_mut().for_each(fit);
            threads.start_nodes.iter_mut().for_each(fit);
        }
        self
    }
}

/// Windows per phase.
fn together(windows: &[Window]) -> usize {
    windows.len().div_ceil(MAX_PHASES).max(1)
}

/// Length of each phase, s.
fn lengths(windows: &[Window]) -> Vec<f64> {
    let length = |some: &[Window]| -> f64 { some.iter().map(Window::seconds).sum::<f64>() };
    let chunks = windows.chunks(together(windows));
    chunks.map(|some| length(some).max(1e-4)).collect()
}

fn stories(machine: &Machine, windows: &[Window], phases: usize) -> BTreeMap<ThreadKey, Story> {
    let mut stories: BTreeMap<ThreadKey, Story> = BTreeMap::new();
    for (phase, some) in windows.chunks(together(windows)).enumerate() {
        for facts in some.iter().flat_map(|window| &window.threads) {
            let story = stories.entry(facts.key).or_insert_with(|| Story {
                name: story_name(facts),
                node: facts.node,
                pinned: facts.pinned,
                did: vec![Did::default(); phases],
                files: HashMap::new(),
                nodes: vec![0.0; machine.nodes.len()],
            });
            story.add(machine, phase, facts);
        }
    }
    stories.retain(|_, story| story.nodes.iter().sum::<f64>() > 0.0);
    stories
}

fn story_name(facts: &ThreadFacts) -> String {
    if facts.name.is_empty() {
        format!("thread {}", facts.key.thread_id)
    } else {
        facts.name.chars().take(64).collect()
    }
}

fn file_name(key: FileKey) -> String {
    format!("{}:{}", key.volume, key.inode)
}

impl Story {
    fn add(&mut self, machine: &Machine, phase: usize, facts: &ThreadFacts) {
        let did = &mut self.did[phase];
        did.read_bytes += facts.read_total() as f64;
        did.written_bytes += facts.written_total() as f64;
        did.busy_ns += facts.busy_ns as f64;
        if let Some(index) = machine.index_of(facts.node) {
            did.local_bytes += facts.moved_at(index) as f64;
        }
        for (node, sum) in self.nodes.iter_mut().enumerate() {
            *sum += facts.moved_at(node) as f64;
        }
        for used in &facts.files {
            let bytes = used.read_bytes.saturating_add(used.written_bytes);
            let sum = self.files.entry(used.file).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The file it used most, or one of its own where none was recorded.
    fn add_file(
        &self,
        machine: &Machine,
        key: ThreadKey,
        files: &mut BTreeMap<FileKey, FileGroup>,
    ) -> FileKey {
        let most = self
            .files
            .iter()
            .max_by_key(|(key, bytes)| (**bytes, **key));
        let own = FileKey {
            volume: u32::MAX,
            inode: u64::from(key.thread_id),
        };
        let file = most.map_or(own, |(file, _)| *file);
        let all: f64 = self.nodes.iter().sum();
        let bytes = most.map_or(all as u64, |(_, bytes)| *bytes);
        let even = all / self.nodes.len() as f64;
        let holds = |node: &usize| self.nodes[*node] >= even * MIN_PART;
        let nodes = (0..self.nodes.len()).filter(holds);
        let group = files.entry(file).or_insert_with(|| FileGroup {
            name: file_name(file),
            count: 1,
            bytes: 1,
            nodes: nodes.map(|node| machine.nodes[node].id).collect(),
            ..FileGroup::default()
        });
        // Its size was not recorded: as much as was used of it, at most 1 TiB.
        group.bytes = group.bytes.max(bytes.min(1 << 40));
        file
    }

    fn phases(
        &self,
        machine: &Machine,
        model: Option<&Model>,
        lengths: &[f64],
        request_bytes: u64,
    ) -> Vec<Phase> {
        let home = machine.index_of(self.node).unwrap_or(0);
        let phase = |(did, length_s): (&Did, &f64)| {
            let length_ns = length_s * 1e9;
            let all = did.read_bytes + did.written_bytes;
            let operations = all / request_bytes as f64;
            let busy_ns = did.busy_ns.min(length_ns);
            let quiet = Phase {
                seconds: Some(*length_s),
                read_share: 1.0,
                request_bytes,
                think_ns: 0.0,
                idle_ns: length_ns.min(1e12),
                pattern: Pattern::Random,
                at_once: false,
                ..Phase::default()
            };
            if operations < NOTHING {
                return quiet;
            }
            let read_share = did.read_bytes / all;
            let access_ns = model.map_or(0.0, |model| {
                mean_access_ns(
                    model,
                    home,
                    read_share,
                    did.local_bytes / all,
                    request_bytes,
                )
            });
            Phase {
                read_share,
                think_ns: (busy_ns / operations - access_ns).clamp(0.0, 1e12),
                idle_ns: ((length_ns - busy_ns) / operations).clamp(0.0, 1e12),
                ..quiet
            }
        };
        self.did.iter().zip(lengths).map(phase).collect()
    }
}

/// What an access took on the machine of the recording without contention, in the mean, ns.
fn mean_access_ns(
    model: &Model,
    home: usize,
    read_share: f64,
    local_share: f64,
    bytes: u64,
) -> f64 {
    let places = model.places_of(MediumKind::Storage);
    let find = |local: bool| {
        let mut places = places.iter();
        let place = places.find(|place| (model.costs.places[**place].node == home) == local);
        place.copied()
    };
    let time_ns = |kind, local| {
        find(local).map_or(0.0, |place| {
            let access = Access {
                kind,
                home,
                place,
                bytes,
                pattern: Pattern::Random,
                at_once: false,
            };
            model.costs.access_ns(&access, 1.0, 0.0)
        })
    };
    let mut mean_ns = 0.0;
    for (kind, part) in [
        (AccessKind::Read, read_share),
        (AccessKind::Write, 1.0 - read_share),
    ] {
        mean_ns += part * local_share * time_ns(kind, true);
        mean_ns += part * (1.0 - local_share) * time_ns(kind, false);
    }
    mean_ns
}
