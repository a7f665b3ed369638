//! Invariant 3: a process killed at any instruction blocks nobody and loses no acknowledged operation.
//!
//! `EGERIA_TEST_CASES` sets how many deaths each kind of operation gets.

#[path = "kill/cases.rs"]
mod cases;
mod common;
#[path = "kill/crowd.rs"]
mod crowd;
#[path = "kill/direct.rs"]
mod direct;
#[path = "kill/drain.rs"]
mod drain;
#[path = "kill/living.rs"]
mod living;
#[path = "kill/scene.rs"]
mod scene;
#[path = "kill/stepping.rs"]
mod stepping;

use cases::{CASES, Case};
use common::Scratch;
use egeria_harness::process::Deadline;
use egeria_stats::rng::Rng;
use scene::Scene;
use std::process::{Command, ExitStatus};
use stepping::{Death, End, kill_after};

/// Names the part a process plays that this test starts.
const ROLE: &str = "EGERIA_TEST_ROLE";

/// Start this test again, alone in a process of one thread, to play a part.
fn play(role: &str) -> ExitStatus {
    Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", "part", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .status()
        .expect("start a part")
}

/// Not a test by itself: what `play` starts.
#[test]
fn part() {
    let mut random = Rng::new(setting("EGERIA_TEST_SEED", 0x5EED));
    match std::env::var(ROLE).as_deref() {
        Ok("steps") => steps(&mut random),
        Ok("limited") => limited(&mut random),
        Ok("sealed") => sealed(),
        Ok("crowd") => crowd::kill_workers(setting("EGERIA_TEST_CASES", 250), &mut random),
        Ok("living") => living::are_not_reaped(),
        Ok("marks") => living::keep_their_marks(),
        Ok("visitors") => crowd::kill_visitors(setting("EGERIA_TEST_CASES", 120), &mut random),
        _ => {}
    }
}

/// No more numbers than this are used up in a volume.
const MAX_FILLERS: u64 = 12_000;

/// How often each kind of operation dies.
struct Plan {
    /// At a random moment.
    moments: u64,
    /// At a random instruction.
    instructions: u64,
}

/// Kill one kind of operation again and again; panics when anything is lost, mixed or leaked.
fn kill_case((case, pools): (&Case, usize), checksums: bool, plan: &Plan, random: &mut Rng) {
    let scratch = Scratch::new(pools, 64 << 20);
    let mut scene = Scene::new(scratch.attach());
    if checksums {
        scene.set_checksums();
    }
    let (act, verify) = (case.prepare)(&mut scene);
    let forever = Death::Nanoseconds(60_000_000_000);
    let End::Finished(whole_ns) = kill_after(&scene.volume, forever, &act) else {
        panic!("{}: no end", case.name);
    };
    assert!(
        verify(&scene),
        "{}: the whole operation happened",
        case.name
    );
    let whole = match plan.instructions {
        0 => 0,
        _ => measure(case, &mut scene),
    };
    let (mut happened, mut killed) = (0, 0);
    for round in 0..plan.moments + plan.instructions {
        if scene.fillers > MAX_FILLERS {
            break;
        }
        let death = if round < plan.moments {
            Death::Nanoseconds(random.below(whole_ns * 3))
        } else {
            Death::Instructions(random.below(whole))
        };
        let (end, done) = die_once(case, &mut scene, death, random);
        happened += u64::from(done);
        killed += u64::from(end == End::Killed);
    }
    scene.volume.reap();
    let space = scene.volume.space(None);
    drop(scene);
    let report =
        egeria_engine::check_volume(&scratch.pools[0], false, &mut |_, _| {}).expect("check");
    assert!(
        report.findings.is_empty(),
        "{}: {:#?}",
        case.name,
        report.findings
    );
    let blocks = (space.blocks - space.free_blocks) as i64 - report.used_blocks as i64;
    let inodes = (space.inodes - space.free_inodes) as i64 - report.inodes as i64;
    eprintln!(
        "{}, checksums {checksums}: {whole_ns} ns, {whole} instructions, {killed} killed, \
         {happened} happened; leaked blocks {blocks}, inodes {inodes}",
        case.name,
    );
}

fn clear(scene: &Scene) {
    scene.volume.reap();
    scene.use_and_empty(scene.a);
    scene.use_and_empty(scene.b);
}

fn measure(case: &Case, scene: &mut Scene) -> u64 {
    clear(scene);
    let (act, _) = (case.prepare)(scene);
    match kill_after(&scene.volume, Death::Instructions(u64::MAX), &act) {
        End::Finished(whole) => whole,
        End::Killed => unreachable!("nobody counts so far"),
    }
}

fn die_once(case: &Case, scene: &mut Scene, death: Death, random: &mut Rng) -> (End, bool) {
    clear(scene);
    let (act, verify) = (case.prepare)(scene);
    let end = kill_after(&scene.volume, death, &act);
    // Every second time whoever comes first to put things right dies too.
    if random.below(2) == 0 {
        let (a, b) = (scene.a, scene.b);
        let second = match death {
            Death::Instructions(_) | Death::Sealed(_) => Death::Instructions(random.below(60_000)),
            Death::Nanoseconds(_) => Death::Nanoseconds(random.below(200_000)),
        };
        kill_after(&scene.volume, second, &|volume| {
            let _ = volume.lookup(a, b"f");
            let _ = volume.lookup(b, b"g");
            volume.reap();
        });
    }
    // A lock that nobody gives back ends this process by a signal.
    let deadline = Deadline::in_seconds(20);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| verify(scene)));
    drop(deadline);
    match done {
        Ok(done) => (end, done),
        Err(panic) => {
            eprintln!("{}: {end:?} by {death:?}", case.name);
            std::panic::resume_unwind(panic);
        }
    }
}

/// A number that a longer run sets.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn steps(random: &mut Rng) {
    let only = std::env::var("EGERIA_TEST_ONLY").unwrap_or_default();
    let plan = Plan {
        moments: setting("EGERIA_TEST_CASES", 25),
        instructions: setting("EGERIA_TEST_STEPS", 0),
    };
    let one_pool = CASES.iter().chain(direct::CASES).map(|case| (case, 1));
    let all = one_pool.chain(drain::CASES.iter().map(|case| (case, 2)));
    for case in all.filter(|(case, _)| case.name.contains(&only)) {
        for checksums in [false, true] {
            kill_case(case, checksums, &plan, random);
        }
    }
}

#[test]
fn an_operation_killed_anywhere_happened_or_not() {
    assert!(play("steps").success());
}

/// Each kind of operation dies in a volume with limits: what is used is then what is there.
fn limited(random: &mut Rng) {
    let deaths = setting("EGERIA_TEST_CASES", 4);
    for case in CASES {
        let scratch = Scratch::new(1, 64 << 20);
        let mut scene = Scene::new(scratch.attach());
        scene.limit();
        for round in 0..deaths {
            let death = match round % 2 {
                0 => Death::Nanoseconds(random.below(60_000)),
                _ => Death::Instructions(random.below(8_000)),
            };
            die_once(case, &mut scene, death, random);
            scene.volume.reap();
            scene.check_usage(case.name);
        }
    }
}

#[test]
fn usage_is_exact_after_deaths_anywhere() {
    assert!(play("limited").success());
}

/// Operations of two objects die between the seal of their journal and its end.
fn sealed() {
    let journaled = ["create", "unlink", "rename over a file", "exchange"];
    for case in CASES.iter().filter(|case| journaled.contains(&case.name)) {
        let scratch = Scratch::new(1, 64 << 20);
        stepping::watch_journals(&scratch.pools[0]);
        let mut scene = Scene::new(scratch.attach());
        for (instructions, reaped_first) in [(0, false), (20, true)] {
            clear(&scene);
            let (act, verify) = (case.prepare)(&mut scene);
            let end = kill_after(&scene.volume, Death::Sealed(instructions), &act);
            assert_eq!(end, End::Killed, "{}: no journal was sealed", case.name);
            assert!(stepping::is_any_sealed(), "{}: done before", case.name);
            if reaped_first {
                scene.volume.reap();
            }
            assert!(verify(&scene), "{}: sealed, and did not happen", case.name);
            scene.volume.reap();
            assert!(!stepping::is_any_sealed(), "{}: not completed", case.name);
        }
    }
}

#[test]
fn what_a_dead_owner_sealed_in_its_journal_happened() {
    assert!(play("sealed").success());
}

#[test]
fn workers_killed_among_others_lose_nothing_and_block_nobody() {
    assert!(play("crowd").success());
}

#[test]
fn processes_killed_in_attach_and_detach_lose_nothing() {
    assert!(play("visitors").success());
}

#[test]
fn who_lives_is_not_reaped_whatever_proc_says() {
    assert!(play("living").success());
}

#[test]
fn who_dies_while_marking_takes_off_no_mark_of_others() {
    assert!(play("marks").success());
}
