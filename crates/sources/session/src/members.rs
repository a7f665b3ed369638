//! Processes that use a session. Its slots name processes and threads, but any process that may write to the session
//! can write any number there. So the kernel is asked whether that process has the session's user and memory.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::{Mutex, PoisonError};

use egeria_engine::Volume;

use egeria_facts::ThreadKey;

use egeria_proc::Membership;
use egeria_proc::{living, task};

/// A file as lines of `/proc/PID/maps` name it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MappedFile {
    /// As `MAJOR:MINOR`, in hexadecimal.
    device: String,
    inode: u64,
}

/// How to recognize processes that use a session.
pub(crate) struct Members {
    /// The user of the session: no process attaches a session of another user.
    user: u32,
    segment: Vec<MappedFile>,
    /// Ids in other namespaces name other processes here.
    pub(crate) pid_namespace: u64,
    /// Threads that come through a mount of the session: they need not map it.
    callers: Mutex<HashSet<ThreadKey>>,
}

/// Processes asked about in one look: each once, however many threads it has.
#[derive(Default)]
pub(crate) struct Asked(HashMap<u32, bool>);

impl Members {
    /// The members of the session that this process has attached.
    pub(crate) fn of(volume: &Volume) -> Members {
        let name = volume.uuid().simple().to_string();
        let own = mapped_files(std::process::id());
        let segment = own.filter_map(|(file, path)| is_segment(&path, &name).then_some(file));
        Members {
            user: egeria_files::user(),
            segment: segment.collect(),
            pid_namespace: own_pid_namespace(),
            callers: Mutex::default(),
        }
    }

    /// Whether a thread is of the session's user alone, not of a program with other rights, and its process
    /// maps the session.
    pub(crate) fn holds(&self, process_id: u32, thread_id: u32) -> bool {
        self.is_of_user(process_id, thread_id) && self.is_mapped_by(process_id)
    }

    /// The threads that came through a mount, as the mount reports them. The mount belongs to the session's user, so
    /// this accepts only threads of the same user: that user could do the same to them.
    pub(crate) fn set_callers(&self, threads: impl Iterator<Item = ThreadKey>) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.clear();
        callers.extend(threads);
    }

    fn is_caller(&self, thread: ThreadKey) -> bool {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.contains(&thread)
    }

    /// Whether a thread is of the session's user alone, not of a program with other rights.
    pub(crate) fn is_of_user(&self, process_id: u32, thread_id: u32) -> bool {
        task::user_ids(process_id, thread_id) == Some([self.user; 4])
    }

    fn is_mapped_by(&self, process_id: u32) -> bool {
        mapped_files(process_id).any(|(file, _)| self.segment.contains(&file))
    }
}

impl Membership for Members {
    fn holds(&self, thread: ThreadKey) -> bool {
        let (process_id, thread_id) = (thread.process_id, thread.thread_id);
        let is_member = if self.is_caller(thread) {
            self.is_of_user(process_id, thread_id)
        } else {
            Members::holds(self, process_id, thread_id)
        };
        is_member && task::is_still(thread)
    }
}

impl Asked {
    /// Whether a thread is one of the session's user and its process maps the session; each process is asked once.
    pub(crate) fn holds(&mut self, members: &Members, process_id: u32, thread_id: u32) -> bool {
        let mapped = || members.is_mapped_by(process_id);
        members.is_of_user(process_id, thread_id)
            && *self.0.entry(process_id).or_insert_with(mapped)
    }
}

/// Whether a path is that of a session of the volume with this UUID.
fn is_segment(path: &str, volume: &str) -> bool {
    path.starts_with("/dev/shm/egeria-") && path.contains(volume)
}

/// The files a process has mapped shared, with their paths; none when it is gone or may not be looked at.
fn mapped_files(process_id: u32) -> impl Iterator<Item = (MappedFile, String)> {
    let file = File::open(living::path(process_id, "maps")).ok();
    let lines = file
        .into_iter()
        .flat_map(|file| BufReader::new(file).split(b'\n'));
    lines
        .map_while(Result::ok)
        .filter_map(|line| shared_file(&line))
}

/// Of a line `range access offset device inode path`, when it is a shared file's.
fn shared_file(line: &[u8]) -> Option<(MappedFile, String)> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let access = words.nth(1)?;
    let device = words.nth(1)?.to_owned();
    let inode = words.next()?.parse().ok().filter(|inode| *inode != 0)?;
    let path = words.next().unwrap_or_default().to_owned();
    access
        .ends_with('s')
        .then_some((MappedFile { device, inode }, path))
}

fn own_pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::fork::Forked;
    use egeria_harness::memory::Mapping;
    use egeria_harness::testing::is_root;
    use rustix::process::Uid;

    #[test]
    fn shared_files_are_read_from_lines_of_maps() {
        let line = b"7f00-7f10 rw-s 00001000 00:1a 77    /dev/shm/egeria-0/ab (deleted)";
        let (file, path) = shared_file(line).unwrap();
        assert_eq!((file.device.as_str(), file.inode), ("00:1a", 77));
        assert_eq!(path, "/dev/shm/egeria-0/ab");
        assert!(shared_file(b"7f00-7f10 rw-p 00001000 00:1a 77 /dev/shm/egeria-ab").is_none());
        assert!(shared_file(b"7f00-7f10 rw-s 00000000 00:00 0").is_none());
        assert!(shared_file(b"nonsense").is_none());
    }

    #[test]
    fn a_session_is_known_by_its_volume() {
        assert!(is_segment("/dev/shm/egeria-ab12-34", "ab12"));
        assert!(is_segment("/dev/shm/egeria-0/ab12-34", "ab12"));
        assert!(!is_segment("/home/egeria-ab12-34", "ab12"));
        assert!(!is_segment("/dev/shm/egeria-cd-34", "ab12"));
    }

    /// A child with the same mappings as this process that only waits; killed when dropped.
    struct Waiting(Forked);

    impl Waiting {
        fn with_user(user: u32) -> Waiting {
            let waiting = Forked::run(|| {
                let user = Some(Uid::from_raw(user));
                // The system call itself, because the child has no other threads.
                let _ = rustix::thread::set_thread_res_uid(None, user, None);
                loop {
                    rustix::event::pause();
                }
            });
            Waiting(waiting.unwrap())
        }

        fn id(&self) -> u32 {
            self.0.id() as u32
        }
    }

    #[test]
    fn members_have_no_rights_but_those_of_the_session_s_user() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(4096).unwrap();
        let _mapping = Mapping::of_file(file.as_file(), 4096, false).unwrap();
        let path = file.path().to_str().unwrap();
        let own = mapped_files(std::process::id());
        let members = Members {
            user: egeria_files::user(),
            segment: own
                .filter_map(|(file, of)| (of == path).then_some(file))
                .collect(),
            pid_namespace: 0,
            callers: Mutex::default(),
        };
        let same = Waiting::with_user(egeria_files::user());
        assert!(members.holds(same.id(), same.id()));
        assert!(
            !members.holds(same.id(), std::process::id()),
            "not its thread"
        );
        let mut unrelated = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(
            !members.holds(unrelated.id(), unrelated.id()),
            "maps nothing of it"
        );
        unrelated.kill().unwrap();
        unrelated.wait().unwrap();
        if !is_root() {
            return;
        }
        // The same as for a set-user-id program that this user started.
        let other = Waiting::with_user(65_534);
        while task::user_ids(other.id(), other.id()) == Some([0; 4]) {
            std::thread::yield_now();
        }
        assert!(members.is_mapped_by(other.id()));
        assert!(!members.holds(other.id(), other.id()));
    }
}
