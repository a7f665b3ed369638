//! What is run.

use egeria_engine::AllocationPolicy;
use egeria_harness::{Error, Result};
use egeria_machine::Machine;

use crate::emulated_run::EmulatedRun;
use crate::script::Call;

/// The machine.
const PROFILE: &str = "odin-8s";
const MIB: u64 = 1 << 20;
/// Two sizes of requests, as the slides have.
pub(super) const LARGE_BYTES: u64 = 2 * MIB;
pub(super) const SMALL_BYTES: u64 = 4096;

/// Where data lies, and who moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// All of it on node 0: a file system on one node's persistent memory.
    OneNode,
    /// Whole files on the nodes in turn; new data on the writer's node.
    Spread,
    /// In stripes over all nodes.
    Striped,
    /// In stripes over all nodes, accessed by delegates.
    Delegated,
}

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The first nodes of the machine, so many.
    pub nodes: usize,
    /// Threads, over all nodes.
    pub threads: usize,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Whether they read.
    pub reads: bool,
    /// Whether all threads use one file, each a part of its own.
    pub shared: bool,
    /// Where data lies.
    pub layout: Layout,
}

pub(super) fn points(only: &[usize]) -> Vec<Point> {
    let mut all = Vec::new();
    let wanted = |nodes: &usize| only.is_empty() || only.contains(nodes);
    for nodes in [1, 2, 4, 8].into_iter().filter(wanted) {
        for (request_bytes, threads) in [(LARGE_BYTES, 4 * nodes), (SMALL_BYTES, 8 * nodes)] {
            for reads in [false, true] {
                let delegated = (request_bytes == LARGE_BYTES).then_some(Layout::Delegated);
                let layouts = [Layout::OneNode, Layout::Spread, Layout::Striped];
                for layout in layouts.into_iter().chain(delegated) {
                    all.push(Point {
                        nodes,
                        threads,
                        request_bytes,
                        reads,
                        shared: false,
                        layout,
                    });
                }
            }
        }
        for (reads, layout) in [false, true]
            .into_iter()
            .flat_map(|reads| [(reads, Layout::Striped), (reads, Layout::Delegated)])
        {
            all.push(Point {
                nodes,
                threads: 1,
                request_bytes: LARGE_BYTES,
                reads,
                shared: false,
                layout,
            });
        }
        for threads in [1, 4 * nodes] {
            all.push(Point {
                nodes,
                threads,
                request_bytes: LARGE_BYTES,
                reads: false,
                shared: true,
                layout: Layout::Striped,
            });
        }
    }
    all
}

impl Point {
    pub(super) fn words(&self) -> String {
        let size = match self.request_bytes {
            LARGE_BYTES => "2 MiB",
            _ => "4 KiB",
        };
        let what = if self.reads { "reads" } else { "writes" };
        let layout = self.layout.name();
        format!(
            "{} nodes, {layout}: {} threads, {what} of {size}",
            self.nodes, self.threads
        )
    }

    /// Host time per machine time: the host must copy what is moved, and wake a thread for each request.
    pub(super) fn dilation(&self) -> f64 {
        match self.request_bytes {
            LARGE_BYTES => 16.0 * self.nodes.max(2) as f64 / 2.0,
            _ => 96.0 * self.nodes as f64,
        }
    }

    /// Without last-level caches, which would hold files of a size that the host has room for.
    pub(super) fn machine(&self) -> Result<Machine> {
        let machine = Machine::profile(PROFILE).map_err(Error::failed)?;
        let mut machine = machine.first_nodes(self.nodes).map_err(Error::failed)?;
        for node in &mut machine.nodes {
            node.hardware.cache = None;
        }
        let emulated = machine.emulate(self.dilation());
        emulated
            .and_then(Machine::standing_here)
            .map_err(Error::failed)
    }

    pub(super) fn allocation(&self) -> AllocationPolicy {
        match self.layout {
            Layout::OneNode => AllocationPolicy::Pool(0),
            Layout::Spread => AllocationPolicy::Local,
            Layout::Striped | Layout::Delegated => AllocationPolicy::Striped,
        }
    }

    pub(super) fn file_bytes(&self) -> u64 {
        match self.request_bytes {
            LARGE_BYTES => 16 * MIB,
            _ => 4 * MIB,
        }
    }

    pub(super) fn pool_bytes(&self) -> u64 {
        let data = self.file_bytes() * self.threads as u64;
        let share = match self.layout {
            Layout::Striped | Layout::Delegated => data / self.nodes as u64,
            // New data goes where its writer is, in the worst case all on one.
            Layout::OneNode | Layout::Spread => data,
        };
        // Copy-on-write needs room for what is being replaced.
        (share + share / 4 + 64 * MIB).next_multiple_of(2 * MIB)
    }

    pub(super) fn fio(&self, run: &EmulatedRun<'_>) -> Vec<String> {
        let mut words = vec![
            "fio".to_owned(),
            "--name=f".to_owned(),
            format!("--directory={}", run.directory(0).display()),
            "--ioengine=psync".to_owned(),
            "--thread".to_owned(),
            "--fallocate=none".to_owned(),
            format!("--size={}", self.file_bytes()),
        ];
        if self.shared {
            words.push("--filename=shared".to_owned());
            words.push(format!("--offset_increment={}", self.file_bytes()));
        }
        words
    }

    /// Fills the files, of a spread layout one after the other on the nodes in turn.
    pub(super) fn fill(&self, run: &EmulatedRun<'_>) -> Result<()> {
        let fill = |mut words: Vec<String>, more: &[String]| {
            words.extend(["--rw=write", "--bs=1M"].map(str::to_owned));
            words.extend_from_slice(more);
            Call::new(words)
        };
        if self.layout != Layout::Spread {
            let jobs = format!("--numjobs={}", self.threads);
            return run.prepare(vec![fill(self.fio(run), &[jobs])]);
        }
        for node in 0..self.nodes {
            run.volume(0)
                .set_allocation(AllocationPolicy::Pool(node as u8));
            let mine = (node..self.threads).step_by(self.nodes);
            let names: Vec<String> = mine.map(|thread| format!("f.{thread}.0")).collect();
            let all = (names.len() as u64) * self.file_bytes();
            let more = [
                format!("--filename={}", names.join(":")),
                format!("--filesize={}", self.file_bytes()),
                format!("--io_size={all}"),
                "--file_service_type=sequential".to_owned(),
            ];
            let mut words = self.fio(run);
            words.retain(|word| !word.starts_with("--size="));
            run.prepare(vec![fill(words, &more)])?;
        }
        run.volume(0).set_allocation(self.allocation());
        Ok(())
    }

    pub(super) fn call(&self, run: &EmulatedRun<'_>) -> Call {
        let mut words = self.fio(run);
        words.extend([
            format!("--rw={}", if self.reads { "randread" } else { "randwrite" }),
            format!("--bs={}", self.request_bytes),
            format!("--numjobs={}", self.threads),
            "--norandommap".to_owned(),
            "--randrepeat=0".to_owned(),
            "--time_based".to_owned(),
            "--runtime=600".to_owned(),
        ]);
        Call::new(words)
    }
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::OneNode => "one_node",
            Layout::Spread => "spread",
            Layout::Striped => "striped",
            Layout::Delegated => "delegated",
        }
    }
}
