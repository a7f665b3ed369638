//! Whether the program that sent a request was started with the preload library, as far as this process may know.
//!
//! The kernel shows the environment of a process only when no thread of it changes its memory map. A thread that unmaps
//! stores to a file of ours holds the map until the mount has written them back. So a thread that serves no requests
//! asks, and no request waits long for it.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Part of the value of `LD_PRELOAD`.
const LIBRARY: &[u8] = b"libegeria_preload";
/// How long a request waits for the answer. Then the program is taken to be without the library, which is right, but may
/// be slow.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long an answer is used.
const VALID: Duration = Duration::from_millis(100);
/// Programs that a serving thread remembers; others replace them.
const REMEMBERED: usize = 64;
/// Questions that wait for an answer.
const MAX_WAITING: usize = 64;

#[derive(Clone, Copy)]
struct Seen {
    thread_id: u32,
    at: Instant,
    is_preloaded: bool,
}

thread_local! {
    static SEEN: RefCell<[Option<Seen>; REMEMBERED]> = const { RefCell::new([None; REMEMBERED]) };
}

struct Question {
    thread_id: u32,
    answer: SyncSender<bool>,
}

/// The thread that asks, once there was a question.
#[derive(Default)]
pub(crate) struct Preloaded(OnceLock<Option<SyncSender<Question>>>);

impl Preloaded {
    /// Whether the program of this thread has the library.
    pub(crate) fn has(&self, thread_id: u32) -> bool {
        let position = thread_id as usize % REMEMBERED;
        let now = Instant::now();
        let seen = SEEN.with_borrow(|seen| seen[position]).filter(|seen| {
            seen.thread_id == thread_id && now.saturating_duration_since(seen.at) < VALID
        });
        if let Some(seen) = seen {
            return seen.is_preloaded;
        }
        let Some(is_preloaded) = self.ask(thread_id) else {
            return false;
        };
        let seen = Seen {
            thread_id,
            at: now,
            is_preloaded,
        };
        SEEN.with_borrow_mut(|all| all[position] = Some(seen));
        is_preloaded
    }

    /// `None`: there was no answer in time.
    fn ask(&self, thread_id: u32) -> Option<bool> {
        let questions = self.0.get_or_init(start).as_ref()?;
        let (answer, answers) = sync_channel(1);
        let question = Question { thread_id, answer };
        questions.try_send(question).ok()?;
        answers.recv_timeout(PATIENCE).ok()
    }
}

/// The thread ends with the mount.
fn start() -> Option<SyncSender<Question>> {
    let (questions, asked) = sync_channel::<Question>(MAX_WAITING);
    let body = move || {
        for Question { thread_id, answer } in asked {
            // Nobody may wait for it any more.
            let _ = answer.try_send(look(thread_id));
        }
    };
    let builder = std::thread::Builder::new().name("egeria-programs".to_owned());
    builder.spawn(body).ok()?;
    Some(questions)
}

fn look(thread_id: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{thread_id}/environ"));
    environment.is_ok_and(|all| memchr::memmem::find(&all, LIBRARY).is_some())
}
