//! Memory of the library and the engine in it, apart from the host's `malloc`.
//!
//! A hook may run inside the host's allocator, or in a signal handler that interrupted it: taking
//! memory from there could deadlock. So all Rust code in this shared
//! object allocates here: size classes of powers of two, carved from mapped chunks, under one lock
//! that only threads inside the engine take. Nothing is allocated on the data path.
//!
//! Threads whose end is reported (`endings`) keep some small pieces for themselves, so that calls on names neither wait for
//! each other here nor for the lock's cache line.

use super::words::{self, INSIDE, KEPT_CLASSES, KeptPieces, Thread};
use crate::sync::{Apart, Locked};
use crate::system::raw;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::Ordering;

/// Two cache lines, which processors fetch together: pieces of different threads share none.
const SMALLEST_BYTES: usize = 128;
const CLASSES: usize = 11;
const LARGEST_BYTES: usize = SMALLEST_BYTES << (CLASSES - 1);
const CHUNK_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// What a thread keeps of a class at most, and how many pieces of small ones.
const KEPT_BYTES: usize = 16 << 10;
const MAX_KEPT: usize = 64;

/// A free piece holds the address of the next.
struct Pieces {
    free: [*mut u8; CLASSES],
    chunk: *mut u8,
    chunk_left_bytes: usize,
}

// SAFETY: the pieces are nobody's, in no thread.
unsafe impl Send for Pieces {}

/// The global allocator of this shared object.
pub struct PrivateMemory(Apart<Locked<Pieces>>);

#[global_allocator]
static MEMORY: PrivateMemory = PrivateMemory(Apart(Locked::new(Pieces {
    free: [ptr::null_mut(); CLASSES],
    chunk: ptr::null_mut(),
    chunk_left_bytes: 0,
})));

/// Size class of a layout; `None`: mapped on its own.
fn class(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(layout.align()).max(SMALLEST_BYTES);
    (bytes <= LARGEST_BYTES)
        .then(|| (bytes.next_power_of_two() / SMALLEST_BYTES).trailing_zeros() as usize)
}

impl Pieces {
    fn take(&mut self, class: usize) -> *mut u8 {
        let piece = self.free[class];
        if !piece.is_null() {
            // SAFETY: a free piece begins with the next free piece.
            self.free[class] = unsafe { *piece.cast::<*mut u8>() };
            return piece;
        }
        self.carve(SMALLEST_BYTES << class)
    }

    /// A piece of a power of two, aligned to itself.
    fn carve(&mut self, bytes: usize) -> *mut u8 {
        let padding = self.chunk.align_offset(bytes);
        if self.chunk_left_bytes < padding.saturating_add(bytes) {
            let Some(chunk) = raw::map(CHUNK_BYTES) else {
                return ptr::null_mut();
            };
            self.chunk = chunk;
            self.chunk_left_bytes = CHUNK_BYTES;
            return self.carve(bytes);
        }
        let piece = self.chunk.wrapping_add(padding);
        self.chunk = piece.wrapping_add(bytes);
        self.chunk_left_bytes -= padding + bytes;
        piece
    }

    fn give(&mut self, piece: *mut u8, class: usize) {
        // SAFETY: the piece is unused from now on and at least 16 bytes long.
        unsafe { *piece.cast::<*mut u8>() = self.free[class] };
        self.free[class] = piece;
    }
}

/// How many pieces of a class a thread keeps at most.
const fn max_kept(class: usize) -> usize {
    let pieces = KEPT_BYTES / (SMALLEST_BYTES << class);
    if pieces < MAX_KEPT { pieces } else { MAX_KEPT }
}

/// What the calling thread keeps of a class. Nothing outside of the engine, where a handler may interrupt, nor while its
/// end would not be reported.
#[inline(always)]
fn kept(thread: &'static Thread, class: usize) -> Option<&'static KeptPieces> {
    let is_end_reported = !thread.endings.load(Ordering::Relaxed).is_null();
    (is_end_reported && thread.has(INSIDE))
        .then(|| thread.kept.get(class))
        .flatten()
}

impl KeptPieces {
    /// One that was kept.
    #[inline(always)]
    fn take(&self) -> Option<*mut u8> {
        let piece = self.first.load(Ordering::Relaxed);
        if piece.is_null() {
            return None;
        }
        // SAFETY: a kept piece begins with the next one, and is this thread's.
        let next = unsafe { *piece.cast::<*mut u8>() };
        self.first.store(next, Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.saturating_sub(1), Ordering::Relaxed);
        Some(piece)
    }

    /// Keep one; how many there are.
    #[inline(always)]
    fn give(&self, piece: *mut u8) -> usize {
        // SAFETY: the piece is unused from now on and at least 16 bytes long.
        unsafe { *piece.cast::<*mut u8>() = self.first.load(Ordering::Relaxed) };
        self.first.store(piece, Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed) + 1;
        self.count.store(count, Ordering::Relaxed);
        count as usize
    }

    /// Take one from those of all, and half as many as may be kept.
    #[cold]
    fn fill(&self, class: usize) -> *mut u8 {
        MEMORY.with_pieces(|pieces| {
            for _ in 0..max_kept(class) / 2 {
                match pieces.take(class) {
                    piece if piece.is_null() => break,
                    piece => _ = self.give(piece),
                }
            }
            pieces.take(class)
        })
    }

    /// Give all but so many to all.
    #[cold]
    fn empty(&self, class: usize, but: usize) {
        MEMORY.with_pieces(|pieces| {
            while self.count.load(Ordering::Relaxed) as usize > but {
                let Some(piece) = self.take() else { break };
                pieces.give(piece, class);
            }
        });
    }
}

/// The thread ends: what it keeps goes to all. Not by the counts, which a killed child of `vfork` may leave too low.
pub fn leave(thread: &'static Thread) {
    MEMORY.with_pieces(|pieces| {
        for (class, kept) in thread.kept.iter().enumerate() {
            while let Some(piece) = kept.take() {
                pieces.give(piece, class);
            }
        }
    });
}

// SAFETY: pieces are disjoint, as large and as aligned as their class says, which covers the layout.
unsafe impl GlobalAlloc for PrivateMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class(layout) {
            Some(class) => self.take(class),
            None => map_aligned(layout),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            // Fresh from the kernel: pages that nobody uses stay untouched.
            return map_aligned(layout);
        };
        let (piece, is_fresh) = self.take_and_say(class);
        if !piece.is_null() && !is_fresh {
            // SAFETY: a piece is as long as its layout at least.
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match class(layout) {
            Some(class) => self.give(piece, class),
            None => {
                raw::munmap(piece, layout.size().next_multiple_of(PAGE_BYTES));
            }
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller says that the size is one of a layout with this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if class(layout).is_some_and(|old| class(new_layout) == Some(old)) {
            return piece;
        }
        // SAFETY: as the caller says of the old one, and each is as long as its layout.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                ptr::copy_nonoverlapping(piece, new, layout.size().min(bytes));
                self.dealloc(piece, layout);
            }
            new
        }
    }
}

impl PrivateMemory {
    #[inline(always)]
    fn take(&self, class: usize) -> *mut u8 {
        match kept(words::current(), class) {
            Some(kept) => kept.take().unwrap_or_else(|| kept.fill(class)),
            None => self.with_pieces(|pieces| pieces.take(class)),
        }
    }

    /// The same, and whether the kernel's zeros are still in it: large tables, of which little is used, stay untouched then.
    fn take_and_say(&self, class: usize) -> (*mut u8, bool) {
        if class < KEPT_CLASSES {
            return (self.take(class), false);
        }
        self.with_pieces(|pieces| {
            let is_fresh = pieces.free[class].is_null();
            (pieces.take(class), is_fresh)
        })
    }

    #[inline(always)]
    fn give(&self, piece: *mut u8, class: usize) {
        match kept(words::current(), class) {
            Some(kept) => {
                if kept.give(piece) > max_kept(class) {
                    kept.empty(class, max_kept(class) / 2);
                }
            }
            None => self.with_pieces(|pieces| pieces.give(piece, class)),
        }
    }

    fn with_pieces<T>(&self, body: impl FnOnce(&mut Pieces) -> T) -> T {
        words::inside(|| self.0.with(body))
    }
}

/// A mapping of its own; what lies before and after the aligned part is given back.
fn map_aligned(layout: Layout) -> *mut u8 {
    let bytes = layout.size().next_multiple_of(PAGE_BYTES);
    let spare = if layout.align() > PAGE_BYTES {
        layout.align()
    } else {
        0
    };
    let Some(start) = raw::map(bytes + spare) else {
        return ptr::null_mut();
    };
    if spare == 0 {
        return start;
    }
    let head = start.align_offset(layout.align());
    let aligned = start.wrapping_add(head);
    if head > 0 {
        raw::munmap(start, head);
    }
    if spare > head {
        raw::munmap(aligned.wrapping_add(bytes), spare - head);
    }
    aligned
}

/// Hold the allocator still across a fork.
pub fn hold() {
    MEMORY.0.take();
}

/// Let it go again in the parent.
pub fn release() {
    MEMORY.0.give();
}

/// In a fork child: forget the lists, which another thread may have been changing, and begin anew.
pub fn reset_in_child() {
    MEMORY.0.reset();
    MEMORY.0.with(|pieces| {
        pieces.free = [ptr::null_mut(); CLASSES];
        pieces.chunk_left_bytes = 0;
    });
}

const _: () = assert!(max_kept(KEPT_CLASSES - 1) >= 2 && KEPT_CLASSES <= CLASSES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::endings;
    use libc::c_void;
    use std::sync::mpsc;

    extern "C" fn nothing(_: *mut c_void) {}

    fn is_kept(class: usize) -> usize {
        words::current().kept[class].count.load(Ordering::Relaxed) as usize
    }

    /// A thread whose end is reported.
    fn on_own_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let known = scope.spawn(|| {
                assert!(endings::prepare());
                words::inside(|| endings::add(nothing as *mut c_void, ptr::null_mut()));
                body()
            });
            known.join().expect("the thread ends well")
        })
    }

    #[test]
    fn what_is_in_use_overlaps_nothing() {
        let (sender, receiver) = mpsc::channel::<Vec<Vec<u8>>>();
        let fill = |seed: usize| -> Vec<Vec<u8>> {
            let sizes = (0..400).map(|at| (at * 37 + seed * 11) % 9000 + 1);
            sizes
                .map(|bytes| vec![(bytes + seed) as u8; bytes])
                .collect()
        };
        let is_whole = |seed: usize, all: &[Vec<u8>]| {
            all.iter().all(|piece| {
                let byte = (piece.len() + seed) as u8;
                piece.iter().all(|found| *found == byte)
            })
        };
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || {
                    on_own_thread(|| {
                        for round in 0..30 {
                            let mine = words::inside(|| fill(seed));
                            let (kept, given) = words::inside(|| (fill(seed + 1), fill(round)));
                            assert!(is_whole(seed, &mine) && is_whole(round, &given));
                            words::inside(|| drop(mine));
                            assert!(is_whole(seed + 1, &kept));
                            // Freed by another thread than took it.
                            sender.send(given).expect("somebody receives");
                            words::inside(|| drop(kept));
                        }
                    });
                });
            }
            drop(sender);
            on_own_thread(move || {
                while let Ok(given) = receiver.recv() {
                    words::inside(|| drop(given));
                }
            });
        });
    }

    #[test]
    fn a_thread_keeps_few_pieces_and_none_when_it_ends() {
        let class = class(Layout::new::<[u8; 1024]>()).expect("a small one");
        on_own_thread(|| {
            let many: Vec<Box<[u8; 1024]>> = (0..500).map(|_| Box::new([1; 1024])).collect();
            words::inside(|| drop(many));
            assert!((1..=max_kept(class)).contains(&is_kept(class)));
            let piece = words::inside(|| Box::new([2_u8; 1024]));
            assert!((0..max_kept(class)).contains(&is_kept(class)));
            drop(piece);
            words::inside(|| leave(words::current()));
            assert_eq!(is_kept(class), 0);
        });
        // A thread whose end is not reported keeps nothing.
        std::thread::spawn(move || {
            words::inside(|| drop(Box::new([3_u8; 1024])));
            assert_eq!(is_kept(class), 0);
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn zeroed_memory_is_zero_also_if_it_was_used() {
        for round in 0..40_u8 {
            for shift in 3..17 {
                // Pieces of all classes, fresh ones and such that were used before.
                let mut pieces: Vec<Vec<u8>> = (0..3).map(|_| vec![0; (1 << shift) + 1]).collect();
                assert!(pieces.iter().flatten().all(|byte| *byte == 0), "{shift}");
                pieces.iter_mut().for_each(|piece| piece.fill(round | 1));
            }
        }
    }

    #[test]
    fn what_grows_within_its_piece_stays_there() {
        let mut text = Vec::with_capacity(65);
        text.extend_from_slice(&[7_u8; 65]);
        let before = text.as_ptr();
        text.reserve_exact(128 - text.len());
        assert_eq!(text.as_ptr(), before);
        text.resize(300, 8);
        assert!(text[..65] == [7; 65] && text[65..] == [8; 235]);
    }
}
