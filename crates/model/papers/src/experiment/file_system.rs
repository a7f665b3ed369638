//! ext4-dax and PMFS: what they take more or less than NOVA for the same operation.
//!
//! What NOVA takes is in the workloads (1 us per operation, `fio.toml`), so only differences are added here. All are
//! of one public measurement of the three file systems: WOLVES (OSDI'25), repository WOFS-for-PM/tests, folder
//! `wofs-evaluation`; one Xeon Gold 5218, one DIMM of persistent memory that is not interleaved, Linux 5.1. How they
//! became parameters was decided before any result was seen.
//!
//! | here | there |
//! | --- | --- |
//! | time per read, overwrite, append | `FIG-ST-MICRO/paper/performance-comparison-table-bsize`: fio, one thread, 1 GiB |
//! | create and delete | `FIG-Filebench/paper/performance-comparison-table-breakdown-fileserver`: one thread, directories of 20 files |
//! | directory scan | `FIG-Filebench/paper/performance-comparison-table`: webproxy, one thread, 10,000 files in one directory |
//! | fsync, commit | the same table: varmail, one thread and sixteen |
//!
//! ext4 zeroes the blocks of a file before their first write (`EXT4_GET_BLOCKS_CREATE_ZERO` in `fs/ext4/inode.c`), so
//! each byte of new data is written twice. Both mount one node's memory, like NOVA (NThread §V-B).

use egeria_sim::Workload;

const MIB: f64 = 1_048_576.0;
const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;
/// Sizes of requests that are taken from the table, bytes.
const SIZES: [u64; 3] = [4096, 16_384, 32_768];
/// Small writes of the table, bytes, and how many of them fill a block.
const SMALL_BYTES: f64 = 256.0;
const SMALL_PER_BLOCK: f64 = 16.0;
const BLOCK_BYTES: f64 = 4096.0;
/// Writes to the DIMM without a file system ("PMM" in the table), MiB/s.
const RAW_WRITE_MIB_S: f64 = 2259.2;

/// fio with one thread, MiB/s by [`SIZES`].
struct Speeds {
    read: [f64; 3],
    /// "seq-write": the file grows.
    append: [f64; 3],
}

const NOVA: Speeds = Speeds {
    read: [1176.0, 1969.0, 2296.0],
    append: [1202.0, 1410.0, 1497.0],
};
/// "rnd-write" of 4 KiB: NOVA writes a new block each time (copy on write), so that this is an overwrite too.
const NOVA_OVERWRITE_MIB_S: f64 = 868.0;

const NOVA_CREATE_DELETE_US: f64 = 9.0 + 14.0;

/// A file system that is compared with NOVA.
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    speeds: Speeds,
    /// "rnd-write" of 256 B, MiB/s: the first write to a block allocates it, the other fifteen are in place.
    small_write_mib_s: f64,
    /// "rnd-write" of 4 KiB, MiB/s: each write allocates a block.
    first_write_mib_s: f64,
    /// Creating and deleting a file in a small directory.
    create_delete_us: f64,
    /// What both take longer than NOVA's in a directory of 10,000 files, under its lock.
    scan_us: f64,
    fsync_us: f64,
    /// Of that, how much only one thread at a time can do.
    commit_us: f64,
    /// Bytes of zeroes written for each byte of new data.
    zeroed: f64,
}

/// fsync: of a loop of varmail (13 operations at 100,064/s, NOVA's 264,382/s) 80.8 us more than NOVA's, 21 of which are
/// its other operations (the columns of that row); two fsyncs share the rest. Commits: 16 threads do 313,616
/// operations/s, which are 48,249 fsyncs/s.
pub(crate) const EXT4_DAX: FileSystem = FileSystem {
    name: "ext4-dax",
    speeds: Speeds {
        read: [860.0, 1147.0, 1196.0],
        append: [435.0, 894.0, 996.0],
    },
    small_write_mib_s: 121.0,
    first_write_mib_s: 373.0,
    create_delete_us: 7.0 + 10.0,
    // Directories are hashed trees: 7 and 9 us, NOVA's 9 and 9.
    scan_us: 0.0,
    fsync_us: 30.0,
    commit_us: 1e6 / 48_249.0,
    zeroed: 1.0,
};

/// A directory is searched from its beginning: webproxy's creating and deleting take 18 and 34 us, NOVA's 18 together.
/// fsync has nothing to do.
pub(crate) const PMFS: FileSystem = FileSystem {
    name: "pmfs",
    speeds: Speeds {
        read: [1412.0, 1816.0, 1943.0],
        append: [887.0, 1407.0, 1620.0],
    },
    small_write_mib_s: 120.0,
    first_write_mib_s: 888.0,
    create_delete_us: 13.0 + 10.0,
    scan_us: 18.0 + 34.0 - 18.0,
    fsync_us: 0.0,
    commit_us: 0.0,
    zeroed: 0.0,
};

/// Files of a directory for which a scan was measured.
const SCANNED_FILES: f64 = 10_000.0;

/// What the writes of a workload do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writes {
    /// They replace what is there: fio.
    InPlace,
    /// They make files longer: logs, new files.
    New,
}

/// What a program does in addition to reads and writes, per operation that moves data.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Metadata {
    /// Files created, and as many deleted.
    pub(crate) created: f64,
    pub(crate) fsyncs: f64,
    /// Files in the directory that it does so in.
    pub(crate) directory_files: f64,
}

/// What one request takes at this bandwidth, ns.
fn request_ns(bytes: f64, mib_s: f64) -> f64 {
    bytes / (mib_s * MIB) * NS_PER_S
}

/// The time of a request, ns: of the next larger size of the table; what is larger than all in proportion.
fn time_ns(speeds: &[f64; 3], bytes: u64) -> f64 {
    let at = SIZES.iter().position(|size| bytes <= *size);
    let at = at.unwrap_or(SIZES.len() - 1);
    let over = (bytes as f64 / SIZES[at] as f64).max(1.0);
    request_ns(SIZES[at] as f64, speeds[at]) * over
}

impl FileSystem {
    fn read_ns(&self, bytes: u64) -> f64 {
        time_ns(&self.speeds.read, bytes) - time_ns(&NOVA.read, bytes)
    }

    /// Compared with NOVA, without the medium's time to write the zeroes.
    fn append_ns(&self, bytes: u64) -> f64 {
        let zeroes_ns = self.zeroed * request_ns(bytes as f64, RAW_WRITE_MIB_S);
        time_ns(&self.speeds.append, bytes) - time_ns(&NOVA.append, bytes) - zeroes_ns
    }

    /// Time of a block, compared with NOVA's new block: a small write in place, and the rest at the DIMM's speed.
    fn overwrite_ns(&self) -> f64 {
        let small_ns = request_ns(SMALL_BYTES, self.small_write_mib_s);
        let first_ns = request_ns(BLOCK_BYTES, self.first_write_mib_s);
        let in_place_ns = (SMALL_PER_BLOCK * small_ns - first_ns) / (SMALL_PER_BLOCK - 1.0);
        let rest_ns = request_ns(BLOCK_BYTES - SMALL_BYTES, RAW_WRITE_MIB_S);
        in_place_ns + rest_ns - request_ns(BLOCK_BYTES, NOVA_OVERWRITE_MIB_S)
    }

    /// The workload, written for NOVA, on this file system. No operation takes less than nothing.
    pub(crate) fn adapt(&self, workload: &mut Workload, writes: Writes, metadata: Metadata) {
        let scan_us = self.scan_us * metadata.directory_files / SCANNED_FILES;
        let metadata_us = metadata.created
            * (self.create_delete_us - NOVA_CREATE_DELETE_US + scan_us)
            + metadata.fsyncs * self.fsync_us;
        let serial_us = metadata.created * scan_us + metadata.fsyncs * self.commit_us;
        let groups = workload.threads.iter_mut();
        for phase in groups.flat_map(|group| &mut group.phases) {
            let (write_ns, overhead) = match writes {
                Writes::InPlace => (self.overwrite_ns(), 0.0),
                Writes::New => (self.append_ns(phase.request_bytes), self.zeroed),
            };
            let (read, write) = (phase.read_share, 1.0 - phase.read_share);
            let data_ns = read * self.read_ns(phase.request_bytes) + write * write_ns;
            let more_ns = data_ns + metadata_us * NS_PER_US;
            phase.serial_ns = serial_us * NS_PER_US;
            phase.think_ns = (phase.think_ns + more_ns).max(phase.serial_ns);
            phase.write_overhead = overhead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EXT4_DAX, NOVA, PMFS, time_ns};

    #[test]
    fn times_are_those_of_the_table_and_grow_with_the_request() {
        // 4 KiB at 1176 MiB/s.
        assert!((time_ns(&NOVA.read, 4096) - 3321.6).abs() < 0.1);
        let (small, large) = (time_ns(&NOVA.read, 32_768), time_ns(&NOVA.read, 131_072));
        assert!((large / small - 4.0).abs() < 1e-9);
    }

    #[test]
    fn ext4_dax_reads_slower_than_nova_and_both_overwrite_faster() {
        assert!(EXT4_DAX.read_ns(4096) > 1000.0 && PMFS.read_ns(4096) < 0.0);
        assert!(EXT4_DAX.overwrite_ns() < 0.0 && PMFS.overwrite_ns() < 0.0);
        assert!(EXT4_DAX.append_ns(4096) > 3000.0);
    }
}
