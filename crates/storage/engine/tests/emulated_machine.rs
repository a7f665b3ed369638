//! Volumes of one emulated machine meet at its memories.

use crate::common::{Scratch, sessions};
use egeria_engine::*;
use egeria_machine::{Machine, MemoryKind};
use std::path::PathBuf;

/// A machine of this name, so that tests that run beside this one have another.
fn machine(name: &str) -> Machine {
    let mut machine = Machine::profile("optane-1s").expect("a profile");
    machine.name = name.to_owned();
    let emulated = machine.emulate(16.0).expect("it says all of its memories");
    emulated.standing_here().expect("CPUs")
}

fn on(machine: &Machine, memory: MemoryKind) -> AttachOptions {
    AttachOptions {
        machine: Some(machine.clone()),
        memory: Some(memory),
        share_machine: Some(machine.name.clone()),
        ..AttachOptions::default()
    }
}

/// The memory of the machine of this name.
fn memory_of(machine: &str) -> Option<PathBuf> {
    let wanted = format!("\"name\":\"{machine}\"").into_bytes();
    let entries = std::fs::read_dir(sessions())
        .expect("a directory")
        .flatten();
    let names = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let machines = entries.filter(|entry| names(entry).starts_with("machine-"));
    let mut paths = machines.map(|entry| entry.path());
    paths.find(|path| {
        // It may go while it is looked for: others leave theirs.
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(wanted.len()).any(|part| part == wanted)
    })
}

#[test]
fn volumes_share_a_machine_until_the_last_detaches() {
    let machine = machine("shared");
    let (first, second) = (Scratch::new(1, 32 << 20), Scratch::new(1, 32 << 20));
    let persistent = first.attach_with(&on(&machine, MemoryKind::Persistent));
    let dram = second.attach_with(&on(&machine, MemoryKind::Dram));
    let memory = memory_of("shared").expect("the memory of this machine");
    assert_eq!(dram.declared_machine(), Some(machine.clone()));
    assert!(persistent.emulation().is_on() && dram.emulation().is_on());
    let clocks = || [&persistent, &dram].map(|volume| volume.emulation().machine_now_ns());
    let [first_ns, second_ns] = clocks();
    assert!(
        first_ns <= second_ns && second_ns - first_ns < 1_000_000_000,
        "one clock"
    );
    persistent.set_timing(false);
    assert!(dram.emulation().is_on(), "of one volume alone");
    persistent.detach();
    assert!(memory.exists(), "still in use");
    assert!(dram.emulation().is_on());
    dram.detach();
    assert!(!memory.exists(), "nobody uses it");
}

#[test]
fn volumes_that_share_nothing_have_machines_of_their_own() {
    let machine = machine("apart");
    let alone = AttachOptions {
        share_machine: None,
        ..on(&machine, MemoryKind::Dram)
    };
    let scratches = [Scratch::new(1, 32 << 20), Scratch::new(1, 32 << 20)];
    let [first, second] = scratches
        .each_ref()
        .map(|scratch| scratch.attach_with(&alone));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let third = Scratch::new(1, 32 << 20);
    let later = third.attach_with(&alone);
    let now_ns = [&first, &second, &later].map(|volume| volume.emulation().machine_now_ns());
    assert!(
        now_ns[2] + 2_000_000 < now_ns[0],
        "a clock of its own: {now_ns:?}"
    );
}

#[test]
fn memory_that_the_machine_lacks_is_refused_in_one_line() {
    let scratch = Scratch::new(1, 32 << 20);
    let options = on(&machine("lacking"), MemoryKind::Expander);
    let attached = Volume::attach(&scratch.pools[0], AttachMode::CreateOrJoin, &options);
    let error = attached.err().expect("no expander in it");
    assert_eq!(error.errno, libc::EINVAL);
    let line = error.to_string();
    assert!(
        line.contains("node 0") && line.contains("no expander memory"),
        "{line}"
    );
    assert!(line.contains("--memory"), "{line}");
    // And nothing of it is left.
    scratch.attach().detach();
}

#[test]
fn machine_whose_users_were_killed_is_made_anew() {
    let machine = machine("left");
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach_with(&on(&machine, MemoryKind::Dram));
    let memory = memory_of("left").expect("the memory of this machine");
    volume.detach();
    // As a kill leaves it: a file of that name which nobody maps, here damaged as well.
    std::fs::write(&memory, [1; 4096]).expect("a file");
    let volume = scratch.attach_with(&on(&machine, MemoryKind::Dram));
    assert_eq!(volume.declared_machine(), Some(machine));
    volume.detach();
    assert!(!memory.exists());
}
