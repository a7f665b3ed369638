//! What is said of machines that are not here: their files below a root, and what their kernels would answer.

mod common;

use std::fs;
use std::path::Path;

use common::{FILE, Machine, machine_file, root};
use egeria_doctor::{Facts, Probes, Sampling, SharedMemory, State, Traffic};
use egeria_pages::accesses::damon::Unusable;

#[test]
fn doctor_says_whether_memories_are_counted_for_all_programs() {
    let machine = Machine::new();
    let name = "memory_traffic";
    machine.says(&root(), name, State::Works, &["dram (6 PMUs)"]);
    let with = |traffic| Probes { traffic, ..root() };
    let words = ["may not", "perf_event_paranoid=0"];
    machine.says(&with(Traffic::NotAllowed), name, State::Limited, &words);
    let why = Traffic::Absent("amd_df is not used: it has no file `cpumask`".to_owned());
    machine.says(
        &with(why),
        name,
        State::Absent,
        &["threads are summed", "amd_df"],
    );
}

#[test]
fn doctor_says_how_placements_are_judged() {
    let machine = Machine::new();
    let says = |instructions, state, words: &[&str]| {
        let probes = Probes {
            instructions,
            ..root()
        };
        machine.says(&probes, "work_of_processes", state, words);
    };
    says(Sampling::Works, State::Works, &["is taken back"]);
    says(Sampling::Absent, State::Absent, &["no PMU here"]);
    let words = ["may not count", "perf_event_paranoid=2"];
    says(Sampling::NotAllowed, State::Limited, &words);
}

#[test]
fn doctor_says_why_damon_is_not_used() {
    let machine = Machine::new();
    let says = |damon, state, words: &[&str]| {
        let probes = Probes { damon, ..root() };
        machine.says(&probes, "memory_regions", state, words);
    };
    says(Ok(()), State::Works, &["within a mapping"]);
    let (absent, addresses) = (Unusable::Absent, Unusable::NoAddresses);
    says(Err(absent), State::Absent, &["CONFIG_DAMON_SYSFS"]);
    says(Err(addresses), State::Absent, &["CONFIG_DAMON_VADDR"]);
    says(
        Err(Unusable::InUse),
        State::Limited,
        &["another program uses"],
    );
    says(Err(Unusable::NotAllowed), State::Limited, &["sudo egeria"]);
}

/// The same in a virtual machine that may not sample page faults either.
fn without_events() -> Probes {
    Probes {
        pmu: Sampling::Absent,
        page_faults: Sampling::Absent,
        ..root()
    }
}

#[test]
fn the_best_way_to_see_accesses_and_its_limits_are_shown() {
    let machine = Machine::new();
    let name = "memory_accesses";
    machine.says(&root(), name, State::Works, &["samples of the PMU"]);
    // DAMON, which this one has, is used only where it is asked for.
    let of_virtual_machine = Probes {
        pmu: Sampling::Absent,
        ..root()
    };
    let words = ["page tables", "nor by which thread", "no PMU here"];
    machine.says(&of_virtual_machine, name, State::Works, &words);
    let of_user = Probes {
        pmu: Sampling::NotAllowed,
        damon: Err(Unusable::NotAllowed),
        ..root()
    };
    let words = ["page tables", "may not", "perf_event_paranoid=0"];
    machine.says(&of_user, name, State::Works, &words);
    let without_tables = Probes {
        accesses: Err(libc_error("ENOENT")),
        ..of_virtual_machine
    };
    let words = ["page faults", "memory that a program has already", "CONFIG"];
    machine.says(&without_tables, name, State::Limited, &words);
    machine.file(".dockerenv", "");
    machine.says(
        &of_user,
        name,
        State::Works,
        &["--cap-add BPF --cap-add PERFMON"],
    );
}

#[test]
fn only_persistent_memory_is_absent_on_a_full_machine() {
    let machine = Machine::new();
    machine.file(FILE, &machine_file(&[10.0, 10.0], ""));
    for node in 0..2 {
        let path = format!("sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        machine.file(&path, "1\n");
    }
    for ability in machine.abilities(&root()) {
        let expected = match ability.name {
            "persistent_memory" => State::Absent,
            _ => State::Works,
        };
        assert_eq!(ability.state, expected, "{ability:?}");
        assert!(ability.fix.is_none(), "{ability:?}");
    }
    let facts = machine.facts();
    assert_eq!(facts.version(), Some((6, 12)));
    assert_eq!(facts.transparent_huge_pages.as_deref(), Some("madvise"));
    assert_eq!(
        (facts.huge_pages[0].size_bytes, facts.huge_pages[0].count),
        (2 << 20, 8)
    );
    assert_eq!((facts.container, facts.memory_limit_bytes), (None, None));
}

#[test]
fn users_are_told_what_needs_root() {
    let machine = Machine::new();
    machine.status("0000000000000000", "0-3", "0-1");
    machine.file("proc/sys/kernel/perf_event_paranoid", "3\n");
    let user = Probes {
        is_root: false,
        ..root()
    };
    machine.says(&user, "mounts", State::Limited, &["user_allow_other"]);
    machine.says(
        &user,
        "pages_of_files",
        State::Limited,
        &["sudo egeria where"],
    );
    machine.says(
        &user,
        "memory_of_processes",
        State::Limited,
        &["sudo egeria where PID"],
    );
    machine.says(
        &user,
        "page_cache_placement",
        State::Limited,
        &["sudo egeria warm --mapped"],
    );
    machine.says(
        &user,
        "memory_placement",
        State::Limited,
        &["sudo egeria move"],
    );
    machine.says(
        &user,
        "sampling",
        State::Limited,
        &["perf_event_paranoid is 3", "sysctl -w"],
    );
    let bare = Probes {
        has_fusermount: false,
        ..user
    };
    machine.says(&bare, "mounts", State::Fails, &["apt-get install fuse3"]);
    let closed = Probes {
        fuse: Err(libc_error("EACCES")),
        ..bare
    };
    machine.says(&closed, "mounts", State::Fails, &["may not open /dev/fuse"]);
}

#[test]
fn a_container_is_named_with_the_options_it_lacks() {
    let machine = Machine::new();
    machine.file(".dockerenv", "");
    let capabilities = "00000000a80425fb";
    machine.bounded_status(capabilities, capabilities, "0-1", "0-1");
    let inside = Probes {
        fuse: Err(libc_error("ENOENT")),
        memory_policy: Err(libc_error("EPERM")),
        page_nodes: Err(libc_error("EPERM")),
        shared_memory: Some(SharedMemory {
            bytes: 64 << 20,
            free_bytes: 60 << 20,
        }),
        ..root()
    };
    assert_eq!(machine.facts().container.as_deref(), Some("docker"));
    machine.says(
        &inside,
        "volumes",
        State::Fails,
        &["60.0 MiB free", "--shm-size"],
    );
    machine.says(&inside, "mounts", State::Fails, &["--device /dev/fuse"]);
    let with_device = Probes {
        fuse: Ok(()),
        ..inside.clone()
    };
    machine.says(
        &with_device,
        "mounts",
        State::Fails,
        &["--cap-add SYS_ADMIN"],
    );
    machine.says(
        &inside,
        "pages_of_files",
        State::Fails,
        &["move_pages", "--security-opt seccomp="],
    );
    machine.says(
        &inside,
        "memory_of_processes",
        State::Limited,
        &["SYS_PTRACE"],
    );
    machine.says(
        &inside,
        "page_cache_placement",
        State::Fails,
        &["set_mempolicy", "SYS_NICE"],
    );
    let hidden = Probes {
        page_nodes: Err(libc_error("EPERM")),
        accesses: Err(libc_error("EACCES")),
        ..without_events()
    };
    let placement = ["move_pages", "--security-opt seccomp="];
    machine.says(&hidden, "memory_placement", State::Fails, &placement);
    machine.says(&hidden, "memory_accesses", State::Fails, &["clear_refs"]);
    let without_bpf = Probes {
        bpf: Err(libc_error("EPERM")),
        ..root()
    };
    let capabilities = "000000c0a80425fb";
    machine.bounded_status(capabilities, capabilities, "0-1", "0-1");
    machine.says(
        &without_bpf,
        "sampling",
        State::Limited,
        &["forbids bpf", "--security-opt seccomp="],
    );
    machine.says(&root(), "sampling", State::Works, &[]);
    let unknown = Probes {
        page_nodes: Err(libc_error("ENOSYS")),
        accesses: Err(libc_error("ENOENT")),
        ..without_events()
    };
    machine.says(&unknown, "memory_placement", State::Absent, &["one node"]);
    machine.says(&unknown, "memory_accesses", State::Absent, &["CONFIG"]);
    machine.says(
        &inside,
        "thread_placement",
        State::Limited,
        &["CPUs of 1 of 2 nodes"],
    );
}

#[test]
fn containers_are_known_by_what_their_makers_leave() {
    for (path, text, kind) in [
        (
            "run/systemd/container",
            "systemd-nspawn\n",
            Some("systemd-nspawn"),
        ),
        ("proc/1/environ", "PATH=/bin\0container=lxc\0", Some("lxc")),
        ("run/.containerenv", "", Some("podman")),
        (
            "proc/self/cgroup",
            "3:cpu:/kubepods/pod1\n",
            Some("kubernetes"),
        ),
        ("proc/1/environ", "container=\x1b[31m\0", None),
        ("proc/self/cgroup", "0::/user.slice\n", None),
    ] {
        let machine = Machine::new();
        machine.file(path, text);
        assert_eq!(machine.facts().container.as_deref(), kind, "{path}");
    }
}

#[test]
fn the_lowest_memory_limit_counts() {
    let machine = Machine::new();
    machine.file("proc/self/cgroup", "0::/a/b\n");
    machine.file("sys/fs/cgroup/a/memory.max", "1073741824\n");
    machine.file("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_eq!(machine.facts().memory_limit_bytes, Some(1 << 30));
    machine.says(&root(), "volumes", State::Limited, &["1.00 GiB", "ENOMEM"]);
    machine.says(
        &root(),
        "page_cache_placement",
        State::Limited,
        &["1.00 GiB"],
    );
    machine.file("proc/self/cgroup", "5:cpu,memory:/x\n0::/\n");
    machine.file(
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n",
    );
    assert_eq!(machine.facts().memory_limit_bytes, None);
    machine.file("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n");
    assert_eq!(machine.facts().memory_limit_bytes, Some(4096));
}

#[test]
fn what_disturbs_placement_is_told_with_its_command() {
    let machine = Machine::new();
    machine.status("000001ffffffffff", "0-1", "0");
    machine.says(
        &root(),
        "thread_placement",
        State::Limited,
        &["CPUs of 1 of 2 nodes"],
    );
    machine.says(
        &root(),
        "page_cache_placement",
        State::Limited,
        &["memory of 1 of 2 nodes"],
    );
    let forbidden = Probes {
        affinity: Err(libc_error("EPERM")),
        ..root()
    };
    machine.says(
        &forbidden,
        "thread_placement",
        State::Fails,
        &["sched_setaffinity"],
    );
}

#[test]
fn old_kernels_lack_what_they_lack() {
    let machine = Machine::new();
    fs::remove_file(machine.0.path().join("sys/kernel/btf/vmlinux")).unwrap();
    fs::remove_file(machine.0.path().join("proc/self/numa_maps")).unwrap();
    machine.file("proc/filesystems", "nodev\ttmpfs\n");
    let old = Probes {
        cachestat: Err(libc_error("ENOSYS")),
        fuse: Err(libc_error("ENOENT")),
        shared_memory: None,
        ..root()
    };
    machine.says(&old, "pages_of_files", State::Limited, &["Linux 6.5"]);
    machine.says(
        &old,
        "memory_of_processes",
        State::Absent,
        &["nothing is remote"],
    );
    machine.says(&old, "mounts", State::Fails, &["modprobe fuse"]);
    machine.says(&old, "volumes", State::Fails, &["mount -t tmpfs"]);
    machine.says(&old, "sampling", State::Limited, &["BTF"]);
    let without_nodes = Probes {
        page_nodes: Err(libc_error("ENOSYS")),
        memory_policy: Err(libc_error("ENOSYS")),
        ..root()
    };
    machine.says(
        &without_nodes,
        "pages_of_files",
        State::Absent,
        &["no NUMA support"],
    );
    machine.says(
        &without_nodes,
        "page_cache_placement",
        State::Absent,
        &["one node"],
    );
    // What else a kernel answers is named, not guessed at.
    let strange = Probes {
        memory_policy: Err(libc_error("EINVAL")),
        ..root()
    };
    machine.says(
        &strange,
        "page_cache_placement",
        State::Fails,
        &["set_mempolicy", "Invalid argument"],
    );
}

#[test]
fn persistent_memory_is_named() {
    let machine = Machine::new();
    machine.file("sys/bus/nd/devices/region0/size", "137438953472\n");
    machine.file("sys/bus/nd/devices/region0/numa_node", "1\n");
    machine.says(
        &root(),
        "persistent_memory",
        State::Works,
        &["128 GiB in region0", "--region=region0"],
    );
}

#[test]
fn nonsense_in_files_is_no_fact() {
    let machine = Machine::new();
    for path in [
        "proc/self/status",
        "proc/self/cgroup",
        "proc/sys/kernel/numa_balancing",
        "proc/sys/kernel/osrelease",
    ] {
        machine.file(
            path,
            "\u{fffd}:::\n::\nCapEff:\tzz\nCpus_allowed_list: 9-1\n",
        );
    }
    fs::write(machine.0.path().join("proc/filesystems"), [0xff, 0xfe]).unwrap();
    let facts = machine.facts();
    assert_eq!((facts.numa_balancing, facts.version()), (None, None));
    assert!(facts.allowed_cpus.is_empty() && facts.capabilities.names().is_empty());
    assert!(Facts::read(Path::new("/nowhere")).is_err());
}

fn libc_error(name: &str) -> i32 {
    use rustix::io::Errno;
    let errno = match name {
        "EACCES" => Errno::ACCESS,
        "EPERM" => Errno::PERM,
        "ENOENT" => Errno::NOENT,
        "ENOSYS" => Errno::NOSYS,
        "EINVAL" => Errno::INVAL,
        _ => panic!("{name}"),
    };
    errno.raw_os_error()
}
