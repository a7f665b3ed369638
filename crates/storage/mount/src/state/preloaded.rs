//! Whether the program that sent a request was started with the preload library, as far as this process may know.
//!
//! The kernel locks a process's memory map to show its environment. A thread that unmaps stores to a file of ours keeps the
//! map locked until the mount has written them back. So a thread that serves no requests asks, and no request waits long
//! for it.

use crate::state::remembered::Remembered;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Part of the value of `LD_PRELOAD`.
const LIBRARY: &[u8] = b"libegeria_preload";
/// How long a request waits for the answer. Without one, the file is opened as for a program that does not have the library:
/// it is as correct, but may be slower.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long an answer is used.
const VALID: Duration = Duration::from_millis(100);
/// Questions that wait for an answer.
const MAX_WAITING: usize = 64;

thread_local! {
    static SEEN: Remembered<bool> = const { Remembered::new(VALID) };
}

struct Question {
    thread_id: u32,
    answer: SyncSender<bool>,
}

/// The thread that asks, once there was a question.
#[derive(Default)]
pub(crate) struct Preloaded(OnceLock<Option<SyncSender<Question>>>);

impl Preloaded {
    /// Whether the program of this thread has the library; `false` also when that is not known in time.
    pub(crate) fn has(&self, thread_id: u32) -> bool {
        SEEN.with(|seen| seen.of(thread_id, || self.ask(thread_id)))
            .unwrap_or(false)
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
            // The request may have stopped waiting.
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
