//! Files and directories with names that libc makes up: those of a volume are made here, in the same way.

use super::naming::make_directory;
use super::open::{open_directly, opened};
use crate::system::{caller, errno, raw, real};
use crate::volumes::mounts;
use libc::{c_char, c_int};

/// What the end of a template must be.
const MARK: [u8; 6] = *b"XXXXXX";
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// As often as libc tries: as many as there are names of three letters.
const TRIES: usize = 62 * 62 * 62;

/// The place in a template for letters; `None` when it has none.
struct Place(*mut [u8; 6]);

impl Place {
    fn of(template: *mut c_char, suffix: c_int) -> Option<Place> {
        // SAFETY: a terminated string, as the hooked function of libc demands of its caller.
        let bytes = unsafe { libc::strlen(template) };
        let suffix = usize::try_from(suffix).ok()?;
        let start = bytes.checked_sub(suffix.checked_add(MARK.len())?)?;
        let place = template.wrapping_add(start).cast::<[u8; 6]>();
        (caller::read(place) == Some(MARK)).then_some(Place(place))
    }

    fn write(&self, letters: [u8; 6]) {
        caller::write(self.0, letters);
    }
}

/// Letters that nobody can guess, where the system has random numbers at once.
fn letters() -> [u8; 6] {
    let mut number = 0u64;
    let bytes = size_of_val(&number);
    let filled = raw::getrandom((&raw mut number).cast(), bytes, libc::GRND_NONBLOCK);
    if filled != bytes as isize {
        number = mounts::ticks().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    std::array::from_fn(|_| {
        let letter = LETTERS[(number % LETTERS.len() as u64) as usize];
        number /= LETTERS.len() as u64;
        letter
    })
}

/// Make something with the first name that is free. `None`, and the template as it was: libc is to do it.
fn make(
    template: *mut c_char,
    suffix: c_int,
    make_named: impl Fn() -> Option<c_int>,
) -> Option<c_int> {
    let place = Place::of(template, suffix)?;
    let error = errno::get();
    for _ in 0..TRIES {
        place.write(letters());
        match make_named() {
            Some(-1) if errno::get() == libc::EEXIST => {}
            Some(-1) => return Some(-1),
            Some(made) => {
                errno::set(error);
                return Some(made);
            }
            None => {
                place.write(MARK);
                return None;
            }
        }
    }
    Some(-1)
}

fn make_file(template: *mut c_char, suffix: c_int, flags: c_int) -> Option<c_int> {
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    make(template, suffix, || {
        open_directly(libc::AT_FDCWD, template, flags, 0o600)
    })
}

fn mkstemp(template: *mut c_char) -> c_int {
    make_file(template, 0, 0).unwrap_or_else(|| opened(real::mkstemp(template), libc::O_CREAT))
}

fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
    make_file(template, 0, flags)
        .unwrap_or_else(|| opened(real::mkostemp(template, flags), libc::O_CREAT))
}

fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
    make_file(template, suffix, 0)
        .unwrap_or_else(|| opened(real::mkstemps(template, suffix), libc::O_CREAT))
}

fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    make_file(template, suffix, flags)
        .unwrap_or_else(|| opened(real::mkostemps(template, suffix, flags), libc::O_CREAT))
}

fn mkdtemp(template: *mut c_char) -> *mut c_char {
    let made = make(template, 0, || {
        make_directory(libc::AT_FDCWD, template, 0o700)
    });
    match made {
        Some(0..) => template,
        Some(_) => std::ptr::null_mut(),
        None => real::mkdtemp(template),
    }
}

export! {
    mkstemp, mkstemp64 => mkstemp(template: *mut c_char) -> c_int;
    mkostemp, mkostemp64 => mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    mkstemps, mkstemps64 => mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    mkostemps, mkostemps64 => mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    mkdtemp => mkdtemp(template: *mut c_char) -> *mut c_char;
}
