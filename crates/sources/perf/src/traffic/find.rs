//! Which PMUs count the traffic of memories.

use std::collections::BTreeSet;
use std::path::Path;

use egeria_machine::{CpuId, LINE_BYTES, Machine, MemoryKind, NodeId, parse_cpu_list};

use crate::event::{DEVICES, Selection, pmu, text};
use crate::format::Words;

/// PMUs of memory: how their names begin.
const FAMILIES: [&str; 4] = ["uncore_imc", "amd_umc", "amd_df", "cxl_pmu"];
/// Most PMUs that are looked at.
const MAX_PMUS: usize = 512;
/// Names of the kernel's events for bytes read and written, and which memory they are of. Those of memory controllers
/// that count always (`free_running`) say nothing new where others count.
const EVENTS: [(&str, &str, MemoryKind); 6] = [
    ("cas_count_read", "cas_count_write", MemoryKind::Dram),
    ("read", "write", MemoryKind::Dram),
    ("data_read", "data_write", MemoryKind::Dram),
    ("data_reads", "data_writes", MemoryKind::Dram),
    ("ddrt_read", "ddrt_write", MemoryKind::Persistent),
    ("m2s_req_memrd", "m2s_rwd_memwr", MemoryKind::Expander),
];
/// A count is of no more bytes.
const MAX_COUNT_BYTES: f64 = 1048576.0;

/// What one PMU counts of a memory.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryEvent {
    pub pmu: String,
    pub kind: MemoryKind,
    /// On which CPU it is counted for which node.
    pub(crate) places: Vec<(u32, NodeId)>,
    pub(crate) read: Counted,
    pub(crate) write: Counted,
}

/// An event, and the bytes that each count stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Counted {
    pub(crate) selection: Selection,
    pub(crate) bytes: f64,
}

/// All that count here, and PMUs of memory that cannot be used.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MemoryEvents {
    pub events: Vec<MemoryEvent>,
    /// Why PMUs are left out, one line each.
    pub left_out: Vec<String>,
}

impl MemoryEvents {
    /// Those of the files below `root`.
    pub fn find(root: &Path, machine: &Machine) -> MemoryEvents {
        let devices = root.join(DEVICES);
        let mut found = MemoryEvents::default();
        for name in pmus(&devices) {
            match of_pmu(&devices.join(&name), &name, machine) {
                Ok(events) => found.events.extend(events),
                Err(why) => found.left_out.push(format!("{name} is not used: {why}")),
            }
        }
        let is_free = |event: &MemoryEvent| event.pmu.contains("free_running");
        let kinds = found.events.iter().filter(|event| !is_free(event));
        let counted: BTreeSet<MemoryKind> = kinds.map(|event| event.kind).collect();
        found
            .events
            .retain(|event| !is_free(event) || !counted.contains(&event.kind));
        found
    }

    /// What is counted, in words.
    pub fn description(&self) -> String {
        let kinds: BTreeSet<MemoryKind> = self.events.iter().map(|event| event.kind).collect();
        let of_kind = |kind: &MemoryKind| {
            let of = self.events.iter().filter(|event| event.kind == *kind);
            format!("{} ({} PMUs)", kind.name(), of.count())
        };
        kinds.iter().map(of_kind).collect::<Vec<_>>().join(", ")
    }
}

/// Names of the PMUs of memory, in order. Names that could lead elsewhere are no PMUs.
fn pmus(devices: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(devices).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_word = |name: &String| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        name.len() < 64 && name.chars().all(is_plain)
    };
    let is_memory = |name: &String| FAMILIES.iter().any(|family| name.starts_with(family));
    let mut names: Vec<String> = names.filter(is_memory).filter(is_word).collect();
    names.sort_unstable();
    names.truncate(MAX_PMUS);
    names
}

fn of_pmu(device: &Path, name: &str, machine: &Machine) -> Result<Vec<MemoryEvent>, String> {
    let number = pmu(device).ok_or("its file `type` has no number")?;
    let counts = |event: &str| device.join("events").join(event).exists();
    let pairs = EVENTS.iter();
    let mut pairs = pairs
        .filter(|(read, write, _)| counts(read) && counts(write))
        .peekable();
    if pairs.peek().is_none() {
        return Err("the kernel describes no events of bytes read and written".to_owned());
    }
    let event = |(read, write, kind): &(&str, &str, MemoryKind)| {
        Ok(MemoryEvent {
            pmu: name.to_owned(),
            kind: *kind,
            places: places(device, *kind, machine)?,
            read: counted(device, number, read, *kind)?,
            write: counted(device, number, write, *kind)?,
        })
    };
    pairs.map(event).collect()
}

/// On which CPUs it is read, and which node has that memory: of a memory controller the CPU's node, of a CXL device the node
/// without CPUs.
fn places(
    device: &Path,
    kind: MemoryKind,
    machine: &Machine,
) -> Result<Vec<(u32, NodeId)>, String> {
    let list = text(&device.join("cpumask")).ok_or("it has no file `cpumask`")?;
    let cpus = parse_cpu_list(&list).map_err(|error| format!("its `cpumask` is wrong: {error}"))?;
    if kind == MemoryKind::Expander {
        let mut without = machine.nodes.iter().filter(|node| node.cpus.is_empty());
        let (Some(node), None, Some(cpu)) = (without.next(), without.next(), cpus.first()) else {
            return Err("which node its memory is cannot be told".to_owned());
        };
        return Ok(vec![(u32::from(cpu.0), node.id)]);
    }
    let place = |cpu: &CpuId| {
        let node = machine.node_of_cpu(*cpu);
        let node = node.ok_or(format!(
            "the machine does not have CPU {} of its `cpumask`",
            cpu.0
        ))?;
        Ok((u32::from(cpu.0), node))
    };
    let places: Vec<(u32, NodeId)> = cpus.iter().map(place).collect::<Result<_, String>>()?;
    let nodes: BTreeSet<NodeId> = places.iter().map(|(_, node)| *node).collect();
    let with_cpus = machine.nodes.iter().filter(|node| !node.cpus.is_empty());
    match (nodes.len(), with_cpus.count()) {
        (0, _) => Err("its `cpumask` is empty".to_owned()),
        (count, _) if count < places.len() => Err("it counts a node twice".to_owned()),
        (count, all) if count < all => {
            Err("it counts packages, and a package has several nodes here".to_owned())
        }
        _ => Ok(places),
    }
}

fn counted(device: &Path, pmu: u32, event: &str, kind: MemoryKind) -> Result<Counted, String> {
    let events = device.join("events");
    let described = text(&events.join(event)).ok_or(format!("`events/{event}` is no text"))?;
    let format = |name: &str| {
        let is_plain = name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        text(&device.join("format").join(name)).filter(|_| is_plain)
    };
    let words = Words::described(&described, format, &[]);
    let words = words.ok_or(format!("`events/{event}` makes no sense"))?;
    let of = |suffix: &str| text(&events.join(format!("{event}.{suffix}")));
    let bytes = match (of("scale"), of("unit")) {
        // CXL devices count lines; the kernel gives no scale.
        (None, None) if kind == MemoryKind::Expander => LINE_BYTES as f64,
        (Some(scale), Some(unit)) => {
            let scale: f64 = scale.parse().unwrap_or(f64::NAN);
            scale * unit_bytes(&unit).unwrap_or(f64::NAN)
        }
        _ => return Err(format!("`events/{event}` has no scale or no unit")),
    };
    if (1.0..=MAX_COUNT_BYTES).contains(&bytes) {
        let selection = Selection { pmu, words };
        Ok(Counted { selection, bytes })
    } else {
        Err(format!(
            "the scale or unit of `events/{event}` is none of bytes"
        ))
    }
}

fn unit_bytes(unit: &str) -> Option<f64> {
    let shift = match unit {
        "B" | "Bytes" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    Some(f64::from(1_u32 << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes with CPUs, and one of CXL memory.
    fn machine() -> Machine {
        let text = "name = \"t\"\n[[nodes]]\nid = 0\ncpus = \"0-3\"\n[[nodes]]\nid = 1\ncpus = \"4-7\"\n\
                    [[nodes]]\nid = 2\ncpus = \"\"\nmemory_bytes = 1000000000\n";
        Machine::from_toml(text, Path::new("t")).unwrap()
    }

    fn find(files: &[(&str, &str)]) -> MemoryEvents {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(DEVICES).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        MemoryEvents::find(root.path(), &machine())
    }

    const INTEL: [(&str, &str); 10] = [
        ("uncore_imc_0/type", "12\n"),
        ("uncore_imc_0/cpumask", "0,4\n"),
        ("uncore_imc_0/format/event", "config:0-7\n"),
        ("uncore_imc_0/format/umask", "config:8-15\n"),
        (
            "uncore_imc_0/events/cas_count_read",
            "event=0x04,umask=0x03\n",
        ),
        (
            "uncore_imc_0/events/cas_count_read.scale",
            "6.103515625e-5\n",
        ),
        ("uncore_imc_0/events/cas_count_read.unit", "MiB\n"),
        (
            "uncore_imc_0/events/cas_count_write",
            "event=0x04,umask=0x0c\n",
        ),
        (
            "uncore_imc_0/events/cas_count_write.scale",
            "6.103515625e-5\n",
        ),
        ("uncore_imc_0/events/cas_count_write.unit", "MiB\n"),
    ];
    const CXL: [(&str, &str); 6] = [
        ("cxl_pmu_mem0.0/type", "40\n"),
        ("cxl_pmu_mem0.0/cpumask", "4\n"),
        ("cxl_pmu_mem0.0/format/mask", "config:0-31\n"),
        ("cxl_pmu_mem0.0/format/gid", "config:32-47\n"),
        ("cxl_pmu_mem0.0/events/m2s_req_memrd", "gid=0x20,mask=0x2\n"),
        ("cxl_pmu_mem0.0/events/m2s_rwd_memwr", "gid=0x21,mask=0x2\n"),
    ];

    fn without(
        files: &[(&'static str, &'static str)],
        path: &str,
    ) -> Vec<(&'static str, &'static str)> {
        files
            .iter()
            .filter(|file| file.0 != path)
            .copied()
            .collect()
    }

    fn with(
        files: &[(&'static str, &'static str)],
        path: &'static str,
        text: &'static str,
    ) -> Vec<(&'static str, &'static str)> {
        let mut files = without(files, path);
        files.push((path, text));
        files
    }

    #[test]
    fn controllers_of_intel_count_each_node() {
        let found = find(&INTEL);
        assert_eq!(found.left_out, [""; 0]);
        let [event] = &found.events[..] else {
            panic!("{found:?}");
        };
        assert_eq!(event.places, [(0, NodeId(0)), (4, NodeId(1))]);
        assert_eq!(
            (event.kind, event.read.bytes, event.write.bytes),
            (MemoryKind::Dram, 64.0, 64.0)
        );
        assert_eq!(event.read.selection.pmu, 12);
        assert_eq!(event.write.selection.words.config, 0x0c04);
        assert_eq!(found.description(), "dram (1 PMUs)");
    }

    #[test]
    fn free_running_counters_count_what_others_do_not() {
        let free = INTEL.iter().map(|(path, text)| {
            let path = path.replace("imc_0", "imc_free_running_0");
            (path.replace("cas_count_", "ddrt_"), *text)
        });
        let dram = INTEL.iter().map(|(path, text)| {
            let path = path.replace("imc_0", "imc_free_running_0");
            (path.replace("cas_count_", ""), *text)
        });
        let all: Vec<(String, &str)> = free.chain(dram).collect();
        let mut all: Vec<(&str, &str)> =
            all.iter().map(|(path, text)| (&path[..], *text)).collect();
        let kinds = |found: &MemoryEvents| -> Vec<MemoryKind> {
            found.events.iter().map(|event| event.kind).collect()
        };
        let alone = find(&all);
        assert_eq!(kinds(&alone), [MemoryKind::Dram, MemoryKind::Persistent]);
        all.extend(INTEL);
        let both = find(&all);
        assert_eq!(kinds(&both), [MemoryKind::Dram, MemoryKind::Persistent]);
        assert_eq!(both.events[0].pmu, "uncore_imc_0");
    }

    #[test]
    fn cxl_devices_count_lines_of_the_node_without_cpus() {
        let found = find(&CXL);
        let [event] = &found.events[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (event.kind, &event.places[..]),
            (MemoryKind::Expander, &[(4, NodeId(2))][..])
        );
        assert_eq!(event.read.bytes, 64.0);
        assert_eq!(event.read.selection.words.config, 0x20 << 32 | 2);
    }

    #[test]
    fn amd_is_used_only_where_the_kernel_describes_events() {
        let bare = [
            ("amd_umc_0/type", "20\n"),
            ("amd_df/type", "15\n"),
            ("amd_umc_0/cpumask", "0,4\n"),
        ];
        let found = find(&bare);
        assert!(found.events.is_empty());
        let why = "the kernel describes no events of bytes read and written";
        let lines = [
            format!("amd_df is not used: {why}"),
            format!("amd_umc_0 is not used: {why}"),
        ];
        assert_eq!(found.left_out, lines);
        let described = INTEL.iter().map(|(path, text)| {
            let path = path.replace("uncore_imc_0", "amd_umc_0");
            (path.replace("cas_count_", "data_"), *text)
        });
        let described: Vec<(String, &str)> = described.collect();
        let files: Vec<(&str, &str)> = described
            .iter()
            .map(|(path, text)| (&path[..], *text))
            .collect();
        assert_eq!(find(&files).events.len(), 1);
    }

    #[test]
    fn missing_malformed_and_hostile_files_are_named() {
        let long = Box::leak("0,".repeat(1 << 16).into_boxed_str());
        for (files, why) in [
            (without(&INTEL, "uncore_imc_0/type"), "`type` has no number"),
            (
                with(&INTEL, "uncore_imc_0/type", "-1\n"),
                "`type` has no number",
            ),
            (without(&INTEL, "uncore_imc_0/cpumask"), "no file `cpumask`"),
            (
                with(&INTEL, "uncore_imc_0/cpumask", "a\n"),
                "`cpumask` is wrong",
            ),
            (
                with(&INTEL, "uncore_imc_0/cpumask", long),
                "no file `cpumask`",
            ),
            (
                with(&INTEL, "uncore_imc_0/cpumask", "0,99\n"),
                "does not have CPU 99",
            ),
            (
                with(&INTEL, "uncore_imc_0/cpumask", "0\n"),
                "a package has several nodes",
            ),
            (
                with(&INTEL, "uncore_imc_0/cpumask", "0,1,4\n"),
                "counts a node twice",
            ),
            (
                with(&INTEL, "uncore_imc_0/format/umask", "config:9-1"),
                "cas_count_read` makes no sense",
            ),
            (
                with(&INTEL, "uncore_imc_0/events/cas_count_read", "../../x=1"),
                "makes no sense",
            ),
            (
                with(&INTEL, "uncore_imc_0/events/cas_count_write.scale", "nan"),
                "is none of bytes",
            ),
            (
                with(&INTEL, "uncore_imc_0/events/cas_count_write.scale", "-1"),
                "is none of bytes",
            ),
            (
                with(&INTEL, "uncore_imc_0/events/cas_count_write.scale", "1e300"),
                "is none of bytes",
            ),
            (
                with(&INTEL, "uncore_imc_0/events/cas_count_write.unit", "Joules"),
                "is none of bytes",
            ),
            (
                without(&INTEL, "uncore_imc_0/events/cas_count_read.unit"),
                "no scale or no unit",
            ),
            (
                without(&INTEL, "uncore_imc_0/events/cas_count_read"),
                "describes no events",
            ),
            (with(&CXL, "cxl_pmu_mem0.0/cpumask", "\n"), "cannot be told"),
        ] {
            let found = find(&files);
            assert!(found.events.is_empty(), "{why}: {found:?}");
            assert!(
                found.left_out.len() == 1 && found.left_out[0].contains(why),
                "{why}: {found:?}"
            );
            assert!(!found.left_out[0].contains('\n') && found.left_out[0].len() < 300);
        }
        let nothing = MemoryEvents::find(Path::new("/nowhere"), &machine());
        assert_eq!(nothing, MemoryEvents::default());
    }
}
