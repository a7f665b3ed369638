//! The program that is looked at: every fourth piece of its memory is used all the time, and the others never.
//!
//! Processors keep translations of addresses, and note a use only when they read one from the page table. A large program
//! loses them by its size, but QEMU's processors keep them for long. So the program gives up some memory in each pass:
//! then the kernel has its processors forget them all.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};

use crate::programs::worker;

const PAGE: usize = 4096;
/// One piece in this number is used.
const EVERY: usize = 4;
/// More pages than the kernel has processors forget one by one (33).
const GIVEN_UP_BYTES: usize = 64 * PAGE;
const PAUSE: Duration = Duration::from_millis(5);

/// Where the memory is.
#[derive(Serialize, Deserialize)]
pub(super) struct Memory {
    pub(super) used: Vec<Range<usize>>,
    pub(super) all: Vec<Range<usize>>,
}

/// Uses its memory until standard input ends. `what` is `joined` or `apart`, for pieces in one mapping or each in its own,
/// the bytes of all, and those of a piece.
///
/// # Errors
/// One line with cause and remedy.
pub fn run(what: &[String]) -> Result<(), String> {
    let [layout, all_bytes, piece_bytes] = what else {
        return Err(format!(
            "{what:?} is no subject; `egeria-lab bench sharpness` starts it itself"
        ));
    };
    let number = |text: &String| {
        let number = text.parse::<usize>().ok().filter(|bytes| *bytes >= PAGE);
        number.ok_or_else(|| format!("{text} is no size"))
    };
    let (all_bytes, piece_bytes) = (number(all_bytes)?, number(piece_bytes)?);
    let pieces = pieces(layout == "apart", all_bytes, piece_bytes);
    let pieces =
        pieces.map_err(|error| format!("there is no memory: {error}; use a smaller --size"))?;
    let used: Vec<Range<usize>> = pieces.iter().step_by(EVERY).cloned().collect();
    let is_over = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                used.iter().cloned().for_each(touch);
                // Without it less is seen, and the figures say so.
                let _ = forget_translations();
                std::thread::sleep(PAUSE);
            }
        });
        let served = worker::serve(|(): &()| {
            Ok(Memory {
                used: used.clone(),
                all: pieces.clone(),
            })
        });
        is_over.store(true, Ordering::Relaxed);
        served
    });
    served.map_err(|error| format!("the answer cannot be given: {error}; do not close its pipes"))
}

/// The pieces, all touched once.
fn pieces(is_apart: bool, all_bytes: usize, piece_bytes: usize) -> io::Result<Vec<Range<usize>>> {
    let count = (all_bytes / piece_bytes).max(EVERY);
    let begins: Vec<usize> = if is_apart {
        // A page between two mappings keeps the kernel from making them one.
        let step = piece_bytes + PAGE;
        let all = map(count * step)?;
        for number in 0..count {
            let page = (all + number * step + piece_bytes) as *mut std::ffi::c_void;
            // SAFETY: the page was mapped just now, and no reference to it exists.
            unsafe { munmap(page, PAGE)? };
        }
        (0..count).map(|number| all + number * step).collect()
    } else {
        let all = map(count * piece_bytes)?;
        (0..count)
            .map(|number| all + number * piece_bytes)
            .collect()
    };
    let pieces: Vec<Range<usize>> = begins
        .into_iter()
        .map(|begin| begin..begin + piece_bytes / PAGE * PAGE)
        .collect();
    pieces.iter().cloned().for_each(touch);
    Ok(pieces)
}

/// Memory of small pages: in a huge page, one use counts for all of it.
fn map(bytes: usize) -> io::Result<usize> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so no other memory is replaced.
    let memory =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
    // SAFETY: it is a hint on the mapping of the line before.
    let _ = unsafe { madvise(memory, bytes, Advice::LinuxNoHugepage) };
    Ok(memory as usize)
}

/// Writes into each page.
fn touch(range: Range<usize>) {
    for page in range.step_by(PAGE) {
        // SAFETY: the pieces are mapped for writing until the program ends, and are used through such writes only.
        unsafe { std::ptr::write_volatile(page as *mut u8, 1) };
    }
}

fn forget_translations() -> io::Result<()> {
    let begin = map(GIVEN_UP_BYTES)?;
    touch(begin..begin + GIVEN_UP_BYTES);
    // SAFETY: the mapping was made above, and nothing else knows of it.
    unsafe { munmap(begin as *mut std::ffi::c_void, GIVEN_UP_BYTES)? };
    Ok(())
}
