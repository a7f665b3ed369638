//! The kernel's side: DAMON's files below `/sys/kernel/mm/damon`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::unusable::Unusable;

/// Below the root of the file system.
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// A file of sysfs is at most a page.
const MAX_BYTES: u64 = 4096;
/// While one command is carried out, the kernel refuses others (`EBUSY`).
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);
/// Names of functions of the kernel: some 10 MB.
const MAX_SYMBOL_BYTES: u64 = 64 << 20;
/// What a kernel has that monitors virtual addresses.
const SYMBOL: &str = " damon_va_prepare_access_checks";

/// DAMON's directory of kernel threads. Paths are relative to it.
pub trait Kernel: Send + Sync {
    /// What a file says, without blanks around it.
    ///
    /// # Errors
    /// Those of the kernel; `InvalidData` for what is longer than a page, or no text.
    fn read(&self, file: &str) -> io::Result<String>;

    /// Writes one line into a file.
    ///
    /// # Errors
    /// Those of the kernel.
    fn write(&self, file: &str, line: &str) -> io::Result<()>;

    /// The entries of a directory that have numbers as names, ascending; at most `max`.
    ///
    /// # Errors
    /// Those of the kernel.
    fn numbers(&self, directory: &str, max: usize) -> io::Result<Vec<u32>>;
}

/// The kernel of this machine.
#[derive(Clone, Debug)]
pub struct Sysfs {
    directory: PathBuf,
}

impl Sysfs {
    /// Below this root of the file system.
    pub fn below(root: &Path) -> Sysfs {
        Sysfs {
            directory: root.join(KDAMONDS),
        }
    }
}

impl Kernel for Sysfs {
    fn read(&self, file: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        let file = File::open(self.directory.join(file))?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(invalid("it is longer than a page"));
        }
        let text = String::from_utf8(bytes).map_err(|_| invalid("it is no text"))?;
        Ok(text.trim().to_owned())
    }

    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.directory.join(file))?;
        // The kernel takes a line that comes in one piece.
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn numbers(&self, directory: &str, max: usize) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.directory.join(directory))? {
            if found.len() >= max {
                break;
            }
            found.extend(entry?.file_name().to_str().and_then(canonical));
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// A number as the kernel writes it, without signs and leading zeros.
fn canonical(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

pub(super) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// What a file says, once the kernel is not at another command.
pub(super) fn read(kernel: &dyn Kernel, file: &str) -> io::Result<String> {
    patient(|| kernel.read(file))
}

/// A number that a file has.
pub(super) fn number(kernel: &dyn Kernel, file: &str) -> io::Result<u64> {
    let text = kernel.read(file)?;
    text.parse().map_err(|_| invalid("it has no number"))
}

/// Writes a line, and again as long as the kernel is at another command.
pub(super) fn write(kernel: &dyn Kernel, file: &str, line: &str) -> io::Result<()> {
    patient(|| kernel.write(file, line))
}

fn patient<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match ask() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    ask()
}

/// Whether DAMON could be used below this root. Nothing is changed, so what only a set-up shows is not known.
///
/// # Errors
/// Why it cannot.
pub fn check(root: &Path) -> Result<(), Unusable> {
    free(&Sysfs::below(root))?;
    if has_function(root) == Some(false) {
        return Err(Unusable::NoAddresses);
    }
    Ok(())
}

/// Whether no other program has set DAMON up.
pub(super) fn free(kernel: &dyn Kernel) -> Result<(), Unusable> {
    match number(kernel, "nr_kdamonds") {
        Ok(0) => return Ok(()),
        Ok(_) => {}
        Err(error) => return Err(Unusable::of(&error)),
    }
    // That of another says what there is.
    let known = kernel.read("0/contexts/0/avail_operations");
    if known.is_ok_and(|known| !has_addresses(&known)) {
        return Err(Unusable::NoAddresses);
    }
    Err(Unusable::InUse)
}

/// Whether a list of operations has those on virtual addresses.
pub(super) fn has_addresses(operations: &str) -> bool {
    operations.split_whitespace().any(|name| name == "vaddr")
}

/// Whether the kernel lists a function that monitors virtual addresses; `None` if it lists none.
fn has_function(root: &Path) -> Option<bool> {
    let mut names = String::new();
    let file = File::open(root.join("proc/kallsyms")).ok()?;
    file.take(MAX_SYMBOL_BYTES)
        .read_to_string(&mut names)
        .ok()?;
    (!names.is_empty()).then(|| names.contains(SYMBOL))
}
