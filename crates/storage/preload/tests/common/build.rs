//! The library and the C programs, made when they are not there or old.
//!
//! Cargo does not build a `cdylib` for its own package's tests, so the tests ask it to, once per
//! profile and only when a source is newer than the library.

use egeria_harness::testing::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use egeria_harness::testing::{modified, preload_library};

/// Path of the library: the one `EGERIA_PRELOAD_LIBRARY` names, or built as this test was.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var_os("EGERIA_PRELOAD_LIBRARY") {
        Some(given) => PathBuf::from(given),
        None => preload_library(),
    })
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
        skip("the C compiler has no ThreadSanitizer");
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
