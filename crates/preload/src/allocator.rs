//! Memory of the library and the engine in it, apart from the host's `malloc`.
//!
//! A hook may run inside the host's allocator, or in a signal handler that interrupted it: taking
//! memory from there could deadlock (faults.md, hook_allocates). So all Rust code in this shared
//! object allocates here: size classes of powers of two, carved from mapped chunks, under one lock
//! that only threads inside the engine take. Nothing is allocated on the data path.

use crate::apart::Apart;
use crate::locked::Locked;
use crate::{raw, thread};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

const SMALLEST_BYTES: usize = 16;
const CLASSES: usize = 14;
const LARGEST_BYTES: usize = SMALLEST_BYTES << (CLASSES - 1);
const CHUNK_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

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

// SAFETY: pieces are disjoint, as large and as aligned as their class says, which covers the layout.
unsafe impl GlobalAlloc for PrivateMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class(layout) {
            Some(class) => self.with_pieces(|pieces| pieces.take(class)),
            None => map_aligned(layout),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            // Fresh from the kernel: pages that nobody uses stay untouched.
            return map_aligned(layout);
        };
        let piece = self.with_pieces(|pieces| pieces.take(class));
        if !piece.is_null() {
            // SAFETY: a piece is as long as its layout at least.
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match class(layout) {
            Some(class) => self.with_pieces(|pieces| pieces.give(piece, class)),
            None => {
                raw::munmap(piece, layout.size().next_multiple_of(PAGE_BYTES));
            }
        }
    }
}

impl PrivateMemory {
    fn with_pieces<T>(&self, body: impl FnOnce(&mut Pieces) -> T) -> T {
        thread::inside(|| self.0.with(body))
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
