//! What is run.

use egeria_engine::AllocationPolicy;
use egeria_harness::Result;
use egeria_machine::Machine;

use crate::emulated::{EmulatedRun, Moved, machine};
use crate::programs::fio;
use crate::programs::script::Call;

const PROFILE: &str = "odin-8s";
const MOST_NODES: usize = 8;
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
    /// In stripes over all nodes. The planner decides whether delegates access it, and how many.
    Delegated,
}

/// Which parts of files threads use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Each a file of its own.
    Own,
    /// All one file, each a part of its own.
    Parts,
    /// All the whole of one file, at random: ranges overlap.
    Whole,
}

/// Which points are run.
pub enum Selection {
    /// Those of so many nodes; of 1, 2, 4 and 8 when empty.
    Nodes(Vec<usize>),
    /// Only what the summary of eight nodes needs.
    Brief,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The first nodes of the machine, so many.
    pub nodes: usize,
    /// Threads, over all nodes.
    pub threads: usize,
    pub request_bytes: u64,
    /// Whether they read.
    pub reads: bool,
    /// Which parts of files threads use.
    pub sharing: Sharing,
    /// Where data lies.
    pub layout: Layout,
}

/// What one run of a point gave.
pub(crate) struct Found {
    pub(crate) moved: Moved,
    /// Delegates per node in the end; 0 where accesses are direct.
    pub(crate) delegates: u8,
}

pub(super) fn points(selection: &Selection) -> Vec<Point> {
    let all = [1, 2, 4, 8].into_iter().flat_map(points_on);
    let is_wanted = |point: &Point| match selection {
        Selection::Nodes(only) => only.is_empty() || only.contains(&point.nodes),
        Selection::Brief => point.nodes == MOST_NODES && point.layout != Layout::Spread,
    };
    all.filter(is_wanted).collect()
}

fn points_on(nodes: usize) -> Vec<Point> {
    let point = |request_bytes, threads, reads, layout| Point {
        nodes,
        threads,
        request_bytes,
        reads,
        sharing: Sharing::Own,
        layout,
    };
    let mut all = Vec::new();
    for (request_bytes, threads) in [(LARGE_BYTES, 4 * nodes), (SMALL_BYTES, 8 * nodes)] {
        for reads in [false, true] {
            let delegates = request_bytes == LARGE_BYTES && nodes > 1;
            let delegated = delegates.then_some(Layout::Delegated);
            let layouts = [Layout::OneNode, Layout::Spread, Layout::Striped];
            let layouts = layouts.into_iter().chain(delegated);
            all.extend(layouts.map(|layout| point(request_bytes, threads, reads, layout)));
        }
    }
    for reads in [false, true].into_iter().filter(|_| nodes == MOST_NODES) {
        let layouts = [Layout::Striped, Layout::Delegated];
        all.extend(layouts.map(|layout| point(LARGE_BYTES, 1, reads, layout)));
    }
    all.extend([1, 4 * nodes].map(|threads| Point {
        sharing: Sharing::Parts,
        ..point(LARGE_BYTES, threads, false, Layout::Striped)
    }));
    let layouts = [Layout::OneNode, Layout::Striped];
    all.extend(layouts.map(|layout| Point {
        sharing: Sharing::Whole,
        ..point(SMALL_BYTES, 8 * nodes, false, layout)
    }));
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
        let of = match self.sharing {
            Sharing::Own => "",
            Sharing::Parts => " of one file",
            Sharing::Whole => " of one file, overlapping",
        };
        format!(
            "{} nodes, {layout}: {} threads, {what} of {size}{of}",
            self.nodes, self.threads
        )
    }

    /// Host time per machine time: the host must copy what is moved, and wake a thread for each request.
    pub(super) fn dilation(&self) -> f64 {
        match self.request_bytes {
            // A thread here is woken for each stripe.
            LARGE_BYTES if self.layout == Layout::Delegated => 32.0 * self.nodes as f64,
            LARGE_BYTES => 16.0 * self.nodes.max(2) as f64 / 2.0,
            _ => 96.0 * self.nodes as f64,
        }
    }

    pub(super) fn machine(&self) -> Result<Machine> {
        machine(PROFILE, Some(self.nodes), self.dilation())
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

    /// fio's words for files of these threads; of a shared one, each has a part of its own.
    fn files(&self) -> Vec<String> {
        let bytes = self.file_bytes();
        let mut words = vec![format!("--numjobs={}", self.threads)];
        let size = match self.sharing {
            Sharing::Whole => bytes * self.threads as u64,
            Sharing::Own | Sharing::Parts => bytes,
        };
        words.push(format!("--size={size}"));
        if self.sharing != Sharing::Own {
            words.push("--filename=shared".to_owned());
        }
        if self.sharing == Sharing::Parts {
            words.push(format!("--offset_increment={bytes}"));
        }
        words
    }

    /// Fills the files, of a spread layout one after the other on the nodes in turn.
    pub(super) fn fill(&self, run: &EmulatedRun<'_>) -> Result<()> {
        let fill = |words: Vec<String>| {
            let writes = ["--rw=write", "--bs=1M"].map(str::to_owned);
            run.prepare(vec![fio::calls_in(
                run.directory(0),
                words.into_iter().chain(writes),
            )])
        };
        if self.sharing == Sharing::Whole {
            let bytes = self.file_bytes() * self.threads as u64;
            return fill(vec![
                "--filename=shared".to_owned(),
                format!("--size={bytes}"),
            ]);
        }
        if self.layout != Layout::Spread {
            return fill(self.files());
        }
        for node in 0..self.nodes {
            let volume = run.volume(0);
            volume.set_allocation(AllocationPolicy::Pool(node as u8));
            let mine = (node..self.threads).step_by(self.nodes);
            let names: Vec<String> = mine.map(|thread| format!("f.{thread}.0")).collect();
            let bytes = self.file_bytes();
            fill(vec![
                format!("--filename={}", names.join(":")),
                format!("--filesize={bytes}"),
                format!("--io_size={}", bytes * names.len() as u64),
                "--file_service_type=sequential".to_owned(),
            ])?;
        }
        run.volume(0).set_allocation(self.allocation());
        Ok(())
    }

    pub(super) fn call(&self, run: &EmulatedRun<'_>) -> Call {
        let mut words = self.files();
        let kind = if self.reads { "randread" } else { "randwrite" };
        words.extend([
            format!("--rw={kind}"),
            format!("--bs={}", self.request_bytes),
        ]);
        words.extend(["--norandommap", "--randrepeat=0"].map(str::to_owned));
        fio::endless_in(run.directory(0), words)
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
