//! Programs that die in the middle of a direct call, and mounts that die while one waits for them: every name is what it
//! was or what it was to be, nothing stays open, and nobody waits for the dead.
//!
//! `EGERIA_TEST_CASES` sets how often a program dies in each kind of call.

mod mount;
mod scene;

use crate::common::{Mounted, finish, program};
use egeria_stats::rng::Rng;
use mount::MountProcess;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use scene::{CALLS, Call, Observer, PATIENCE, Place};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// No lease is granted on what was changed past the kernel just now (`mount::leases`).
const REST: Duration = Duration::from_millis(150);

fn deaths() -> u64 {
    let cases = std::env::var("EGERIA_TEST_CASES");
    cases.ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// The program, to make one of the calls in a place.
fn calling(mut command: Command, place: &Place, call: &Call) -> Command {
    command.arg(call.rule).current_dir(place.path());
    command
}

/// Let it die after so many instructions; how many it took when it did not come so far.
fn die_after(instructions: u64, command: &mut Command) -> Result<(), u64> {
    let Output {
        status,
        stdout,
        stderr,
    } = finish(command.arg(instructions.to_string()));
    if status.signal() == Some(libc::SIGKILL) {
        return Ok(());
    }
    assert!(
        status.success(),
        "{status} {}",
        String::from_utf8_lossy(&stderr)
    );
    Err(String::from_utf8_lossy(&stdout).trim().parse().unwrap())
}

#[test]
fn a_direct_call_killed_at_any_instruction_happened_or_not() {
    // Leases rest after a recall: it takes long to get through a call instruction by instruction.
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let mut random = Rng::new(0xDEAD);
    for call in CALLS {
        let place = |number| Place::make(mounted.point(), &format!("{}{number}", call.rule));
        // One more, to count the instructions.
        let places: Vec<Place> = (0..=deaths()).map(place).collect();
        std::thread::sleep(REST);
        let (mut whole, mut killed, mut happened) = (i64::MAX as u64, 0, 0);
        let begun = Instant::now();
        for (round, place) in places.into_iter().enumerate() {
            place.is_remembered_by_the_kernel();
            let observer = Observer::start(&place);
            let before = mounted.volume.counters();
            let mut command = calling(mounted.command(program("deaths")), &place, call);
            let instructions = match round {
                0 => whole,
                _ => random.below(whole),
            };
            let end = die_after(instructions, &mut command);
            observer.goes_on();
            if round == 0 {
                whole = end.expect_err("nobody killed it");
                // To attach, and the call.
                mounted.assert_served(&before, 2, call.rule);
            }
            killed += u64::from(end.is_ok());
            // Sometimes the dead are left to whoever meets them.
            if random.one_in(2) {
                mounted.volume.reap();
            }
            let done = place.is_old_or_new(&mounted.volume, call);
            assert!(done || round > 0, "{}: nothing happened", call.rule);
            happened += u64::from(done);
            place.is_the_same_for_all(&mounted.volume);
            observer.ends_well();
            place.goes(&mounted.volume);
        }
        eprintln!(
            "{}: {whole} instructions, {killed} killed, {happened} happened, {:?}",
            call.rule,
            begun.elapsed()
        );
        assert!(killed > 0, "{}: nobody died", call.rule);
    }
    mounted.assert_sound();
}

fn until_stopped(child: &Child) {
    let told = waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED).unwrap();
    assert!(told.is_some_and(|(_, status)| status.stopped()), "{told:?}");
}

fn go_on(child: &Child) {
    kill_process(Pid::from_child(child), Signal::CONT).unwrap();
}

/// A call whose mount dies: while the call waits for it, or at any moment.
fn outlives_its_mount(call: &Call, waits: bool, random: &mut Rng) {
    let Some(mut mount) = MountProcess::start() else {
        return;
    };
    let place = Place::make(mount.point(), "place");
    std::thread::sleep(REST);
    place.is_remembered_by_the_kernel();
    let mut command = calling(mount.command(program("deaths")), &place, call);
    let mut child = command.spawn().unwrap();
    until_stopped(&child);
    if waits {
        mount.stop();
    }
    go_on(&child);
    if waits && call.needs_recall {
        std::thread::sleep(Duration::from_millis(100));
        let ended = child.try_wait().unwrap();
        assert_eq!(ended, None, "{}: nothing was recalled", call.rule);
    } else {
        std::thread::sleep(Duration::from_micros(random.below(1500)));
    }
    let begun = Instant::now();
    mount.kill();
    let status = crate::common::wait(&mut child);
    let took = begun.elapsed();
    assert!(took < PATIENCE, "{}: {took:?}", call.rule);
    assert_eq!(status.signal(), None, "{}", call.rule);
    let done = place.is_old_or_new(mount.volume(), call);
    // What found its mount dead at its beginning says so.
    let may_fail = !(waits && call.needs_recall);
    assert!(
        status.success() && done || may_fail && !status.success(),
        "{}: {status}, and it happened: {done}",
        call.rule
    );
}

#[test]
fn a_direct_call_that_waits_for_a_mount_goes_on_when_that_dies() {
    let mut random = Rng::new(0xDEAD);
    for call in CALLS {
        for waits in [true, false] {
            outlives_its_mount(call, waits, &mut random);
        }
    }
}
