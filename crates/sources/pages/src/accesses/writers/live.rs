//! The kernel's write faults.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_perf::{AccessEvents, Event, EventSampler};
use egeria_proc::{living, task};

use super::WriteFaults;

/// How long writes are waited for.
const MOMENT: Duration = Duration::from_millis(50);
/// Between two looks into the rings: they have room for about a thousand faults of a CPU.
const PAUSE: Duration = Duration::from_millis(5);

/// Protects pages, and samples page faults.
pub struct LiveFaults {
    machine: Machine,
}

impl LiveFaults {
    /// Of programs on this machine.
    ///
    /// # Errors
    /// Why the kernel does not show them, in one line.
    pub fn begin(machine: &Machine) -> Result<LiveFaults, String> {
        EventSampler::check(&[Event::page_faults()]).map_err(|error| error.to_string())?;
        match notes_writes() {
            Ok(true) => Ok(LiveFaults {
                machine: machine.clone(),
            }),
            Ok(false) => Err(
                "the kernel does not note which pages are written (CONFIG_MEM_SOFT_DIRTY)"
                    .to_owned(),
            ),
            Err(error) => Err(format!("the kernel does not show written pages: {error}")),
        }
    }
}

impl WriteFaults for LiveFaults {
    fn look(&mut self, processes: &[ProcessKey]) -> Vec<(ProcessKey, usize, NodeId, u64)> {
        let Ok(mut events) = EventSampler::begin(&[Event::page_faults()], MOMENT) else {
            return Vec::new();
        };
        let protects =
            |process: &&ProcessKey| task::lives(**process) && protect(process.process_id).is_ok();
        let keys = processes.iter().filter(protects);
        let keys: HashMap<u32, ProcessKey> = keys.map(|key| (key.process_id, *key)).collect();
        let (end, mut found) = (Instant::now() + MOMENT, Vec::new());
        loop {
            let is_last = Instant::now() >= end;
            for access in events.take().accesses {
                let key = keys.get(&access.process_id);
                let cpu = u16::try_from(access.cpu).ok();
                let node = cpu.and_then(|cpu| self.machine.node_of_cpu(CpuId(cpu)));
                if let Some((key, node)) = key.zip(node) {
                    found.push((*key, access.address as usize, node, access.weight));
                }
            }
            if is_last {
                return found;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// From now on, the next write of each page of a process is a fault.
fn protect(process_id: u32) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .open(living::path(process_id, "clear_refs"))?;
    file.write_all(b"4")
}

/// Whether the kernel notes which pages are written: of a page of this process, before and after a write.
fn notes_writes() -> io::Result<bool> {
    const WRITTEN: u64 = 1 << 55;
    const PAGE: usize = 4096;
    let mut memory = vec![1_u8; 3 * PAGE];
    let page = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let inside = page - memory.as_ptr() as usize;
    let pagemap = File::open("/proc/self/pagemap")?;
    let is_written = || {
        let mut entry = [0_u8; 8];
        pagemap.read_exact_at(&mut entry, (page / PAGE * 8) as u64)?;
        io::Result::Ok(u64::from_ne_bytes(entry) & WRITTEN != 0)
    };
    protect(std::process::id())?;
    let before = is_written()?;
    std::hint::black_box(&mut memory)[inside] = 2;
    let after = is_written()?;
    Ok(after && !before)
}
