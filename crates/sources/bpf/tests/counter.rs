//! What a program reads and writes is counted, byte by byte, while the counter is attached.

use egeria_harness::testing::skip;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use egeria_bpf::{BpfError, FileCounter, Pace};

fn counter() -> Option<FileCounter> {
    counter_with(Pace::always())
}

fn counter_with(pace: Pace) -> Option<FileCounter> {
    match FileCounter::with(pace) {
        Ok(counter) => Some(counter),
        Err(error @ (BpfError::Btf(_) | BpfError::Kernel { .. })) => {
            panic!("a kernel that should do: {error}")
        }
        Err(error) => {
            skip(error);
            None
        }
    }
}

#[test]
fn bytes_of_threads_are_counted_by_file() {
    let Some(mut counter) = counter() else { return };
    for directory in [env!("CARGO_MANIFEST_DIR"), "/dev/shm"] {
        let mut file = tempfile::NamedTempFile::new_in(directory).unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        let metadata = file.as_file().metadata().unwrap();
        counter.take();
        // dd: 5 reads of 2,000 bytes, and one at the end of the file.
        let mut child = Command::new("dd")
            .args(["bs=2000", "of=/dev/null"])
            .stdin(Stdio::from(File::open(file.path()).unwrap()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process_id = child.id();
        assert!(child.wait().unwrap().success());
        let counts = counter.take();
        let uses = counts.uses.iter();
        let of_child = uses.filter(|each| each.process_id == process_id);
        let of_file: Vec<_> = of_child
            .filter(|each| each.inode == metadata.ino())
            .collect();
        let [found] = of_file[..] else {
            panic!("{directory}: {of_file:?}");
        };
        assert_eq!(found.thread_id, process_id);
        assert_eq!((found.read_bytes, found.written_bytes), (10_000, 0));
        assert_eq!(found.descriptor, 0);
        assert!(!counts.is_full);
    }
}

#[test]
fn writes_are_counted_and_pipes_and_this_process_are_not() {
    let Some(mut counter) = counter() else { return };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let inode = file.as_file().metadata().unwrap().ino();
    file.write_all(b"ours").unwrap();
    let mut buffer = [0; 2];
    file.as_file().read_exact_at(&mut buffer, 0).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "echo 1234567; echo 89 >&2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::from(file.reopen().unwrap()))
        .spawn()
        .unwrap();
    let mut told = String::new();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_to_string(&mut told).unwrap();
    let process_id = child.id();
    child.wait().unwrap();
    let uses = counter.take().uses;
    let own = std::process::id();
    assert!(uses.iter().all(|each| each.process_id != own), "{uses:?}");
    let of_child = uses.iter().filter(|each| each.process_id == process_id);
    let written: Vec<_> = of_child.filter(|each| each.written_bytes > 0).collect();
    let [written] = written[..] else {
        panic!("a pipe is no file: {written:?}");
    };
    assert_eq!((written.inode, written.written_bytes), (inode, 3));
    let again = counter.take().uses;
    assert!(
        again.iter().all(|each| each.process_id != process_id),
        "taken twice"
    );
}

/// The name is that of the program, and its ancestors are the shell and this process.
#[test]
fn what_ended_is_known_by_what_began_it() {
    let Some(mut counter) = counter() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let inode = file.as_file().metadata().unwrap().ino();
    std::fs::write(file.path(), [1; 1000]).unwrap();
    counter.take();
    // The shell waits for it, and does not become it.
    let script = r#"dd if="$0" of=/dev/null status=none; true"#;
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .arg(file.path())
        .spawn()
        .unwrap();
    let shell_id = shell.id();
    assert!(shell.wait().unwrap().success());
    let uses = counter.take().uses;
    let mut of_file = uses.iter().filter(|each| each.inode == inode);
    let found = of_file.next().expect("it was read");
    assert_eq!(&found.name[..3], b"dd\0");
    assert_ne!(found.process_id, shell_id);
    assert_eq!(found.ancestors[..2], [shell_id, std::process::id()]);
    let node = Path::new("/sys/devices/system/node").join(format!("node{}", found.node));
    assert!(node.exists() || found.node == 0, "{found:?}");
}

/// The part of the time in which it counts at this pace, while this process makes calls.
fn part_counted(pace: Pace) -> Option<f64> {
    let mut counter = counter_with(pace)?;
    counter.take();
    let begun = Instant::now();
    while begun.elapsed() < pace.period * 4 {
        std::fs::metadata("/").unwrap();
    }
    let counted = counter.take().counted;
    Some(counted.as_secs_f64() / begun.elapsed().as_secs_f64())
}

#[test]
fn who_calls_much_is_counted_for_a_small_part_of_the_time() {
    let Some(busy) = part_counted(Pace::default()) else {
        return;
    };
    // A hundredth, and on a busy machine what its thread is late by.
    assert!(busy > 0.0 && busy < 0.5, "{busy}");
    let always = part_counted(Pace::always()).unwrap();
    assert!(always > 0.95 && always < 1.05, "{always}");
}

#[test]
fn counts_taken_while_attached_cover_the_time_so_far() {
    let Some(mut counter) = counter() else { return };
    let begun = Instant::now();
    let mut counted = counter.take().counted;
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(3));
        counted += counter.take().counted;
        let most = begun.elapsed() + Duration::from_millis(100);
        assert!(
            counted >= Duration::from_millis(3) && counted <= most,
            "{counted:?}"
        );
    }
}
