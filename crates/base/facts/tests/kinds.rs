//! Short-lived processes, and what their parents are credited with.

use std::borrow::Cow;

use egeria_facts::{
    Facts, FileKey, FileUse, KindFacts, MAX_COUNTER, ThreadFacts, ThreadKey, Window,
};
use egeria_machine::{Machine, NodeId};

fn machine() -> Machine {
    Machine::profile("dram-2s").expect("it ships with Egeria")
}

fn key(process_id: u32) -> ThreadKey {
    ThreadKey {
        process_id,
        thread_id: process_id,
        start_ticks: 9,
    }
}

fn a_use(inode: u64, read_bytes: u64) -> FileUse {
    FileUse {
        file: FileKey { volume: 0, inode },
        read_bytes,
        written_bytes: 0,
    }
}

/// A shell on node 0 that read 10 bytes itself; its children read 500 on node 1.
fn facts() -> Facts {
    let mut window = Window::empty(&machine(), 0, 0, 1_000_000_000);
    let mut shell = ThreadFacts::idle(key(7), NodeId(0), 2, "0-1".parse().expect("a list"));
    shell.read_bytes = vec![10, 0];
    shell.files = vec![a_use(1, 10)];
    let other = ThreadFacts {
        key: key(8),
        ..shell.clone()
    };
    window.threads = vec![shell, other];
    let mut facts = Facts::of(window);
    facts.kinds = vec![KindFacts {
        windows: 3,
        node: Some(NodeId(1)),
        busy_ns: 70,
        read_bytes: vec![500, 0],
        written_bytes: vec![0, 0],
        files: vec![a_use(1, 400), a_use(2, 100)],
        ..KindFacts::idle(key(7))
    }];
    facts
}

#[test]
fn a_parent_is_credited_with_what_its_children_did() {
    let facts = facts();
    assert_eq!(facts.validate(&machine()), Ok(()));
    let credited = facts.credited();
    assert_eq!(credited.validate(&machine()), Ok(()));
    let [shell, other] = &credited.window.threads[..] else {
        panic!("{credited:?}");
    };
    assert_eq!((shell.node, shell.busy_ns), (NodeId(1), 70));
    assert_eq!(shell.read_bytes, [510, 0]);
    assert_eq!(shell.files, [a_use(1, 410), a_use(2, 100)]);
    assert_eq!(*other, facts.window.threads[1]);
    assert!(matches!(credited.credited(), Cow::Borrowed(_)), "once");
}

#[test]
fn what_was_seen_once_or_twice_is_credited_to_none() {
    let mut facts = facts();
    facts.kinds[0].windows = 2;
    assert_eq!(facts.credited().window, facts.window);
}

#[test]
fn kinds_that_do_not_fit_are_refused() {
    let changes: [fn(&mut Facts); 6] = [
        |facts| facts.kinds.push(facts.kinds[0].clone()),
        |facts| facts.kinds[0].node = Some(NodeId(9)),
        |facts| facts.kinds[0].read_bytes.push(0),
        |facts| facts.kinds[0].busy_ns = MAX_COUNTER + 1,
        |facts| facts.kinds[0].command = "a\u{1b}[2J".to_owned(),
        |facts| facts.kinds[0].files[0].read_bytes = u64::MAX,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut facts = facts();
        change(&mut facts);
        let error = facts.validate(&machine()).expect_err("it is wrong");
        let line = error.to_string();
        assert!(
            line.contains("process 7") && line.contains("; "),
            "{index}: {line}"
        );
    }
}
