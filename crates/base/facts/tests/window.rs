//! What windows say about themselves, and what is refused in one that came from outside.

use egeria_facts::{
    FileUse, MAX_COUNTER, MAX_DURATION_NS, MAX_FILES, ThreadFacts, ThreadKey, Window, WindowError,
    printable_name,
};
use egeria_machine::{Machine, NodeId};

fn machine() -> Machine {
    Machine::profile("dram-2s").expect("it ships with Egeria")
}

fn thread(number: u32, node: u16) -> ThreadFacts {
    let key = ThreadKey {
        process_id: 7,
        thread_id: number,
        start_ticks: 99,
    };
    ThreadFacts::idle(key, NodeId(node), 2, "0-1".parse().expect("a list"))
}

/// Thread 1 on node 0 read 300 + 100 and wrote 100; thread 2 on node 1 read 500 from node 0.
fn window() -> Window {
    let mut window = Window::empty(&machine(), 3, 1000, 500_000_000);
    let mut one = thread(1, 0);
    one.read_bytes = vec![300, 100];
    one.written_bytes = vec![100, 0];
    let mut two = thread(2, 1);
    two.read_bytes = vec![500, 0];
    window.threads = vec![one, two];
    window
}

fn refused(change: impl FnOnce(&mut Window)) -> WindowError {
    let mut window = window();
    change(&mut window);
    let error = window.validate(&machine()).expect_err("it is wrong");
    let line = error.to_string();
    assert!(
        line.starts_with("window 3: ") && line.contains("; ") && !line.contains('\n'),
        "{line}"
    );
    error
}

#[test]
fn totals_rates_and_local_shares() {
    let (window, machine) = (window(), machine());
    assert_eq!(window.validate(&machine), Ok(()));
    assert_eq!((window.read_total(), window.written_total()), (900, 100));
    assert_eq!(window.seconds(), 0.5);
    assert_eq!(window.rate_bytes_s(100), 200.0);
    assert_eq!(window.local_share(&machine), Some(0.4));
    assert_eq!(window.threads[0].local_share(&machine), Some(0.8));
    assert_eq!(window.threads[1].local_share(&machine), Some(0.0));
    assert_eq!(thread(9, 0).local_share(&machine), None);
    assert_eq!(
        window.thread(window.threads[1].key),
        Some(&window.threads[1])
    );
}

#[test]
fn a_window_without_length_has_no_rates_and_is_refused() {
    let none = Window::empty(&machine(), 0, 0, 0);
    assert_eq!(none.rate_bytes_s(5), 0.0);
    assert!(matches!(
        refused(|window| window.duration_ns = 0),
        WindowError::Duration { .. }
    ));
    let day = |window: &mut Window| window.duration_ns = MAX_DURATION_NS + 1;
    assert!(matches!(refused(day), WindowError::Duration { .. }));
}

#[test]
fn nodes_must_be_the_machines() {
    for error in [
        refused(|window| window.nodes.truncate(1)),
        refused(|window| window.nodes.swap(0, 1)),
        refused(|window| window.nodes[1].node = NodeId(5)),
    ] {
        assert!(matches!(error, WindowError::OtherMachine { .. }), "{error}");
    }
    let error = refused(|window| window.threads[0].node = NodeId(2));
    let node = NodeId(2);
    assert!(
        matches!(error, WindowError::NoSuchNode { node: named, .. } if named == node),
        "{error}"
    );
}

#[test]
fn every_thread_has_one_counter_per_node() {
    for error in [
        refused(|window| window.threads[1].read_bytes.push(0)),
        refused(|window| window.threads[1].written_bytes.clear()),
    ] {
        assert!(
            matches!(error, WindowError::Counters { nodes: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn counters_that_could_overflow_a_sum_are_refused() {
    let over = MAX_COUNTER + 1;
    for error in [
        refused(|window| window.threads[0].read_bytes[1] = over),
        refused(|window| window.threads[0].written_bytes[0] = over),
        refused(|window| window.threads[0].busy_ns = over),
        refused(|window| window.nodes[0].read_bytes = over),
        refused(|window| window.nodes[1].written_bytes = over),
        refused(|window| window.nodes[1].busy_ns = u64::MAX),
        refused(|window| {
            let read_bytes = over;
            let file = FileUse {
                read_bytes,
                ..FileUse::default()
            };
            window.threads[0].files.push(file);
        }),
    ] {
        assert!(matches!(error, WindowError::Counter { .. }), "{error}");
    }
}

#[test]
fn sums_of_unchecked_counters_do_not_overflow() {
    let mut window = window();
    for thread in &mut window.threads {
        thread.read_bytes.fill(u64::MAX);
        thread.written_bytes.fill(u64::MAX);
    }
    assert_eq!(
        (window.read_total(), window.written_total()),
        (u64::MAX, u64::MAX)
    );
    assert_eq!(window.local_share(&machine()), Some(1.0));
}

#[test]
fn one_thread_is_there_once() {
    let twice = refused(|window| {
        let again = window.threads[0].clone();
        window.threads.push(again);
    });
    assert!(matches!(twice, WindowError::Twice { .. }), "{twice}");
    let mut reused = window();
    let mut later = reused.threads[0].clone();
    later.key.start_ticks += 1;
    reused.threads.push(later);
    assert_eq!(
        reused.validate(&machine()),
        Ok(()),
        "a reused id is another thread"
    );
}

#[test]
fn names_and_files_are_bounded_and_names_printable() {
    let long = refused(|window| window.threads[0].name = "x".repeat(65));
    let many = refused(|window| window.threads[0].files = vec![FileUse::default(); MAX_FILES + 1]);
    for error in [long, many] {
        assert!(matches!(error, WindowError::TooMany { .. }), "{error}");
    }
    let escape = refused(|window| window.threads[0].name = "\u{1b}[2J".to_owned());
    assert!(matches!(escape, WindowError::Name { .. }), "{escape}");
}

#[test]
fn names_of_threads_are_made_printable() {
    assert_eq!(printable_name(b"fio\n"), "fio");
    assert_eq!(printable_name(b"a\x1b[2Jb"), "a?[2Jb");
    assert_eq!(printable_name(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    assert_eq!(printable_name(&[b'x'; 100]).len(), 64);
}

#[test]
fn windows_survive_json() {
    let window = window();
    let json = serde_json::to_string(&window).expect("plain data");
    let back: Window = serde_json::from_str(&json).expect("what was written");
    assert_eq!(back, window);
}

#[test]
fn threads_are_named_as_people_do() {
    assert_eq!(thread(1, 0).key.to_string(), "thread 1 of process 7");
}
