//! The library and the C programs, made when they are not there or old.
//!
//! Cargo does not build a `cdylib` for its own package's tests, so the tests ask it to, once per
//! profile and only when a source is newer than the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

const NAME: &str = "libegeria_preload.so";

/// Path of the library: the one `EGERIA_PRELOAD_LIBRARY` names, or built as this test was.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("EGERIA_PRELOAD_LIBRARY") {
            return PathBuf::from(given);
        }
        // target/[triple/]profile/deps/test
        let test = std::env::current_exe().unwrap();
        let directory = test.ancestors().nth(2).unwrap().to_path_buf();
        let library = directory.join(NAME);
        if !is_fresh(&library) {
            build(&directory);
        }
        assert!(library.is_file(), "{} was not built", library.display());
        library
    })
}

/// Whether the library is there and no source that cargo noted for it is newer.
fn is_fresh(library: &Path) -> bool {
    let Some(built) = modified(library) else {
        return false;
    };
    let Ok(noted) = fs::read_to_string(library.with_extension("d")) else {
        return false;
    };
    let sources = noted
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1);
    sources
        .map(|source| modified(Path::new(source)))
        .all(|time| time.is_some_and(|time| time <= built))
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|facts| facts.modified()).ok()
}

fn build(directory: &Path) {
    let profile = match directory
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap()
    {
        "debug" => "dev",
        other => other,
    };
    let above = directory.parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "build",
        "--quiet",
        "-p",
        "egeria-preload",
        "--profile",
        profile,
    ]);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    // A directory named like a target triple means that one was asked for.
    let name = above
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let triple = name.split('-').count() >= 3 && name.starts_with("x86_64-");
    if triple {
        command.args(["--target", name]);
    }
    let target = if triple {
        above.parent().unwrap()
    } else {
        above
    };
    let status = command.arg("--target-dir").arg(target).status().unwrap();
    assert!(status.success(), "cargo could not build {NAME}");
}

/// A test program, compiled.
pub fn program(name: &str) -> PathBuf {
    compile(name, name, &[])
}

/// The same, linked statically.
pub fn static_program(name: &str) -> PathBuf {
    compile(name, &format!("{name}-static"), &["-static"])
}

/// A program of the tests with ThreadSanitizer; `None` where the compiler has none.
pub fn thread_sanitized(name: &str) -> Option<PathBuf> {
    let probe = Command::new("cc")
        .args(["-fsanitize=thread", "-x", "c", "-o", "/dev/null", "-"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .and_then(|mut probe| {
            let text = b"int main(void) { return 0; }";
            std::io::Write::write_all(&mut probe.stdin.take().unwrap(), text)?;
            probe.wait()
        });
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED, PROVES NOTHING: the C compiler has no ThreadSanitizer");
        return None;
    }
    let flags = ["-fsanitize=thread"];
    Some(compile(name, &format!("{name}-tsan"), &flags))
}

/// A program of the tests as a shared object.
pub fn shared_object(name: &str) -> PathBuf {
    compile(name, &format!("{name}.so"), &["-shared", "-fPIC"])
}

/// Compile into the directory cargo has for such things; whoever is later replaces the file whole.
fn compile(source_name: &str, name: &str, flags: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = programs.join(format!("{source_name}.c"));
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let newest = modified(&source).max(modified(&programs.join("rules.h")));
    if modified(&made).is_some_and(|time| Some(time) > newest) {
        return made;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let fresh = made.with_extension(format!("{}-{}", unique.0, unique.1));
    let status = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-fno-builtin", "-o"])
        .arg(&fresh)
        .arg(&source)
        .args(flags)
        .status()
        .expect("no C compiler: install the package gcc");
    assert!(status.success(), "{} does not compile", source.display());
    fs::rename(&fresh, &made).unwrap();
    made
}
