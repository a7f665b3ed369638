//! A recording with stand-ins has no name, and is otherwise what was recorded.

mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use egeria_facts::{Facts, FileFacts, FileKey, FileUse, KindFacts, ThreadFacts};
use egeria_machine::{Machine, NodeId, PersistentRegion, RegionKind, Source};
use egeria_trace::{Reader, StandIns, TraceHeader, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use traces::{Place, key, machine, window};

/// Every name begins with it.
const SECRET: &str = "Geheim";
/// Inode numbers that no stand-in has.
const SECRET_INODE: u64 = 1 << 40;

fn name(number: u8) -> String {
    format!("{SECRET}{number}")
}

fn file(number: u8) -> FileKey {
    FileKey {
        volume: u32::from(number % 2),
        inode: SECRET_INODE + u64::from(number),
    }
}

fn uses(files: &[u8]) -> Vec<FileUse> {
    let each = files.iter().map(|number| FileUse {
        file: file(*number),
        read_bytes: u64::from(*number),
        written_bytes: 1,
    });
    each.collect()
}

/// A machine whose description has names.
fn named_machine() -> Machine {
    let mut machine = machine(2);
    machine.name = name(0);
    machine.source = Source::File(PathBuf::from(format!("/home/{SECRET}/machine.toml")).into());
    machine.warnings = vec![name(1)];
    machine.nodes[0].persistent_regions = vec![PersistentRegion {
        name: name(2),
        kind: RegionKind::Dax,
        bytes: 1 << 30,
        persistence_domain: None,
        align_bytes: None,
    }];
    machine
}

/// Threads by their name and files, of three processes; of these all but the first begin short-lived ones.
fn any_facts() -> impl Strategy<Value = Facts> {
    let thread = || (0..6_u8, vec(0..9_u8, 0..3));
    (0..9_u64, vec(thread(), 1..12), vec(thread(), 0..3)).prop_map(|(number, threads, kinds)| {
        let machine = machine(2);
        let threads = threads.iter().zip(0..).map(|((called, files), index)| {
            let mut facts = traces::thread(&machine, index, 1 << 20, 0);
            // The ids of every fourth thread are those of a process.
            facts.key.process_id = 100 + index / 4 * 4;
            facts.name = name(*called);
            facts.files = uses(files);
            facts
        });
        let threads: Vec<ThreadFacts> = threads.collect();
        let mut facts = Facts::of(window(&machine, number, threads));
        let kinds = kinds
            .iter()
            .zip(1..)
            .map(|((called, files), index)| KindFacts {
                command: name(*called),
                files: uses(files),
                node: Some(NodeId(1)),
                ..KindFacts::idle(key(index))
            });
        facts.kinds = kinds.collect();
        facts.files = (0..4)
            .map(|number| FileFacts {
                file: file(number),
                bytes: 1,
                bytes_on: vec![1, 0],
                read_bytes: Vec::new(),
                written_bytes: 0,
                replicas: Vec::new(),
            })
            .collect();
        facts
    })
}

/// The names and files of windows, in order.
fn named(windows: &[Facts]) -> (Vec<String>, Vec<FileKey>) {
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for facts in windows {
        let threads = &facts.window.threads;
        names.extend(threads.iter().map(|thread| thread.name.clone()));
        names.extend(facts.kinds.iter().map(|kind| kind.command.clone()));
        let used = threads.iter().flat_map(|thread| &thread.files);
        let used = used.chain(facts.kinds.iter().flat_map(|kind| &kind.files));
        files.extend(used.map(|used| used.file));
        files.extend(facts.files.iter().map(|file| file.file));
    }
    (names, files)
}

/// The facts without names, and with one inode number for all files.
fn without_names(windows: &[Facts]) -> Vec<Facts> {
    let mut windows = windows.to_vec();
    for facts in &mut windows {
        for thread in &mut facts.window.threads {
            thread.name.clear();
            thread.files.iter_mut().for_each(|used| used.file.inode = 0);
        }
        for kind in &mut facts.kinds {
            kind.command.clear();
            kind.files.iter_mut().for_each(|used| used.file.inode = 0);
        }
        facts.files.iter_mut().for_each(|file| file.file.inode = 0);
    }
    windows
}

/// Whether each of `from` became one of `to`, always the same, and no two became one.
fn is_one_to_one<T: Ord, U: Ord>(from: &[T], to: &[U]) -> bool {
    let pairs = || from.iter().zip(to);
    let there: BTreeMap<&T, &U> = pairs().collect();
    let back: BTreeMap<&U, &T> = pairs().map(|(from, to)| (to, from)).collect();
    from.len() == to.len() && pairs().all(|(from, to)| there[from] == to && back[to] == from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_name_is_in_a_recording_with_stand_ins(windows in vec(any_facts(), 1..4)) {
        let (place, real) = (Place::new(), named_machine());
        let path = place.path("trace");
        let header = TraceHeader { policy: "off".to_owned(), ..TraceHeader::default() };
        let mut writer = Writer::create(&path, &StandIns::machine(&real), &header).unwrap();
        let mut stand_ins = StandIns::default();
        for facts in &windows {
            writer.append(&stand_ins.facts(facts)).unwrap();
        }
        writer.finish().unwrap();

        let bytes = fs::read(&path).unwrap();
        prop_assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
        let mut reader = Reader::open(&path).unwrap();
        let head = format!("{:?} {:?}", reader.header(), reader.machine());
        let read: Vec<Facts> = reader.by_ref().map(Result::unwrap).collect();
        let text = format!("{head} {read:?}");
        prop_assert!(!text.contains(SECRET), "{}", text);

        prop_assert_eq!(without_names(&read), without_names(&windows));
        let ((_, recorded_files), (_, files)) = (named(&windows), named(&read));
        prop_assert!(files.iter().all(|file| file.inode < SECRET_INODE));
        prop_assert!(is_one_to_one(&recorded_files, &files));
        let listed = stand_ins.files();
        prop_assert!(listed.iter().all(|pair| recorded_files.contains(&pair.0)));
        prop_assert!(listed.iter().zip(1..).all(|(pair, number)| pair.1.inode == number));
    }

    #[test]
    fn a_name_has_one_stand_in(windows in vec(any_facts(), 1..4)) {
        let mut stand_ins = StandIns::default();
        let replaced: Vec<Facts> = windows.iter().map(|facts| stand_ins.facts(facts)).collect();
        let ((names, _), (stood_in, _)) = (named(&windows), named(&replaced));
        for kind in ["program-", "thread-"] {
            let of_kind = names.iter().zip(&stood_in).filter(|(_, own)| own.starts_with(kind));
            let (names, own): (Vec<_>, Vec<_>) = of_kind.unzip();
            prop_assert!(is_one_to_one(&names, &own), "{:?} {:?}", names, own);
        }
        let listed = stand_ins.names();
        let pairs = names.iter().zip(&stood_in).filter(|(name, _)| !name.is_empty());
        for (name, own) in pairs {
            let is_listed = listed.iter().any(|(listed, of)| listed == own && of == name);
            prop_assert!(is_listed, "{} {:?}", own, listed);
        }
    }
}

#[test]
fn threads_are_called_as_their_program_or_apart() {
    let machine = machine(2);
    let threads = [(100, "db"), (101, "db"), (102, "flusher"), (104, "db")];
    let threads = threads.map(|(id, called)| {
        let mut facts = traces::thread(&machine, 0, 0, 0);
        (facts.key.process_id, facts.key.thread_id) = (id / 4 * 4, id);
        facts.name = called.to_owned();
        facts
    });
    let facts = Facts::of(window(&machine, 0, threads.to_vec()));
    let replaced = StandIns::default().facts(&facts);
    let names = replaced.window.threads.iter();
    let names: Vec<&str> = names.map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["program-1", "program-1", "thread-1", "program-1"]);
}
