//! What can be sampled here.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use egeria_machine::parse_cpu_list;
use perf_event_open_sys::bindings;
use rustix::fs::{Mode, OFlags};

use crate::format::Words;

/// Where the kernel describes its PMUs.
pub(crate) const DEVICES: &str = "sys/bus/event_source/devices";
/// Intel names the PMU of its cores so; processors with two kinds of cores have one for each.
const CORES: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];
/// Longest file of a description: a page, as sysfs has it.
const MAX_TEXT_BYTES: u64 = 4096;
/// Loads that took fewer cycles came from a cache near by.
const MIN_LOAD_CYCLES: u64 = 30;

/// What a sample is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A load that took long (Intel, PEBS). Stores are not seen.
    Loads,
    /// An operation of whatever kind (AMD, IBS); of those, loads and stores count.
    Operations,
    /// A page fault. Of memory that a program has already, nothing is seen.
    PageFaults,
}

/// An event that samples addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) selection: Selection,
    /// The event that must be counted in the same group for the PMU to give addresses.
    pub(crate) leader: Option<Selection>,
    /// How near the address of the instruction must be: what asks for PEBS.
    pub(crate) precise: u64,
    /// CPUs that have it; `None`: all.
    pub(crate) cpus: Option<Vec<u32>>,
}

/// As the kernel selects events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    pub(crate) pmu: u32,
    pub(crate) words: Words,
}

impl Event {
    /// Page faults: in software, on every machine.
    pub fn page_faults() -> Event {
        let words = Words {
            config: u64::from(bindings::PERF_COUNT_SW_PAGE_FAULTS),
            ..Words::default()
        };
        Event {
            kind: Kind::PageFaults,
            name: "page-faults".to_owned(),
            selection: Selection {
                pmu: bindings::PERF_TYPE_SOFTWARE,
                words,
            },
            leader: None,
            precise: 0,
            cpus: None,
        }
    }

    /// Those by which the PMU of the machine gives addresses, from the files below `root`; none without such a PMU. On
    /// processors with two kinds of cores there are two.
    pub fn of_pmu(root: &Path) -> Vec<Event> {
        let devices = root.join(DEVICES);
        if let Some(operations) = operations(&devices.join("ibs_op")) {
            return vec![operations];
        }
        let cores = CORES.iter();
        cores
            .filter_map(|name| loads(&devices.join(name), name))
            .collect()
    }

    /// What a sample is of.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its name, as `perf list` has it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A short text file, trimmed. What is no plain file or too long is none.
pub(crate) fn text(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let read = file
        .take(MAX_TEXT_BYTES + 1)
        .read_to_string(&mut text)
        .ok()?;
    (read as u64 <= MAX_TEXT_BYTES).then(|| text.trim().to_owned())
}

pub(crate) fn pmu(device: &Path) -> Option<u32> {
    text(&device.join("type"))?.parse().ok()
}

/// AMD's sampling of instructions: counts operations where it can, else cycles.
fn operations(device: &Path) -> Option<Event> {
    let mut words = Words::default();
    if let Some(format) = text(&device.join("format/cnt_ctl")) {
        words.set(&format, 1)?;
    }
    Some(Event {
        kind: Kind::Operations,
        name: "ibs_op".to_owned(),
        selection: Selection {
            pmu: pmu(device)?,
            words,
        },
        leader: None,
        precise: 0,
        cpus: None,
    })
}

/// Intel's loads with their latency, where the PMU samples precisely.
fn loads(device: &Path, name: &str) -> Option<Event> {
    let pmu = pmu(device)?;
    let precise = text(&device.join("caps/max_precise"));
    let precise: u64 = precise.map_or(Some(2), |level| level.parse().ok())?;
    let format = |name: &str| text(&device.join("format").join(name));
    let selection = |event: &str| {
        let described = text(&device.join("events").join(event))?;
        let replaced = [("ldlat", MIN_LOAD_CYCLES)];
        let words = Words::described(&described, format, &replaced)?;
        Some(Selection { pmu, words })
    };
    let cpus = text(&device.join("cpus")).and_then(|list| parse_cpu_list(&list).ok());
    (precise > 0).then_some(Event {
        kind: Kind::Loads,
        name: format!("{name}/mem-loads"),
        selection: selection("mem-loads")?,
        leader: selection("mem-loads-aux"),
        precise: precise.min(2),
        cpus: cpus.map(|cpus| cpus.iter().map(|cpu| u32::from(cpu.0)).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(tempfile::TempDir);

    impl Root {
        fn with(files: &[(&str, &str)]) -> Root {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(DEVICES).join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Root(root)
        }

        fn events(&self) -> Vec<Event> {
            Event::of_pmu(self.0.path())
        }
    }

    const INTEL: [(&str, &str); 6] = [
        ("cpu/type", "4\n"),
        ("cpu/caps/max_precise", "3\n"),
        ("cpu/format/event", "config:0-7\n"),
        ("cpu/format/umask", "config:8-15\n"),
        ("cpu/format/ldlat", "config1:0-15\n"),
        ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
    ];

    #[test]
    fn loads_of_intel_are_found_with_what_must_count_beside_them() {
        let events = Root::with(&INTEL).events();
        let [event] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((event.kind, event.name()), (Kind::Loads, "cpu/mem-loads"));
        assert_eq!((event.precise, event.leader), (2, None));
        let words = event.selection.words;
        assert_eq!((words.config, words.config1), (0x1cd, MIN_LOAD_CYCLES));
        let aux = ("cpu/events/mem-loads-aux", "event=0x03,umask=0x82\n");
        let newer = Root::with(&[&INTEL[..], &[aux]].concat()).events();
        assert_eq!(newer[0].leader.unwrap().words.config, 0x8203);
    }

    #[test]
    fn cores_of_two_kinds_have_an_event_each() {
        let both = ["cpu_core", "cpu_atom"].map(|core| {
            let of =
                |file: &(&'static str, &'static str)| (file.0.replacen("cpu", core, 1), file.1);
            INTEL.iter().map(of).collect::<Vec<_>>()
        });
        let both = both.concat();
        let mut files: Vec<(&str, &str)> = both
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        files.extend([("cpu_core/cpus", "0-3\n"), ("cpu_atom/cpus", "4,5\n")]);
        let events = Root::with(&files).events();
        let cpus: Vec<_> = events.iter().map(|event| event.cpus.clone()).collect();
        assert_eq!(cpus, [Some(vec![0, 1, 2, 3]), Some(vec![4, 5])]);
    }

    #[test]
    fn operations_of_amd_are_found() {
        let files = [
            ("ibs_op/type", "11\n"),
            ("ibs_op/format/cnt_ctl", "config:19\n"),
        ];
        let events = Root::with(&files).events();
        assert_eq!(events[0].selection.words.config, 1 << 19);
        assert_eq!(
            (events[0].selection.pmu, events[0].kind),
            (11, Kind::Operations)
        );
        // The first processors with IBS count cycles only.
        let old = Root::with(&files[..1]).events();
        assert_eq!(old[0].selection.words, Words::default());
    }

    #[test]
    fn without_such_a_pmu_there_is_none() {
        assert!(Root::with(&[("software/type", "1\n")]).events().is_empty());
        let mut virtual_machine = INTEL;
        virtual_machine[1].1 = "0\n";
        assert!(Root::with(&virtual_machine).events().is_empty());
        for (index, text) in [(0, "four\n"), (1, "many\n"), (2, "config:9-1\n"), (5, "")] {
            let mut damaged = INTEL;
            damaged[index].1 = text;
            assert!(Root::with(&damaged).events().is_empty(), "{index}");
        }
        assert!(Event::of_pmu(Path::new("/nowhere")).is_empty());
    }
}
