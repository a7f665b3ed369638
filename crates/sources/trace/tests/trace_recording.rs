//! Recording: what a killed, hindered or mistaken recorder leaves.

mod traces;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use egeria_facts::ThreadFacts;
use egeria_trace::{Ending, Reader, Writer};

use traces::{Place, cpus, header, machine, read, thread, varied, window};

/// Where the recorder below records to.
const PATH: &str = "EGERIA_TEST_TRACE";

/// No test of its own: what the tests below start, and kill.
#[test]
#[ignore = "runs only as a child of the others"]
fn recorder() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let machine = machine(2);
    let mut writer = Writer::create(Path::new(&path), &machine, &header()).unwrap();
    for number in 0.. {
        // One of them is new in every window.
        let newcomer = thread(&machine, 1000 + number as u32, 0, 0);
        let make = |index| thread(&machine, index, number << 12, 1);
        let mut threads: Vec<ThreadFacts> = (0..199).map(make).collect();
        threads.push(newcomer.clone());
        if let Err(error) = writer.append(&window(&machine, number, threads).into()) {
            assert!(
                error.to_string().contains("; choose a file with room"),
                "{error}"
            );
            println!("hindered after {}", writer.windows());
            // What is small still fits: nothing of the failed window is in the way.
            let small = window(&machine, number, vec![newcomer]);
            writer.append(&small.clone().into()).unwrap();
            return;
        }
    }
}

/// The recorder in a shell that sets limits first.
fn start(limits: &str, path: &Path) -> Child {
    let script = format!("{limits} exec \"$0\" --ignored --exact recorder --nocapture");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap());
    shell.env(PATH, path).stdout(Stdio::piped());
    shell.spawn().unwrap()
}

/// Waits until the recording has this length.
fn wait_for_bytes(path: &Path, bytes: u64) {
    let started = Instant::now();
    while fs::metadata(path).map_or(0, |metadata| metadata.len()) < bytes {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nothing recorded"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_recorder_loses_no_whole_window() {
    let place = Place::new();
    let path = place.path("trace");
    let mut child = start("", &path);
    wait_for_bytes(&path, 200_000);
    let mut reader = Reader::open(&path).unwrap();
    let live = reader.by_ref().map(Result::unwrap).count();
    let is_recorded = reader.ending() == Some(Ending::StillRecording);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_recorded && live > 0);
    let (windows, warning) = read(&path).unwrap();
    assert!(windows.len() >= live);
    for (number, window) in windows.iter().enumerate() {
        assert_eq!((window.number, window.threads.len()), (number as u64, 200));
    }
    let warning = warning.unwrap();
    assert!(
        warning.contains("killed") || warning.contains("is cut"),
        "{warning}"
    );
}

#[test]
fn without_room_what_was_recorded_stays_whole() {
    let place = Place::new();
    let path = place.path("trace");
    let child = start("trap '' XFSZ; ulimit -f 100;", &path);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let said = String::from_utf8(ended.stdout).unwrap();
    let (windows, warning) = read(&path).unwrap();
    let recorded = windows.len() - 1;
    assert!(
        said.contains(&format!("hindered after {recorded}\n")),
        "{said}"
    );
    assert!(recorded > 0 && windows[recorded].threads.len() == 1);
    assert!(warning.unwrap().contains("not finished"));
}

#[test]
fn a_window_that_cannot_be_is_not_recorded_and_harms_nothing() {
    let (place, machine) = (Place::new(), machine(2));
    let windows = varied(&machine);
    let path = place.path("trace");
    let mut writer = Writer::create(&path, &machine, &header()).unwrap();
    writer.append(&windows[0].clone().into()).unwrap();
    let mut bad = windows[1].clone();
    bad.threads[0].name = "\x1b[2J".to_owned();
    let error = writer.append(&bad.into()).unwrap_err().to_string();
    assert!(error.contains("not printable; "), "{error}");
    let all_cpus = cpus("0-8191");
    let many = |count: u32| {
        let each = |number| {
            let mut facts = thread(&machine, number, 0, 0);
            facts.allowed_cpus = all_cpus.clone();
            facts
        };
        window(&machine, 1, (0..count).map(each).collect())
    };
    // 1,280 bytes each.
    let error = writer.append(&many(53_000).into()).unwrap_err().to_string();
    assert!(error.contains("of 67108864 bytes; watch fewer"), "{error}");
    writer.append(&many(4000).into()).unwrap();
    writer.append(&windows[2].clone().into()).unwrap();
    writer.finish().unwrap();
    let (read, warning) = read(&path).unwrap();
    assert!(read == [windows[0].clone(), many(4000), windows[2].clone()]);
    assert_eq!(warning, None);
}

#[test]
fn only_traces_are_replaced_and_by_one_recorder_at_a_time() {
    let (place, machine) = (Place::new(), machine(1));
    let create = |path: &Path| Writer::create(path, &machine, &header());
    let refused = |path: &Path, words: &str| {
        let error = create(path).err().unwrap().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    };
    let other = place.holding(b"precious");
    refused(&other, "is no trace; choose another name");
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    refused(&place.path(""), "cannot record to");
    refused(&place.path("no/such"), "cannot record to");
    refused("/dev/null".as_ref(), "is no trace; ");
    let path = place.recorded(&machine, &[window(&machine, 0, Vec::new())]);
    let writer = create(&path).unwrap();
    refused(&path, "being recorded by another process; ");
    writer.finish().unwrap();
    assert_eq!(read(&path).unwrap(), (Vec::new(), None));
}
