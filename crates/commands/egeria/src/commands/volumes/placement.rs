//! Pools in DRAM on the memory of their node. The kernel takes a page of tmpfs or hugetlbfs from the node of the
//! thread that touches it first. A policy on the file makes it the pool's node, and lasts as long as the file.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use egeria_engine::PoolRequest;
use egeria_machine::Machine;

/// Of the kernel's `linux/mempolicy.h`: from this node, from another only when that one is full.
const MPOL_PREFERRED: libc::c_int = 1;
/// Of the kernel's `linux/mempolicy.h`: move pages that are elsewhere.
const MPOL_MF_MOVE: libc::c_uint = 2;

/// Most nodes a kernel is built for.
const MAX_KERNEL_NODES: usize = 1024;

/// Nodes that get a pool: all that are declared, or those with memory or CPUs.
pub fn nodes_with_pools(machine: &Machine) -> Vec<u16> {
    let emulated = machine.is_emulated();
    let suits =
        |node: &&egeria_machine::Node| emulated || node.memory_bytes > 0 || !node.cpus.is_empty();
    let nodes = machine.nodes.iter().filter(suits);
    let mut nodes: Vec<u16> = nodes.map(|node| node.id.0).collect();
    nodes.truncate(egeria_engine::Counters::default().read_bytes.len());
    if nodes.is_empty() { vec![0] } else { nodes }
}

/// Puts each pool that is a file in DRAM on its node. Nodes this machine does not have (emulated ones) and
/// kernels without NUMA leave it where it is.
pub fn prefer_nodes(pools: &[PoolRequest]) {
    for pool in pools {
        let _ = prefer_node(&pool.path, pool.node);
    }
}

/// See [`prefer_nodes`].
fn prefer_node(path: &Path, node: u16) -> io::Result<()> {
    let file = std::fs::File::options().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len() as usize;
    let kind = rustix::fs::fstatfs(&file)?.f_type as u64;
    let in_dram = kind == libc::TMPFS_MAGIC as u64 || kind == libc::HUGETLBFS_MAGIC as u64;
    if !in_dram
        || bytes == 0
        || !Path::new(&format!("/sys/devices/system/node/node{node}")).exists()
    {
        return Ok(());
    }
    let mut mask = [0_u64; MAX_KERNEL_NODES / 64];
    let Some(word) = mask.get_mut(usize::from(node) / 64) else {
        return Ok(());
    };
    *word |= 1 << (node % 64);
    // SAFETY: a new shared mapping of the whole file at an address of the kernel's choice, which nothing
    // accesses; it is unmapped below. The mask outlives the call and has the size that is said.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let bits = MAX_KERNEL_NODES + 1;
        let status = libc::syscall(
            libc::SYS_mbind,
            base,
            bytes,
            MPOL_PREFERRED,
            mask.as_ptr(),
            bits,
            MPOL_MF_MOVE,
        );
        let error = io::Error::last_os_error();
        libc::munmap(base, bytes);
        if status == 0 { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_dram_keeps_the_node_it_was_given() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        match prefer_node(file.path(), 0) {
            // A kernel without NUMA, or a container that forbids it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                egeria_harness::testing::skip(error);
                return;
            }
            result => result.unwrap(),
        }
        // A mapping made later shows the policy of the file.
        let maps = mapped(file.path());
        let name = file.path().to_string_lossy();
        let line = maps
            .lines()
            .find(|line| line.contains(&*name))
            .unwrap_or_else(|| panic!("{maps}"));
        assert!(line.contains("prefer"), "{line}");
    }

    /// `numa_maps` while the file is mapped.
    fn mapped(path: &Path) -> String {
        let pool = egeria_media::Pool::open(path, egeria_media::Access::ReadOnly).unwrap();
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        drop(pool);
        maps
    }

    #[test]
    fn a_node_this_machine_does_not_have_is_left_alone() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        prefer_node(file.path(), 60_000).unwrap();
    }
}
