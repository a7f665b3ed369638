//! What works, and the command that makes the rest work.

use egeria_machine::{RegionKind, format_bytes};
use egeria_pages::accesses::Way;
use egeria_pages::accesses::damon::Unusable;
use serde::Serialize;

use crate::capabilities::Capability;
use crate::facts::Facts;
use crate::placement;
use crate::probes::{Probes, Sampling, Traffic};
pub use crate::verdict::State;
use crate::verdict::{Verdict, fails, limited, works};

/// Free space of `/dev/shm` below which volumes of usual sizes cannot be attached.
const MIN_SHARED_BYTES: u64 = 64 << 20;

/// Something that a user of Egeria wants to do.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Ability {
    /// Its name, which does not change.
    pub name: &'static str,
    /// The commands that need it.
    pub commands: &'static str,
    /// How far it works.
    pub state: State,
    pub because: String,
    /// The command that makes it work, or work better.
    pub fix: Option<String>,
}

pub fn of(facts: &Facts, probes: &Probes) -> Vec<Ability> {
    let ability = |name, commands, (state, because, fix): Verdict| Ability {
        name,
        commands,
        state,
        because,
        fix,
    };
    vec![
        ability("volumes", "mkfs, run, check", volumes(facts, probes)),
        ability("mounts", "mount, run", mounts(facts, probes)),
        ability(
            "pages_of_files",
            "where FILE",
            pages_of_files(facts, probes),
        ),
        ability("memory_of_processes", "where PID", processes(facts, probes)),
        ability("page_cache_placement", "warm", warming(facts, probes)),
        ability("memory_placement", "move --pid", moving(facts, probes)),
        ability(
            "memory_accesses",
            "steward --pid, run --no-volume",
            accesses(facts, probes),
        ),
        ability(
            "memory_regions",
            "steward --pid, run --no-volume",
            regions(probes),
        ),
        ability(
            "memory_traffic",
            "steward, run --policy",
            traffic(facts, probes),
        ),
        ability(
            "work_of_processes",
            "steward, trial --pid",
            work(facts, probes),
        ),
        ability(
            "thread_placement",
            "steward, run --policy",
            threads(facts, probes),
        ),
        ability("persistent_memory", "mkfs", persistent_memory(facts)),
        ability(
            "sampling",
            "top --all, steward --pid",
            sampling(facts, probes),
        ),
        ability(
            "machine_file",
            "steward, run --policy",
            placement::machine_file(facts),
        ),
        ability(
            "links",
            "steward --policy asymsched",
            placement::links(facts),
        ),
        ability("node_groups", "steward", placement::groups(facts)),
        ability(
            "interleave_weights",
            "weights, warm --spread, move --spread",
            placement::weights(facts),
        ),
        ability(
            "bandwidth_allocation",
            "steward --set stages.mba=on",
            placement::allocation(facts),
        ),
        ability("numa_balancing", "steward", placement::balancing(facts)),
        ability("numad", "steward", placement::numad(facts)),
    ]
}

fn in_container(facts: &Facts) -> bool {
    facts.container.is_some()
}

fn volumes(facts: &Facts, probes: &Probes) -> Verdict {
    let larger = if in_container(facts) {
        "start the container with --shm-size=4g"
    } else {
        "mount -o remount,size=50% /dev/shm"
    };
    match probes.shared_memory {
        None => fails(
            "/dev/shm is no tmpfs that this user may write; sessions are there",
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        ),
        Some(shared) if shared.free_bytes < MIN_SHARED_BYTES => fails(
            format!(
                "/dev/shm has {} free; sessions are there",
                format_bytes(shared.free_bytes)
            ),
            larger,
        ),
        Some(shared) => match facts.memory_limit_bytes {
            Some(limit) => limited(
                format!(
                    "a control group limits memory to {}, pools in DRAM and sessions included",
                    format_bytes(limit)
                ),
                "raise the limit (systemctl set-property SERVICE MemoryMax=…, docker run --memory …) if volumes report ENOMEM",
            ),
            None => works(format!(
                "/dev/shm has {} free",
                format_bytes(shared.free_bytes)
            )),
        },
    }
}

fn mounts(facts: &Facts, probes: &Probes) -> Verdict {
    match probes.fuse {
        Err(_) if in_container(facts) => fails(
            "the container has no /dev/fuse that can be opened",
            "start the container with --device /dev/fuse --cap-add SYS_ADMIN",
        ),
        Err(libc::ENOENT | libc::ENODEV | libc::ENXIO) if !facts.has_fuse => {
            fails("the kernel module fuse is not loaded", "modprobe fuse")
        }
        Err(libc::EACCES | libc::EPERM) => fails(
            "this user may not open /dev/fuse",
            "chmod 666 /dev/fuse (as udev does), or run as root",
        ),
        Err(_) => fails(
            "/dev/fuse cannot be opened",
            "modprobe fuse && mknod -m 666 /dev/fuse c 10 229",
        ),
        Ok(()) if !probes.has_fusermount && !facts.capabilities.has(Capability::SysAdmin) => fails(
            "only root can mount without fusermount3",
            "apt-get install fuse3",
        ),
        Ok(()) if !may_mount(facts) && in_container(facts) => fails(
            "nothing in this container may mount",
            "start the container with --cap-add SYS_ADMIN, or bind a directory into it that is mounted outside",
        ),
        Ok(()) if !may_mount(facts) => fails(
            "no program that this one starts may mount (CAP_SYS_ADMIN, NoNewPrivs)",
            "run it outside of the sandbox, or as root",
        ),
        Ok(()) if !facts.allows_other && !probes.is_root => limited(
            "mounts are for this user only",
            "echo user_allow_other >> /etc/fuse.conf (as root), then mount --allow-other",
        ),
        Ok(()) => works("/dev/fuse can be opened"),
    }
}

fn may_mount(facts: &Facts) -> bool {
    let sets = [facts.capabilities, facts.reachable_capabilities];
    sets.iter().any(|set| set.has(Capability::SysAdmin))
}

fn pages_of_files(facts: &Facts, probes: &Probes) -> Verdict {
    match (probes.page_nodes, probes.cachestat) {
        (Err(error), _) => without(facts, "move_pages", error, "nothing is remote"),
        (Ok(()), Err(libc::EPERM)) => limited(
            "a sandbox forbids cachestat, so large sparse files take long, and dirty pages are unknown",
            "allow cachestat in the seccomp profile of the container",
        ),
        (Ok(()), Err(_)) => limited(
            "the kernel has no cachestat (Linux 6.5), so large sparse files take long, and dirty pages are unknown",
            "apt-get install -t bookworm-backports linux-image-amd64",
        ),
        (Ok(()), Ok(())) if !probes.is_root => limited(
            "only of files that this user owns or may write",
            "sudo egeria where …",
        ),
        (Ok(()), Ok(())) => works("of all files"),
    }
}

/// Why a call for nodes does not work, and what follows where the kernel knows none.
fn without(facts: &Facts, call: &str, error: i32, so: &str) -> Verdict {
    match error {
        libc::EPERM => sandboxed(facts, call),
        libc::ENOSYS => (
            State::Absent,
            format!("the kernel has no NUMA support: {so}"),
            None,
        ),
        _ => fails(
            format!("{call}: {}", std::io::Error::from_raw_os_error(error)),
            "strace -f egeria doctor, and report what the kernel answers",
        ),
    }
}

fn sandboxed(facts: &Facts, call: &str) -> Verdict {
    let fix = match (in_container(facts), call) {
        (true, "set_mempolicy") => {
            "start the container with --cap-add SYS_NICE, or run egeria outside of it"
        }
        // The profiles of docker and podman forbid it whatever the capabilities.
        (true, "move_pages") => {
            "start the container with --security-opt seccomp=unconfined (or a profile that allows move_pages), or run egeria outside of it"
        }
        (true, _) => "run egeria outside of the container",
        (false, _) => {
            "run it outside of the sandbox (a service: SystemCallFilter=@system-service @resources)"
        }
    };
    fails(format!("a sandbox forbids {call}"), fix)
}

fn processes(facts: &Facts, probes: &Probes) -> Verdict {
    if !facts.has_numa_maps {
        return (
            State::Absent,
            "the kernel has no /proc/PID/numa_maps: nothing is remote".to_owned(),
            None,
        );
    }
    if !facts.capabilities.has(Capability::SysPtrace) {
        let fix = if probes.is_root && in_container(facts) {
            "start the container with --cap-add SYS_PTRACE --pid=host, or run egeria outside of it"
        } else {
            "sudo egeria where PID"
        };
        return limited("only processes of this user", fix);
    }
    if in_container(facts) {
        limited(
            "only processes of this container",
            "run egeria outside of it, or start it with --pid=host",
        )
    } else {
        works("all processes")
    }
}

fn warming(facts: &Facts, probes: &Probes) -> Verdict {
    if let Err(error) = probes.memory_policy {
        return without(facts, "set_mempolicy", error, "there is one node");
    }
    let with_memory = facts
        .machine
        .nodes
        .iter()
        .filter(|node| node.memory_bytes > 0);
    let nodes = with_memory.map(|node| node.id).collect::<Vec<_>>();
    let forbidden = nodes
        .iter()
        .filter(|node| !facts.allowed_nodes.contains(node))
        .count();
    if forbidden > 0 && !facts.allowed_nodes.is_empty() {
        return limited(
            format!(
                "the cpuset of this process allows memory of {} of {} nodes",
                nodes.len() - forbidden,
                nodes.len()
            ),
            "systemctl set-property SERVICE AllowedMemoryNodes= (docker: --cpuset-mems), or run egeria outside of the group",
        );
    }
    if let Some(limit) = facts.memory_limit_bytes {
        return limited(
            format!(
                "a control group limits memory to {}; what is read counts and is dropped again beyond",
                format_bytes(limit)
            ),
            "run it outside of the group: systemd-run --scope -p MemoryMax=infinity egeria warm …",
        );
    }
    if nodes.len() < 2 {
        return works("this machine has one node: files are only read ahead");
    }
    if !facts.capabilities.has(Capability::SysNice) {
        return limited(
            "pages that other processes have mapped are left where they are",
            "sudo egeria warm --mapped …",
        );
    }
    works(format!("into the memory of {} nodes", nodes.len()))
}

fn moving(facts: &Facts, probes: &Probes) -> Verdict {
    let with_memory = facts.machine.nodes.iter();
    let nodes = with_memory.filter(|node| node.memory_bytes > 0).count();
    match probes.page_nodes {
        Err(error) => without(facts, "move_pages", error, "there is one node"),
        Ok(()) if nodes < 2 => works("this machine has one node: there is nothing to move"),
        Ok(()) if !facts.capabilities.has(Capability::SysNice) => limited(
            "memory of this user's processes, without what other processes have mapped, too",
            "sudo egeria move --pid …",
        ),
        Ok(()) => works(format!("between {nodes} nodes")),
    }
}

/// Whether programs outside a volume count when its memory is judged.
fn traffic(facts: &Facts, probes: &Probes) -> Verdict {
    match &probes.traffic {
        Traffic::Works(counted) => works(format!("hardware counts all programs: {counted}")),
        Traffic::NotAllowed => limited(
            "threads are summed; this user may not have memory controllers count all programs",
            if in_container(facts) {
                CONTAINER_WITH_BPF
            } else {
                "sudo egeria …, or sysctl -w kernel.perf_event_paranoid=0"
            },
        ),
        Traffic::Absent(why) => {
            let why = why.split("; ").next().unwrap_or_default();
            let because =
                format!("threads are summed, and programs outside a volume do not count: {why}");
            (State::Absent, because, None)
        }
    }
}

/// Whether a placement can be judged by what programs get done.
fn work(facts: &Facts, probes: &Probes) -> Verdict {
    let instead = "placements are judged by where accesses go";
    match probes.instructions {
        Sampling::Works => works(
            "instructions are counted: a placement after which programs get less done is taken back",
        ),
        Sampling::NotAllowed => limited(
            format!("{instead}: this user may not count instructions"),
            if in_container(facts) {
                CONTAINER_WITH_BPF
            } else {
                "sudo egeria …, or sysctl -w kernel.perf_event_paranoid=2"
            },
        ),
        Sampling::Absent => (
            State::Absent,
            format!("{instead}: no PMU here counts instructions"),
            None,
        ),
    }
}

/// The way that a steward takes: the first that works, of which each sees more than the next.
fn accesses(facts: &Facts, probes: &Probes) -> Verdict {
    if probes.pmu == Sampling::Works {
        return works(Way::Pmu.sees());
    }
    let (pmu, fix) = match probes.pmu {
        Sampling::NotAllowed => (
            "this user may not have its PMU sample accesses",
            Some(if in_container(facts) {
                CONTAINER_WITH_BPF
            } else {
                "sudo egeria …, or sysctl -w kernel.perf_event_paranoid=0"
            }),
        ),
        _ => ("no PMU here samples accesses (PEBS, IBS)", None),
    };
    let (tables, fix_tables) = match probes.accesses {
        Ok(()) => {
            let because = format!("{}; {pmu}", Way::PageTables.sees());
            return (State::Works, because, fix.map(str::to_owned));
        }
        Err(libc::EACCES | libc::EPERM) => {
            let (_, because, fix) = sandboxed(facts, "/proc/PID/clear_refs");
            (because, fix)
        }
        Err(_) => {
            let because = "the kernel does not tell which memory is used (CONFIG_PROC_PAGE_MONITOR, CONFIG_NUMA)";
            (because.to_owned(), None)
        }
    };
    match (&probes.page_faults, fix_tables) {
        (Sampling::Works, fix) => (
            State::Limited,
            format!("{}; {pmu}; {tables}", Way::PageFaults.sees()),
            fix.or_else(|| {
                let kernel =
                    "apt-get install linux-image-amd64 (Debian's kernels have both settings)";
                Some(kernel.to_owned())
            }),
        ),
        (_, Some(fix)) => fails(tables, fix),
        (_, None) => (State::Absent, tables, None),
    }
}

/// Whether the kernel's DAMON can tell used from unused memory within a mapping.
fn regions(probes: &Probes) -> Verdict {
    let because = |why: &Unusable| format!("DAMON is not used: {why}");
    match &probes.damon {
        Ok(()) => {
            works("DAMON tells used from unused memory within a mapping (--memory-source damon)")
        }
        Err(why @ Unusable::NotAllowed) => limited(because(why), "sudo egeria …"),
        Err(why @ Unusable::InUse) => limited(
            because(why),
            "stop what uses it; if nothing does: echo 0 >/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
        ),
        Err(why) => (State::Absent, because(why), None),
    }
}

fn threads(facts: &Facts, probes: &Probes) -> Verdict {
    if probes.affinity.is_err() {
        return sandboxed(facts, "sched_setaffinity");
    }
    let (all, usable) = (facts.cpu_nodes().len(), facts.usable_nodes().len());
    if all < 2 {
        return works(
            "this machine has one node with CPUs: there is nothing to move; emulated machines work",
        );
    }
    if usable < all {
        return limited(
            format!(
                "the affinity or cpuset of this process has CPUs of {usable} of {all} nodes; what it starts has no more"
            ),
            "taskset -c 0-$(($(nproc --all) - 1)) egeria …; for a cpuset: systemctl set-property SERVICE AllowedCPUs=",
        );
    }
    works(format!("between {all} nodes"))
}

fn persistent_memory(facts: &Facts) -> Verdict {
    let regions = facts
        .machine
        .nodes
        .iter()
        .flat_map(|node| &node.persistent_regions);
    let regions: Vec<_> = regions.collect();
    let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
    let all: u64 = regions
        .iter()
        .map(|region| region.bytes)
        .fold(0, u64::saturating_add);
    let Some(first) = regions.first() else {
        let because = "none was found: pools in DRAM (tmpfs) do not survive a power cut";
        return (State::Absent, because.to_owned(), None);
    };
    let found = format!("{} in {}", format_bytes(all), names.join(", "));
    match first.kind {
        RegionKind::Nvdimm => (
            State::Works,
            found,
            Some(format!(
                "if there is no /dev/pmem0 yet: ndctl create-namespace --mode=fsdax --region={}; then mkfs.ext4 /dev/pmem0 && mount -o dax=always /dev/pmem0 /mnt/pmem0",
                first.name
            )),
        ),
        RegionKind::Dax | RegionKind::Cxl => works(found),
    }
}

const CONTAINER_WITH_BPF: &str = "start the container with --cap-add BPF --cap-add PERFMON --pid=host, or run egeria outside of it";

fn sampling(facts: &Facts, probes: &Probes) -> Verdict {
    let may_sample =
        facts.capabilities.has(Capability::Perfmon) || facts.capabilities.has(Capability::SysAdmin);
    let may_load =
        facts.capabilities.has(Capability::Bpf) || facts.capabilities.has(Capability::SysAdmin);
    let paranoid = facts.perf_event_paranoid.unwrap_or(4);
    if !may_sample && paranoid > 1 {
        return limited(
            format!(
                "kernel.perf_event_paranoid is {paranoid}: users cannot sample what the kernel does for them"
            ),
            if in_container(facts) {
                CONTAINER_WITH_BPF
            } else {
                "sysctl -w kernel.perf_event_paranoid=1, or run perf as root"
            },
        );
    }
    if !facts.has_btf {
        return limited(
            "the kernel has no BTF, so files are not counted: `top` estimates, and threads do not follow files",
            "apt-get install linux-image-amd64 (Debian's kernels have BTF)",
        );
    }
    match may_load {
        true if probes.bpf == Err(libc::EPERM) => limited(
            "a sandbox forbids bpf: `top` estimates, and threads do not follow files",
            if in_container(facts) {
                "start the container with --security-opt seccomp=unconfined (or a profile that allows bpf), or run egeria outside of it"
            } else {
                "run it outside of the sandbox"
            },
        ),
        true => works("what threads read and write of files can be counted"),
        false => limited(
            "this user cannot load BPF programs: `top` estimates, and threads do not follow files",
            if in_container(facts) {
                CONTAINER_WITH_BPF
            } else {
                "sudo egeria top …, or CAP_BPF and CAP_PERFMON"
            },
        ),
    }
}
