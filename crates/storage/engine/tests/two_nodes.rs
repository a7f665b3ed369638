//! Two declared nodes: data goes to the node of the thread that writes it, or where the policy says; a full
//! pool sends it to the other; and the counters say what was local.

use crate::common::{FILE, Scratch};
use egeria_engine::*;
use egeria_machine::{CpuId, Machine};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// The profile of two nodes, standing on the CPUs this process may use.
fn machine() -> Machine {
    let machine = Machine::profile("dram-2s").expect("profile");
    machine.stand_on_cpus(&allowed_cpus())
}

fn allowed_cpus() -> Vec<CpuId> {
    let set = sched_getaffinity(None).expect("affinity");
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .map(|cpu| CpuId(cpu as u16))
        .collect()
}

/// The calling thread alone.
fn bind_to(cpu: CpuId) {
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize);
    sched_setaffinity(None, &set).expect("affinity");
}

/// Run on a new thread bound to one CPU.
fn on_cpu<T: Send>(cpu: CpuId, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            bind_to(cpu);
            body()
        });
        thread.join().expect("thread")
    })
}

struct Machines {
    scratch: Scratch,
    volume: Arc<Volume>,
    /// A CPU of each node.
    cpus: [CpuId; 2],
}

/// A volume on two nodes; `None` where one CPU is both.
fn two_nodes(bytes: u64, allocation: Option<AllocationPolicy>) -> Option<Machines> {
    let machine = machine();
    let cpus = [machine.nodes[0].cpus[0], machine.nodes[1].cpus[0]];
    if cpus[0] == cpus[1] {
        eprintln!("one CPU stands for both nodes: threads cannot be told apart");
        return None;
    }
    let scratch = Scratch::new(2, bytes);
    let volume = scratch.attach_with(&AttachOptions {
        machine: Some(machine),
        allocation,
        ..AttachOptions::default()
    });
    Some(Machines {
        scratch,
        volume,
        cpus,
    })
}

impl Machines {
    /// Write a new file of so many bytes; its number.
    fn write(&self, cpu: CpuId, name: &str, bytes: usize) -> InodeNumber {
        on_cpu(cpu, || {
            let made = self
                .volume
                .create_open(InodeNumber::ROOT, name.as_bytes(), &FILE)
                .expect("create");
            let file = self.volume.open(made.ino, None).expect("open");
            let data = vec![7u8; 64 << 10];
            let mut offset = 0;
            while offset < bytes {
                let part = &data[..(bytes - offset).min(data.len())];
                assert_eq!(self.volume.write(file, offset as u64, part), Ok(part.len()));
                offset += part.len();
            }
            self.volume.close(made.ino);
            self.volume.close(made.ino);
            made.ino
        })
    }

    fn read(&self, cpu: CpuId, ino: InodeNumber) {
        on_cpu(cpu, || {
            let file = self.volume.open(ino, None).expect("open");
            let size = self.volume.size_bytes(file).expect("size") as usize;
            let mut data = vec![0; size];
            assert_eq!(self.volume.read(file, 0, &mut data), Ok(size));
            assert!(data.iter().all(|byte| *byte == 7));
            self.volume.close(ino);
        });
    }

    /// Bytes of a file on each node.
    fn held(&self, ino: InodeNumber) -> [u64; 2] {
        let mut held = [0; 2];
        for extent in self.volume.extents(ino).expect("extents") {
            held[extent.node as usize] += extent.length_bytes;
        }
        held
    }
}

#[test]
fn data_goes_to_the_node_of_its_writer() {
    let Some(machines) = two_nodes(32 << 20, None) else {
        return;
    };
    for (node, cpu) in machines.cpus.into_iter().enumerate() {
        let ino = machines.write(cpu, &format!("of{node}"), MIB);
        let mut expected = [0; 2];
        expected[node] = MIB as u64;
        assert_eq!(machines.held(ino), expected);
    }
    drop(machines.volume);
    machines.scratch.assert_clean();
}

#[test]
fn parts_of_one_file_lie_where_their_writers_ran() {
    let Some(machines) = two_nodes(32 << 20, None) else {
        return;
    };
    let volume = &machines.volume;
    let ino = machines.write(machines.cpus[0], "both", MIB);
    let file = volume.open(ino, None).unwrap();
    on_cpu(machines.cpus[1], || {
        assert_eq!(volume.write(file, 0, &vec![7; MIB / 4]), Ok(MIB / 4));
    });
    volume.close(ino);
    assert_eq!(machines.held(ino), [3 * MIB as u64 / 4, MIB as u64 / 4]);
    machines.read(machines.cpus[0], ino);
}

#[test]
fn counters_tell_local_from_remote() {
    let Some(machines) = two_nodes(32 << 20, None) else {
        return;
    };
    let before = machines.volume.counters();
    let ino = machines.write(machines.cpus[1], "file", MIB);
    let written = machines.volume.counters();
    assert_eq!(
        written.written_bytes[1] - before.written_bytes[1],
        MIB as u64
    );
    assert_eq!(written.written_bytes[0], before.written_bytes[0]);
    assert_eq!(written.local_bytes - before.local_bytes, MIB as u64);
    assert_eq!(written.remote_bytes, before.remote_bytes);
    machines.read(machines.cpus[1], ino);
    let near = machines.volume.counters();
    assert_eq!(near.read_bytes[1] - written.read_bytes[1], MIB as u64);
    assert_eq!(near.local_bytes - written.local_bytes, MIB as u64);
    assert_eq!(near.remote_bytes, written.remote_bytes);
    machines.read(machines.cpus[0], ino);
    let far = machines.volume.counters();
    assert_eq!(far.read_bytes[1] - near.read_bytes[1], MIB as u64);
    assert_eq!(far.local_bytes, near.local_bytes);
    assert_eq!(far.remote_bytes - near.remote_bytes, MIB as u64);
}

#[test]
fn a_policy_that_names_a_pool_puts_everything_there() {
    let Some(machines) = two_nodes(32 << 20, Some(AllocationPolicy::Pool(1))) else {
        return;
    };
    let far = machines.write(machines.cpus[0], "far", MIB);
    assert_eq!(machines.held(far), [0, MIB as u64]);
    machines.volume.set_allocation(AllocationPolicy::Local);
    let near = machines.write(machines.cpus[0], "near", MIB);
    assert_eq!(machines.held(near), [MIB as u64, 0]);
}

#[test]
fn the_random_policy_uses_both_nodes_about_evenly() {
    let Some(machines) = two_nodes(64 << 20, Some(AllocationPolicy::Random)) else {
        return;
    };
    let ino = machines.write(machines.cpus[0], "mixed", 16 * MIB);
    let held = machines.held(ino);
    assert_eq!(held[0] + held[1], 16 * MIB as u64);
    // 256 writes: a share outside of this has less than one chance in a million.
    assert!(
        (16 * MIB as u64 / 3..16 * MIB as u64 * 2 / 3).contains(&held[0]),
        "{held:?}"
    );
}

/// Append until there is no space; what was written.
fn fill(volume: &Volume, file: FileReference) -> u64 {
    let data = vec![7u8; 64 << 10];
    let mut written = 0;
    loop {
        match volume.append(file, &data) {
            Ok((offset, bytes)) => {
                assert_eq!(offset, written);
                assert!(bytes > 0);
                written += bytes as u64;
            }
            Err(errno) => {
                assert_eq!(errno, Errno(libc::ENOSPC));
                return written;
            }
        }
    }
}

#[test]
fn full_pool_spills_to_the_other() {
    let Some(machines) = two_nodes(16 << 20, None) else {
        return;
    };
    let volume = &machines.volume;
    let made = volume
        .create_open(InodeNumber::ROOT, b"all", &FILE)
        .unwrap();
    let file = volume.open(made.ino, None).unwrap();
    let free = volume.space(None).free_blocks * 4096;
    let written = on_cpu(machines.cpus[0], || fill(volume, file));
    let held = machines.held(made.ino);
    assert_eq!(held[0] + held[1], written.next_multiple_of(4096));
    assert!(held[1] > 8 << 20, "the other pool was used: {held:?}");
    for pool in 0..2 {
        let left = volume.space(Some(pool)).free_blocks;
        assert!(left <= 16, "pool {pool} has {left} blocks left");
    }
    assert!(written <= free);
    // Full volumes can be emptied, and are whole again then.
    volume.unlink(InodeNumber::ROOT, b"all").unwrap();
    volume.close(made.ino);
    volume.close(made.ino);
    let after = volume.space(None).free_blocks * 4096;
    assert!(free - after <= 64 << 10, "{free} {after}");
    let ino = machines.write(machines.cpus[0], "again", MIB);
    assert_eq!(machines.held(ino), [MIB as u64, 0]);
    drop(machines.volume);
    machines.scratch.assert_clean();
}

#[test]
fn a_thread_that_is_bound_elsewhere_writes_there_from_then_on() {
    let Some(machines) = two_nodes(32 << 20, None) else {
        return;
    };
    let volume = &machines.volume;
    let made = volume
        .create_open(InodeNumber::ROOT, b"moves", &FILE)
        .unwrap();
    let file = volume.open(made.ino, None).unwrap();
    let cpus = machines.cpus;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (turn, cpu) in [cpus[0], cpus[1]].into_iter().enumerate() {
                bind_to(cpu);
                // The engine looks at the affinity now and then only.
                std::thread::sleep(std::time::Duration::from_millis(50));
                let data = vec![7; MIB];
                let written = volume.write(file, (turn * MIB) as u64, &data);
                assert_eq!(written, Ok(MIB));
            }
        });
    });
    volume.close(made.ino);
    volume.close(made.ino);
    assert_eq!(machines.held(made.ino), [MIB as u64, MIB as u64]);
}
