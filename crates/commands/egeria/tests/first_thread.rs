//! Processes whose first thread has ended: what they have is shown and moved as that of any other.

use crate::common;
use egeria_harness::testing::has_numa_maps;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use common::{Sandbox, eventually, run};
use egeria_harness::fork::Forked;
use egeria_machine::NodeId;

const BYTES: usize = 64 << 20;

/// A process with so much memory and this file open, of which a second thread alone is left.
fn without_first_thread(file: &Path) -> Forked {
    let file = File::open(file).unwrap();
    let (mut ready, mut filled) = std::io::pipe().unwrap();
    let body = move || {
        let open = file;
        let began = std::thread::Builder::new().spawn(move || {
            let held = vec![1_u8; BYTES];
            std::hint::black_box((&held, &open));
            filled.write_all(&[1]).unwrap();
            loop {
                std::thread::park();
            }
        });
        drop(began.unwrap());
        // SAFETY: it ends this thread, which holds nothing that another one waits for.
        unsafe { libc::syscall(libc::SYS_exit, 0) as i32 }
    };
    let process = Forked::run(body).unwrap();
    let id = process.id();
    eventually("its first thread has ended", || {
        let status = fs::read_to_string(format!("/proc/{id}/status"));
        status.is_ok_and(|status| status.contains("State:\tZ"))
    });
    let mut word = [0];
    ready.read_exact(&mut word).expect("it has all its memory");
    process
}

#[test]
fn a_process_without_its_first_thread_is_seen_and_moved() {
    if !has_numa_maps() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.file("file", &"x".repeat(8192));
    let process = without_first_thread(&file);
    let id = process.id().to_string();
    let seen = run(["where", "--json", "--observe", "1", &id]).ok().json();
    let anonymous = seen["nodes"][0]["anonymous_bytes"].as_u64().unwrap();
    assert!(anonymous >= BYTES as u64, "{seen}");
    // The output of the tests may be a file, too.
    let mut open = seen["open"].as_array().unwrap().iter();
    let own = open.find(|open| open["path"].as_str() == file.to_str());
    assert_eq!(own.expect("it is open")["bytes"], 8192, "{seen}");
    let moved = run(["move", "--json", "--pid", &id, "--node", "0"])
        .ok()
        .json();
    assert!(
        moved["there_bytes"].as_u64().unwrap() >= BYTES as u64,
        "{moved}"
    );
    let users = run(["where", "--json", "--observe", "1", file.to_str().unwrap()]);
    let users = users.ok().json()["users"].to_string();
    assert!(users.contains(&format!("\"process_id\":{id}")), "{users}");
}

#[test]
fn the_steward_moves_the_memory_of_such_a_process() {
    if !has_numa_maps() {
        return;
    }
    let sandbox = Sandbox::new();
    let process = without_first_thread(&sandbox.file("file", "x"));
    let id = process.id() as u32;
    let memory = egeria_pages::process::memory(id).unwrap();
    assert!(memory.anonymous.of(NodeId(0)) >= BYTES as u64);
    let began = egeria_proc::task::began(id).unwrap();
    let target = egeria_pages::migrate::Target::Nodes(vec![NodeId(0)]);
    let order = egeria_pages::migrate::Order::of(id, began, target);
    let machine = egeria_machine::Machine::detect().unwrap();
    let done = egeria_pages::migrate::run(&order, &machine, &Default::default()).unwrap();
    assert!(done.outcome.by_node.of(NodeId(0)) >= BYTES as u64);
}
