//! Which of the serving threads read requests from the kernel.
//!
//! The kernel wakes a thread that waits in `read` for each request. On an idle CPU that takes longer than most requests.
//! So one thread reads. Where requests follow each other closely, it polls for the next one for a moment before it waits.
//! The other threads are *parked*: the kernel would wake them, too, whichever thread takes the request.
//!
//! A parked thread reads again when
//!
//! - the reader finds the next request there already, several times in a row,
//! - a large request begins, and another one had to wait a moment ago, or
//! - no thread has read for [`SLOW`], because the reader serves a request that takes long. One parked thread, the
//!   *deputy*, checks this as long as requests arrive.
//!
//! Where threads wait for CPUs, all threads read and none polls: a thread that polls takes the CPU from the caller that it waits
//! for, and a single reader without a CPU delays all requests.
//!
//! When the connection ends, a `read` fails, and fuser ends its thread. Then all parked threads read, for the same error.

use crate::state::contention::waits_for_cpus;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a reader polls. It does so if the last request came within this time.
const POLLING: Duration = Duration::from_micros(50);
/// How often a thread checks whether it waits for CPUs.
const CHECK: Duration = Duration::from_millis(10);
/// It compares with its last check, if that is no longer ago.
const RECENT: Duration = Duration::from_millis(100);
/// For how long CPUs count as contended after that.
const CONTENDED: Duration = Duration::from_millis(500);
/// Requests in a row that have to be there already before one more thread reads.
const STREAK: u64 = 4;
/// Requests for at least this number of bytes are served by several threads, if one had to wait within [`MOMENT`].
const LARGE_BYTES: u64 = 64 << 10;
const MOMENT: Duration = Duration::from_millis(10);
/// How long no thread may read.
const SLOW: Duration = Duration::from_millis(2);
/// The deputy checks until no request has come for this time.
const QUIET: Duration = Duration::from_millis(100);

thread_local! {
    /// The thread is counted in [`Readers::reading`].
    static READS: Cell<bool> = const { Cell::new(false) };
    static END: RefCell<EndOfThread> = const { RefCell::new(EndOfThread(Weak::new())) };
}

/// Dropped when a serving thread ends.
struct EndOfThread(Weak<Readers>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if let Some(readers) = self.0.upgrade() {
            readers.end();
        }
    }
}

/// The serving threads of a mount.
pub(crate) struct Readers {
    origin: Instant,
    may_poll: bool,
    /// Threads that are in `read`, or will be in a moment; without those that have served nothing yet, or went on with a
    /// request.
    reading: AtomicUsize,
    /// When the last request began, in ns from the origin, as all times here.
    began_ns: AtomicU64,
    /// When a thread was done with a request last.
    done_ns: AtomicU64,
    /// From there to the begin of the next request.
    gap_ns: AtomicU64,
    contended_until_ns: AtomicU64,
    /// When a thread checked that last.
    checked_ns: AtomicU64,
    /// When a request had to wait until the only reader was done, and how many in a row.
    waited_ns: AtomicU64,
    streak: AtomicU64,
    /// No deputy checks, because no requests come.
    is_quiet: AtomicBool,
    parked: Mutex<Parked>,
    wake: Condvar,
}

#[derive(Default)]
struct Parked {
    threads: usize,
    has_deputy: bool,
    /// Parked threads that are to read; they are counted as reading.
    called: usize,
    is_over: bool,
}

impl Readers {
    /// `may_poll`: there are CPUs for reader and caller.
    pub(crate) fn new(may_poll: bool) -> Arc<Readers> {
        Arc::new(Readers {
            origin: Instant::now(),
            may_poll,
            reading: AtomicUsize::new(0),
            began_ns: AtomicU64::new(0),
            done_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(u64::MAX),
            contended_until_ns: AtomicU64::new(0),
            checked_ns: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            streak: AtomicU64::new(0),
            is_quiet: AtomicBool::new(true),
            parked: Mutex::default(),
            wake: Condvar::new(),
        })
    }

    /// The calling thread has read a request for this number of bytes of a file (0: it is of another kind), and begins to
    /// serve it.
    pub(crate) fn begin(self: &Arc<Self>, began: Instant, bytes: u64) {
        END.with_borrow_mut(|end| {
            if end.0.strong_count() == 0 {
                end.0 = Arc::downgrade(self);
            }
        });
        let began_ns = self.ns_at(began);
        let gap_ns = began_ns.saturating_sub(self.done_ns.load(Ordering::Relaxed));
        self.gap_ns.store(gap_ns, Ordering::Relaxed);
        self.began_ns.store(began_ns, Ordering::SeqCst);
        self.go_on();
        if self.is_shared(began_ns, bytes) && self.reading.load(Ordering::SeqCst) == 0 {
            self.call(1);
        }
        // Of the deputy that set it and this thread, one at least sees what the other stored.
        if self.is_quiet.load(Ordering::SeqCst) && self.is_quiet.swap(false, Ordering::SeqCst) {
            drop(self.parked());
            self.wake.notify_one();
        }
    }

    /// The calling thread has served the request that it [began](Readers::begin). Returns when it shall read the next one.
    /// `is_whole`: no part of the request is left, so that the thread may stay here. `has_request`: whether `read` would return
    /// at once.
    pub(crate) fn done(&self, bytes: u64, is_whole: bool, has_request: impl Fn() -> bool) {
        let now_ns = self.ns_at(Instant::now());
        self.done_ns.store(now_ns, Ordering::Relaxed);
        if self.is_contended(now_ns) {
            self.reading.fetch_add(1, Ordering::SeqCst);
            READS.set(true);
            return;
        }
        let (has_next, is_shared) = (has_request(), self.is_shared(now_ns, bytes));
        let is_only_reader =
            self.reading
                .compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed);
        if is_only_reader.is_ok() {
            READS.set(true);
            if has_next {
                self.note_waiting(now_ns);
            } else {
                self.streak.store(0, Ordering::Relaxed);
                if !is_shared {
                    self.poll(now_ns, has_request);
                }
            }
        } else if has_next || is_shared || !is_whole {
            self.reading.fetch_add(1, Ordering::SeqCst);
            READS.set(true);
        } else {
            self.park();
        }
    }

    /// The calling thread does not read yet: there was more of the request that it was done with.
    pub(crate) fn go_on(&self) {
        if READS.replace(false) {
            self.reading.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// All threads are to read, because the connection has ended.
    pub(crate) fn end(&self) {
        self.parked().is_over = true;
        self.wake.notify_all();
    }

    /// Whether several threads are to serve requests of this size, because one had to wait a moment ago.
    fn is_shared(&self, now_ns: u64, bytes: u64) -> bool {
        let until_ns = self.waited_ns.load(Ordering::Relaxed) + nanoseconds(MOMENT);
        bytes >= LARGE_BYTES && now_ns < until_ns
    }

    /// A request waited for the only reader.
    fn note_waiting(&self, now_ns: u64) {
        self.waited_ns.store(now_ns, Ordering::Relaxed);
        if self.streak.fetch_add(1, Ordering::Relaxed) + 1 >= STREAK {
            self.streak.store(0, Ordering::Relaxed);
            self.call(1);
        }
    }

    /// Poll for a request if that is worth it.
    fn poll(&self, begin_ns: u64, has_request: impl Fn() -> bool) {
        let came_soon = self.gap_ns.load(Ordering::Relaxed) <= nanoseconds(POLLING);
        if !self.may_poll || !came_soon {
            return;
        }
        let end_ns = begin_ns + nanoseconds(POLLING);
        while !has_request() && self.ns_at(Instant::now()) < end_ns {
            std::hint::spin_loop();
        }
    }

    /// Whether threads wait for CPUs. Then all threads are called.
    fn is_contended(&self, now_ns: u64) -> bool {
        let contended_until_ns = self.contended_until_ns.load(Ordering::Relaxed);
        if now_ns < contended_until_ns {
            return true;
        }
        if now_ns < self.checked_ns.load(Ordering::Relaxed) + nanoseconds(CHECK) {
            return false;
        }
        self.checked_ns.store(now_ns, Ordering::Relaxed);
        // Without polling, caller and reader may take turns on one CPU, though others are idle.
        let since_ns = contended_until_ns.max(now_ns.saturating_sub(nanoseconds(RECENT)));
        if !waits_for_cpus(now_ns, since_ns) {
            return false;
        }
        let until_ns = now_ns + nanoseconds(CONTENDED);
        self.contended_until_ns.store(until_ns, Ordering::Relaxed);
        self.call(usize::MAX);
        true
    }

    /// Have this number of parked threads read, or all if there are fewer.
    fn call(&self, threads: usize) {
        let mut parked = self.parked();
        let threads = threads.min(parked.threads - parked.called);
        parked.called += threads;
        self.reading.fetch_add(threads, Ordering::SeqCst);
        drop(parked);
        (0..threads).for_each(|_| self.wake.notify_one());
    }

    /// Wait until the calling thread shall read.
    fn park(&self) {
        let mut parked = self.parked();
        parked.threads += 1;
        loop {
            if parked.called > 0 {
                // It is counted already.
                parked.called -= 1;
                break;
            }
            if parked.is_over || self.is_slow() {
                self.reading.fetch_add(1, Ordering::SeqCst);
                break;
            }
            parked = self.wait(parked);
        }
        parked.threads -= 1;
        let needs_deputy = parked.threads > parked.called && !parked.has_deputy;
        drop(parked);
        if needs_deputy {
            self.wake.notify_one();
        }
        READS.set(true);
    }

    /// Wait for a wake-up, as the deputy if there is none, and requests arrive.
    fn wait<'a>(&'a self, mut parked: MutexGuard<'a, Parked>) -> MutexGuard<'a, Parked> {
        if !parked.has_deputy {
            if self.is_busy() {
                parked.has_deputy = true;
                let waited = self.wake.wait_timeout(parked, SLOW);
                let (mut parked, _) = waited.unwrap_or_else(PoisonError::into_inner);
                parked.has_deputy = false;
                return parked;
            }
            // `begin` notes the time of its request, and then looks at this.
            self.is_quiet.store(true, Ordering::SeqCst);
            if self.is_busy() {
                self.is_quiet.store(false, Ordering::SeqCst);
                return parked;
            }
        }
        let waited = self.wake.wait(parked);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no thread has read for too long.
    fn is_slow(&self) -> bool {
        let is_unread = self.reading.load(Ordering::SeqCst) == 0;
        is_unread && self.since_begin_ns() >= nanoseconds(SLOW)
    }

    /// Whether requests arrive.
    fn is_busy(&self) -> bool {
        self.since_begin_ns() < nanoseconds(QUIET) || self.reading.load(Ordering::SeqCst) == 0
    }

    fn since_begin_ns(&self) -> u64 {
        let now_ns = self.ns_at(Instant::now());
        now_ns.saturating_sub(self.began_ns.load(Ordering::SeqCst))
    }

    fn ns_at(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.origin))
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::JoinHandle;

    const LIMIT: Duration = Duration::from_secs(30);

    type Request = Box<dyn FnOnce() + Send>;

    /// What the kernel has to be read; `None`: the connection has ended.
    #[derive(Default)]
    struct Connection {
        requests: Mutex<Option<VecDeque<Request>>>,
        arrives: Condvar,
    }

    impl Connection {
        fn read(&self) -> Option<Request> {
            let mut requests = self.requests.lock().unwrap();
            loop {
                match requests.as_mut() {
                    None => return None,
                    Some(waiting) if !waiting.is_empty() => return waiting.pop_front(),
                    Some(_) => requests = self.arrives.wait(requests).unwrap(),
                }
            }
        }

        fn send(&self, request: impl FnOnce() + Send + 'static) {
            let mut requests = self.requests.lock().unwrap();
            requests.as_mut().unwrap().push_back(Box::new(request));
            self.arrives.notify_one();
        }

        fn end(&self) {
            *self.requests.lock().unwrap() = None;
            self.arrives.notify_all();
        }
    }

    struct Served {
        connection: Arc<Connection>,
        readers: Arc<Readers>,
        threads: Vec<JoinHandle<()>>,
    }

    /// A connection that this number of threads serves.
    fn served(threads: usize) -> Served {
        let connection = Arc::new(Connection::default());
        *connection.requests.lock().unwrap() = Some(VecDeque::new());
        let readers = Readers::new(true);
        let serve = || {
            let (connection, readers) = (connection.clone(), readers.clone());
            std::thread::spawn(move || {
                while let Some(request) = connection.read() {
                    readers.begin(Instant::now(), 0);
                    request();
                    readers.done(0, true, || false);
                }
            })
        };
        let threads = (0..threads).map(|_| serve()).collect();
        Served {
            connection,
            readers,
            threads,
        }
    }

    impl Served {
        /// Make requests, each after the answer to the last one, until one thread reads alone.
        fn settle(&self) {
            let (answer, answers) = channel();
            let begun = Instant::now();
            while self.readers.parked().threads + 1 < self.threads.len() {
                assert!(begun.elapsed() < LIMIT, "several threads read");
                let answer: Sender<()> = answer.clone();
                self.connection.send(move || answer.send(()).unwrap());
                answers.recv_timeout(LIMIT).expect("an answer");
            }
        }

        fn ends(self) {
            let begun = Instant::now();
            for thread in self.threads {
                while !thread.is_finished() {
                    assert!(begun.elapsed() < LIMIT, "a thread is still parked");
                    std::thread::sleep(Duration::from_millis(1));
                }
                thread.join().unwrap();
            }
        }
    }

    #[test]
    fn threads_that_are_not_needed_are_parked_and_end() {
        let served = served(4);
        served.settle();
        served.connection.end();
        served.ends();
    }

    #[test]
    fn a_request_waits_for_no_slow_one() {
        let served = served(3);
        served.settle();
        // Each waits for the next one to be served.
        let (first_done, first) = channel();
        let (second_done, second) = channel();
        let (third_done, third) = channel();
        served.connection.send(move || {
            let got = second.recv_timeout(LIMIT);
            first_done.send(got).unwrap();
        });
        served.connection.send(move || {
            let got = third.recv_timeout(LIMIT);
            second_done.send(got).unwrap();
        });
        served.connection.send(move || third_done.send(()).unwrap());
        assert_eq!(first.recv_timeout(2 * LIMIT), Ok(Ok(Ok(()))));
        // They are parked again.
        served.settle();
        served.connection.end();
        served.ends();
    }

    #[test]
    fn a_slow_request_after_a_pause_is_seen() {
        let served = served(2);
        served.settle();
        while !served.readers.is_quiet.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (done, is_done) = channel();
        let (answer, answers) = channel();
        served
            .connection
            .send(move || answer.send(is_done.recv_timeout(LIMIT)).unwrap());
        served.connection.send(move || done.send(()).unwrap());
        assert_eq!(answers.recv_timeout(2 * LIMIT), Ok(Ok(())));
        served.connection.end();
        served.ends();
    }

    /// The calling thread reads, and another one is parked.
    fn with_parked_thread(readers: &Arc<Readers>) -> JoinHandle<()> {
        readers.begin(Instant::now(), 0);
        readers.done(0, true, || false);
        let parked = {
            let readers = readers.clone();
            std::thread::spawn(move || {
                readers.begin(Instant::now(), 0);
                readers.done(0, true, || false);
            })
        };
        while readers.parked().threads == 0 {
            assert!(!parked.is_finished(), "another thread reads");
            std::thread::yield_now();
        }
        parked
    }

    #[test]
    fn parked_threads_end_without_a_thread_that_served() {
        let readers = Readers::new(true);
        let parked = with_parked_thread(&readers);
        readers.end();
        parked.join().unwrap();
    }

    #[test]
    fn requests_that_wait_call_one_more_thread() {
        let readers = Readers::new(true);
        let parked = with_parked_thread(&readers);
        for _ in 0..STREAK {
            readers.begin(Instant::now(), 0);
            readers.done(0, true, || true);
        }
        parked.join().unwrap();
    }

    #[test]
    fn a_thread_with_parts_of_a_request_left_is_not_parked() {
        let readers = Readers::new(true);
        let parked = with_parked_thread(&readers);
        let (part_done, is_part_done) = channel();
        let with_parts = {
            let readers = readers.clone();
            std::thread::spawn(move || {
                readers.begin(Instant::now(), 0);
                readers.done(0, false, || false);
                readers.go_on();
                // Before this thread ends, and with it the connection.
                let reading = readers.reading.load(Ordering::SeqCst);
                part_done.send(reading).unwrap();
            })
        };
        let reading = is_part_done.recv_timeout(LIMIT);
        let reading = reading.expect("it is parked with work left");
        assert_eq!(reading, 1, "the thread of the test reads");
        with_parts.join().unwrap();
        readers.end();
        parked.join().unwrap();
    }

    #[test]
    fn no_thread_is_parked_while_threads_wait_for_cpus() {
        let readers = Readers::new(true);
        let parked = with_parked_thread(&readers);
        readers
            .contended_until_ns
            .store(u64::MAX, Ordering::Relaxed);
        let (done, is_done) = channel();
        let one_more = {
            let readers = readers.clone();
            std::thread::spawn(move || {
                readers.begin(Instant::now(), 0);
                readers.done(0, true, || false);
                done.send(()).unwrap();
            })
        };
        assert!(is_done.recv_timeout(LIMIT).is_ok(), "it is parked");
        one_more.join().unwrap();
        parked.join().unwrap();
    }

    #[test]
    fn all_parked_threads_are_called_at_once() {
        let readers = Readers::new(true);
        let parked = with_parked_thread(&readers);
        readers.call(usize::MAX);
        parked.join().unwrap();
    }

    #[test]
    fn readers_poll_only_where_requests_come_soon() {
        let looks_of_thread = |may_poll: bool, gap: Duration| {
            let readers = Readers::new(may_poll);
            readers.begin(Instant::now(), 0);
            readers.done(0, true, || true);
            readers.begin(Instant::now() + gap, 0);
            let looks = Cell::new(0);
            readers.done(0, true, || {
                looks.set(looks.get() + 1);
                looks.get() > 2
            });
            looks.get()
        };
        // A thread serves one mount only.
        let looks = |may_poll, gap| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(move || looks_of_thread(may_poll, gap));
                thread.join().unwrap()
            })
        };
        assert_eq!(looks(true, Duration::from_secs(1)), 1);
        assert_eq!(looks(false, Duration::ZERO), 1);
        // It may lose its CPU before the second request.
        let soon = (0..1000).any(|_| looks(true, Duration::ZERO) == 3);
        assert!(soon);
    }
}
