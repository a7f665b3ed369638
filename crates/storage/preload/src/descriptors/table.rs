//! What each descriptor number is, as far as this process knows. Lock-free: one word per number.
//!
//! A word is `generation | payload | tag`. Every change of what a number means makes a new
//! generation, so that whoever found something out about the old meaning cannot store it.

use crate::bare_calls;
use crate::description::record::Record;
use crate::description::sole::{self, SOLE};
use crate::sync::{Apart, pause};
use crate::system::{libc_threads, raw};
use crate::thread::{self, Thread, process};
use crate::trust::{admission, settings};
use libc::c_int;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const FIRST: usize = 1024;
const CHUNK: usize = 8192;
const CHUNKS: usize = 128;
const TAG_BITS: u64 = 0b111;
const PAYLOAD_BITS: u64 = ((1 << 48) - 1) & !TAG_BITS;
const GENERATION: u64 = 1 << 48;

/// What a word says of its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Tag {
    /// Nothing known: found out at the first data call; the kernel's position counts.
    Unknown = 0,
    /// Opened by this process through a hook, not looked at yet; may get a private offset.
    Fresh = 1,
    /// Not a regular file of ours: calls pass at once.
    NotOurs = 2,
    /// A file of ours; the payload is its record.
    Ours = 3,
    /// A close is under way: calls of other threads wait, and nobody may store anything.
    Closing = 4,
}

/// A table word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub(crate) u64);

impl Word {
    /// A number beyond the table.
    const BEYOND: Word = Word(Tag::NotOurs as u64);

    /// The word at a place of the table.
    #[inline(always)]
    pub fn at(place: &AtomicU64) -> Word {
        Word(place.load(Ordering::Acquire))
    }

    /// What it says.
    #[inline(always)]
    pub fn tag(self) -> Tag {
        match self.0 & TAG_BITS {
            1 => Tag::Fresh,
            2 => Tag::NotOurs,
            3 => Tag::Ours,
            4 => Tag::Closing,
            _ => Tag::Unknown,
        }
    }

    /// Whether it is a file of ours: the question of every call.
    #[inline(always)]
    pub fn is_ours(self) -> bool {
        self.0 & TAG_BITS == Tag::Ours as u64
    }

    /// Whether it is a file of ours that any thread may use as it is.
    #[inline(always)]
    pub fn is_everybodys(self) -> bool {
        self.0 & (TAG_BITS | SOLE) == Tag::Ours as u64
    }

    /// Of a file of ours: whether only the thread that opened it has used it.
    pub fn is_sole(self) -> bool {
        self.0 & (TAG_BITS | SOLE) == Tag::Ours as u64 | SOLE
    }

    /// Of a file of ours: whether another word of the number names it, too.
    pub fn is_same_file(self, other: Word) -> bool {
        self.is_ours() && other.is_ours() && self.record() == other.record()
    }

    /// The record of a word with [`Tag::Ours`].
    #[inline(always)]
    pub fn record(self) -> *mut Record {
        // Records are aligned, so that SOLE has a bit.
        (self.0 & PAYLOAD_BITS & !SOLE) as *mut Record
    }

    /// The share count at which a [`Tag::Fresh`] number was opened.
    pub fn opened_at(self) -> u64 {
        (self.0 & PAYLOAD_BITS) >> 3
    }

    /// Whether the calling thread is the one that closes a [`Tag::Closing`] number.
    pub fn closed_by_caller(self) -> bool {
        self.opened_at() == u64::from(thread::current().id(process::owner()))
    }

    fn with(self, tag: Tag, payload: u64) -> Word {
        Word((self.0 & !(PAYLOAD_BITS | TAG_BITS)) | (payload & PAYLOAD_BITS) | tag as u64)
    }

    /// The same meaning of the number, more known of it.
    pub fn learned(self, tag: Tag, record: *mut Record) -> Word {
        self.with(tag, record as u64)
    }

    /// A new meaning of the number.
    pub fn renewed(self, tag: Tag, payload: u64) -> Word {
        Word(self.0.wrapping_add(GENERATION)).with(tag, payload)
    }
}

/// One of the first numbers. Threads that open files beside each other have numbers beside each other.
struct First {
    word: AtomicU64,
    /// The thread that opened it, where its word is sole.
    opener: AtomicU64,
}

static START: [Apart<First>; FIRST] = [const {
    Apart(First {
        word: AtomicU64::new(0),
        opener: AtomicU64::new(0),
    })
}; FIRST];
static MORE: [AtomicPtr<AtomicU64>; CHUNKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// The word's place, if the number is a low one, as most are.
#[inline(always)]
pub fn first_place(fd: c_int) -> Option<&'static AtomicU64> {
    START.get(fd as u32 as usize).map(|first| &first.word)
}

/// The word's place, if that part of the table is there.
#[inline(always)]
pub fn place(fd: c_int) -> Option<&'static AtomicU64> {
    let number = fd as u32 as usize;
    if number < FIRST {
        return Some(&START[number].word);
    }
    place_beyond(number)
}

fn place_beyond(number: usize) -> Option<&'static AtomicU64> {
    let above = number - FIRST;
    let chunk = MORE.get(above / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: a chunk is CHUNK zeroed words, mapped for ever.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add(above % CHUNK) })
}

/// The word's place, made when it is not there yet; `None` for numbers beyond the table.
pub fn place_made(fd: c_int) -> Option<&'static AtomicU64> {
    let number = usize::try_from(fd).ok()?;
    if let Some(place) = place(fd) {
        return Some(place);
    }
    let bytes = CHUNK * size_of::<AtomicU64>();
    let fresh = raw::map(bytes)?;
    let cell = MORE.get((number - FIRST) / CHUNK)?;
    let null = std::ptr::null_mut();
    if cell
        .compare_exchange(null, fresh.cast(), Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        raw::munmap(fresh, bytes);
    }
    place(fd)
}

/// What the number is now.
#[inline(always)]
pub fn load(fd: c_int) -> Word {
    match place(fd) {
        Some(place) => Word(place.load(Ordering::Acquire)),
        None => load_unmade(fd),
    }
}

#[cold]
fn load_unmade(fd: c_int) -> Word {
    if settings::is_off() {
        return Word::BEYOND;
    }
    place_made(fd).map_or(Word::BEYOND, |place| Word(place.load(Ordering::Acquire)))
}

/// Store `new` if the word is still `old`. Nothing becomes ours when the library is off.
pub fn replace(fd: c_int, old: Word, new: Word) -> bool {
    let Some(place) = place(fd) else { return false };
    let exchange = || {
        place
            .compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    };
    if !new.is_ours() {
        return exchange();
    }
    let exchange = || exchange() && distrusted(fd, new);
    if HIGHEST.load(Ordering::Relaxed) < fd as usize {
        HIGHEST.fetch_max(fd as usize, Ordering::Relaxed);
    }
    thread::inside(|| admission::admitted(exchange)).unwrap_or(false)
}

/// The word was just stored. Where numbers are not believed, no thread may use it as it is.
fn distrusted(fd: c_int, word: Word) -> bool {
    if bare_calls::may_happen() {
        distrust(fd, word);
    }
    true
}

/// The word of a file of ours: as if a thread that is not there had opened the number.
#[cold]
#[inline(never)]
fn distrust(fd: c_int, mut word: Word) {
    while word.is_ours() && !is_distrusted(fd, word) {
        if let Some(opener) = opener(fd) {
            opener.store(0, Ordering::Relaxed);
        }
        if let Some(place) = place(fd) {
            let new = word.0 | SOLE;
            let _ = place.compare_exchange(word.0, new, Ordering::AcqRel, Ordering::Acquire);
        }
        word = load(fd);
    }
}

fn is_distrusted(fd: c_int, word: Word) -> bool {
    word.is_sole() && opener(fd).is_none_or(|opener| opener.load(Ordering::Relaxed) == 0)
}

/// No number is believed from now on: each use of one looks first.
pub fn distrust_all() {
    for_each_ours(distrust);
}

/// While another thread leaves the volumes (`withdraw`): wait until the number is no file of ours any more. The kernel has
/// the file then, and nobody gives the number another meaning.
pub fn wait_while_handed_over(fd: c_int) {
    // Ten seconds. A fork child that nobody announced has nobody who goes on.
    const ROUNDS: u32 = 100_000;
    let mut round = 0;
    while settings::is_off() && load(fd).is_ours() && round < ROUNDS {
        pause(&mut round);
    }
}

fn opener(fd: c_int) -> Option<&'static AtomicU64> {
    START.get(fd as u32 as usize).map(|first| &first.opener)
}

/// Make a number ours, for the calling thread alone until another one uses it; false when the word has changed.
pub fn open(fd: c_int, old: Word, record: *mut Record) -> bool {
    let Some(opener) = opener(fd).filter(|_| !libc_threads::alone()) else {
        return replace(fd, old, old.renewed(Tag::Ours, record as u64));
    };
    // No two threads that live have the same address.
    opener.store(
        std::ptr::from_ref(thread::current()) as u64,
        Ordering::Relaxed,
    );
    replace(fd, old, old.renewed(Tag::Ours, record as u64 | SOLE))
}

/// Whether the word is a file of ours, and the thread may use it as it is.
#[inline(always)]
pub fn may_use(thread: &Thread, fd: c_int, word: Word) -> bool {
    word.is_everybodys() || is_alone_with(thread, fd, word)
}

/// Whether the word is a file of ours that the thread alone has used.
pub fn is_alone_with(thread: &Thread, fd: c_int, word: Word) -> bool {
    let is_opener =
        |opener: &AtomicU64| sole::may_use(word.0, opener, std::ptr::from_ref(thread) as u64);
    word.is_sole() && opener(fd).is_some_and(is_opener)
}

/// Any thread may use it from now on.
#[cold]
pub fn share(fd: c_int, word: Word) {
    if bare_calls::may_happen() {
        return;
    }
    if let Some(place) = place(fd) {
        sole::share(place, word.0);
    }
}

/// Every number whose word is a file of ours.
pub fn for_each_ours(mut body: impl FnMut(c_int, Word)) {
    let mut fd = 0;
    while fd <= HIGHEST.load(Ordering::Relaxed) {
        let Some(place) = place(fd as c_int) else {
            fd += CHUNK - (fd - FIRST) % CHUNK;
            continue;
        };
        let word = Word(place.load(Ordering::Acquire));
        if word.is_ours() {
            body(fd as c_int, word);
        }
        fd += 1;
    }
}

/// Numbers from `first` to `last` that something is known of.
pub fn for_each_known(first: u32, last: u32, mut body: impl FnMut(c_int)) {
    let end = (last as usize).min(FIRST + CHUNK * CHUNKS - 1);
    let mut fd = first as usize;
    while fd <= end {
        match place(fd as c_int) {
            Some(place) if place.load(Ordering::Relaxed) & TAG_BITS != 0 => body(fd as c_int),
            Some(_) => {}
            None => {
                fd += CHUNK - (fd - FIRST) % CHUNK;
                continue;
            }
        }
        fd += 1;
    }
}

/// In a fork child, or when the library gives up: all files of ours are unknown again.
pub fn forget_records() {
    for_each_ours(|fd, mut word| {
        // A thread may begin to use it meanwhile.
        while word.is_ours() && !replace(fd, word, word.renewed(Tag::Unknown, 0)) {
            word = load(fd);
        }
    });
}
