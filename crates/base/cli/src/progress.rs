//! Progress of long work: on stderr, only on a terminal, only after a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
const QUIET: Duration = Duration::from_secs(1);

/// How often a bar or spinner moves by itself.
const TICK: Duration = Duration::from_millis(120);

/// A bar or a spinner; removed when dropped.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Without a terminal the bar stays hidden.
    is_asked_for: AtomicBool,
}

impl Progress {
    /// A bar for work that is counted in steps.
    pub fn bar(what: &str) -> Progress {
        Progress::hidden(what, "{msg} {wide_bar} {percent:>3} % {eta:>4}")
    }

    fn hidden(what: &str, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress {
            bar,
            started: Instant::now(),
            is_asked_for: AtomicBool::new(false),
        }
    }

    /// Records that `done` of `total` steps are done.
    pub fn advance(&self, done: u64, total: u64) {
        // Once: each call to tick starts a thread.
        if self.started.elapsed() >= QUIET && !self.is_asked_for.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TICK);
        }
        self.bar.set_length(total.max(1));
        self.bar.set_position(done.min(total));
    }

    /// Records that `done` of `total` steps are done, and shows what is done now.
    pub fn step(&self, done: u64, total: u64, what: &str) {
        if self.bar.message() != what {
            self.bar.set_message(what.to_owned());
        }
        self.advance(done, total);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs `body`; shows a spinner once it has taken a second.
pub fn spinning<T>(what: &str, body: impl FnOnce() -> T) -> T {
    let progress = Progress::hidden(what, "{spinner} {msg} {elapsed}");
    let bar = progress.bar.clone();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn(move || {
        if ended.recv_timeout(QUIET) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
    });
    let result = body();
    drop(done);
    let _ = watcher.join();
    result
}
