//! Facts of processes, with what they read and write of files: an estimate, for machines where it is not counted by
//! file and node.
//!
//! The kernel counts per thread how many bytes its calls read and wrote (`/proc/PID/task/TID/io`). Pipes and sockets
//! are included, mappings are not. It does not report the files. So the bytes are assumed to be spread evenly over the
//! cached pages of the files that the process has open.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use egeria_facts::{FactSource, Facts, ThreadKey, Window};
use egeria_machine::Machine;
use egeria_proc::masks::SharedMasks;
use egeria_proc::{LiveSource, Membership};

use crate::NodeBytes;
use crate::files::credit::sum_nodes;
use crate::files::file;
use crate::files::file::Locator;
use crate::memory::process;

/// Open files of a process that are looked at.
const MAX_OPEN_FILES: usize = 256;
/// Pages located in one window, of all processes: a tenth of a second.
const MAX_PAGES: u64 = 1 << 18;

/// Another source, with such estimates.
pub struct FileIo<I> {
    inner: I,
    before: HashMap<ThreadKey, Counts>,
}

/// What a thread read and wrote so far, bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Counts {
    read: u64,
    written: u64,
}

impl<I: LiveSource> FileIo<I> {
    /// Adds the estimates to the facts of a source. Threads not seen before have none in their first window.
    pub fn new(inner: I) -> FileIo<I> {
        FileIo {
            inner,
            before: HashMap::new(),
        }
    }

    fn add(&mut self, window: &mut Window) {
        let mut before = std::mem::take(&mut self.before);
        let mut places: HashMap<u32, NodeBytes> = HashMap::new();
        let mut locator = Locator::for_many(MAX_PAGES).ok();
        let machine = self.inner.machine();
        for thread in &mut window.threads {
            let key = thread.key;
            let Some(now) = counts(key) else { continue };
            self.before.insert(key, now);
            let Some(then) = before.remove(&key) else {
                continue;
            };
            let read = now.read.saturating_sub(then.read);
            let written = now.written.saturating_sub(then.written);
            if read == 0 && written == 0 {
                continue;
            }
            let held = places
                .entry(key.process_id)
                .or_insert_with(|| cached_of(key.process_id, locator.as_mut()));
            let shares = [
                (read, &mut thread.read_bytes),
                (written, &mut thread.written_bytes),
            ];
            for (bytes, by_node) in shares {
                for (node, bytes) in held.scaled_to(bytes).iter() {
                    if let Some(sum) = machine.index_of(node).and_then(|at| by_node.get_mut(at)) {
                        *sum = bytes;
                    }
                }
            }
        }
        sum_nodes(window, &[]);
    }
}

/// What the page cache holds of the open files of a process, by node; nothing of what may not be looked at.
pub fn cached_of(process_id: u32, locator: Option<&mut Locator>) -> NodeBytes {
    let mut by_node = NodeBytes::default();
    let open = process::open_files(process_id, MAX_OPEN_FILES);
    let Some((open, locator)) = open.ok().zip(locator) else {
        return by_node;
    };
    for open in open {
        let looked = open.borrow().and_then(|file| file::look(&file, locator));
        if let Ok(pages) = looked {
            by_node.add_all(&pages.by_node);
        }
    }
    by_node
}

fn counts(key: ThreadKey) -> Option<Counts> {
    let path = format!("/proc/{}/task/{}/io", key.process_id, key.thread_id);
    counts_of(&std::fs::read_to_string(path).ok()?)
}

fn counts_of(text: &str) -> Option<Counts> {
    let value = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        line?.trim().parse().ok()
    };
    Some(Counts {
        read: value("rchar:")?,
        written: value("wchar:")?,
    })
}

impl<I: LiveSource> FactSource for FileIo<I> {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let Some(mut facts) = self.inner.next_facts()? else {
            return Ok(None);
        };
        self.add(&mut facts.window);
        Ok(Some(facts))
    }
}

impl<I: LiveSource> LiveSource for FileIo<I> {
    crate::as_inner!();

    fn start_over(&mut self) {
        self.inner.start_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::skip;
    use egeria_proc::Scope;
    use egeria_proc::processes::ProcessSource;
    use std::process::{Command, Stdio};

    #[test]
    fn counts_are_read_by_name() {
        let text = "rchar: 7\nwchar: 9\nsyscr: 1\nread_bytes: 4096\n";
        let counts = counts_of(text).unwrap();
        assert_eq!((counts.read, counts.written), (7, 9));
        assert_eq!(counts_of("rchar: many\nwchar: 1\n"), None);
        assert_eq!(counts_of(""), None);
    }

    #[test]
    fn what_a_program_reads_is_where_its_file_is() {
        let own = ThreadKey {
            process_id: std::process::id(),
            thread_id: std::process::id(),
            start_ticks: 0,
        };
        if counts(own).is_none() {
            skip("this kernel does not count I/O of threads");
            return;
        }
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), vec![1; 8 << 20]).unwrap();
        // The shell itself reads: what it started would be gone before it is seen twice.
        let script = "while :; do exec 0<\"$FILE\"; while read -r -N 65536 data; do :; done; done";
        let reader = Command::new("bash")
            .args(["-c", script])
            .env("FILE", file.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut reader) = reader else {
            skip("there is no bash");
            return;
        };
        let machine = Machine::detect().unwrap();
        let processes = ProcessSource::begin(machine.clone(), Scope::Tree(reader.id()));
        let mut source = FileIo::new(processes);
        let mut found = None;
        for _ in 0..600 {
            let facts = source.next_facts().unwrap().unwrap();
            facts.validate(&machine).unwrap();
            let own = facts.window.threads.iter();
            let mut own = own.filter(|thread| thread.key.process_id == reader.id());
            found = own.next().filter(|thread| thread.read_total() > 0).cloned();
            if found.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        reader.kill().unwrap();
        reader.wait().unwrap();
        let found = found.expect("the reader reads");
        assert_eq!(found.read_bytes.iter().sum::<u64>(), found.read_total());
    }
}
