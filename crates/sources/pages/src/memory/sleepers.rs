//! Processes that have mapped a file or shared memory and do not run, as the helpers of a database do most of the time.

use std::collections::HashSet;
use std::time::Duration;

use egeria_proc::task;

use super::area::MappedFile;
use super::walk;

/// How long they are looked at.
const MOMENT: Duration = Duration::from_millis(100);
/// More processes are not looked through.
const MAX_PROCESSES: usize = 1 << 14;

/// How many processes besides those `known` have mapped a file, as far as they may be looked at; `None` if one of them
/// runs.
pub fn of(file: MappedFile, known: &[u32]) -> Option<u32> {
    let known: HashSet<u32> = known.iter().copied().collect();
    let all = task::processes();
    if all.len() > MAX_PROCESSES {
        return None;
    }
    let mut mappers = Vec::new();
    for process in all.into_iter().filter(|process| !known.contains(process)) {
        match walk::files(process) {
            Ok(files) if files.contains(&file) => mappers.push((process, task::ran(process))),
            // What may not be looked at is not counted, and so is missing where pages have more mappers.
            Ok(_) | Err(_) => {}
        }
    }
    if !mappers.is_empty() {
        std::thread::sleep(MOMENT);
    }
    let sleeps = |(process, before): &(u32, _)| task::ran(*process) == *before;
    let count = mappers.len() as u32;
    mappers.iter().all(sleeps).then_some(count)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A program that has mapped a file, as an interpreter has its script's library.
    struct Mapper(Child);

    impl Mapper {
        /// It sleeps, or computes.
        fn new(file: &std::path::Path, works: bool) -> Mapper {
            let work = if works {
                "while :; do :; done"
            } else {
                "read line"
            };
            let mut shell = Command::new("sh");
            shell.args(["-c", work]).env("LD_PRELOAD", file);
            shell.stdin(Stdio::piped());
            Mapper(shell.spawn().unwrap())
        }
    }

    impl Drop for Mapper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn mappers_that_sleep_are_counted_unless_one_runs() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("library.so");
        // Any shared object will do: a copy, so that no other process has it.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find_map(|line| {
            let path = line.split_ascii_whitespace().nth(5)?;
            path.contains("libgcc_s.so").then_some(path)
        });
        std::fs::copy(libc.expect("a shared object"), &library).unwrap();
        let metadata = File::open(&library).unwrap().metadata().unwrap();
        let device = metadata.dev();
        let file = MappedFile {
            device: (libc::major(device), libc::minor(device)),
            inode: metadata.ino(),
        };
        assert_eq!(of(file, &[]), Some(0));
        let sleepers = [(); 2].map(|()| Mapper::new(&library, false));
        let known = sleepers[0].0.id();
        let until = |wanted: Option<u32>, known: &[u32]| {
            let found = (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                of(file, known) == wanted
            });
            assert!(found, "{wanted:?}: {:?}", of(file, known));
        };
        until(Some(2), &[]);
        until(Some(1), &[known]);
        let worker = Mapper::new(&library, true);
        until(None, &[]);
        until(Some(2), &[worker.0.id()]);
    }
}
