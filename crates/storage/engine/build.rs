//! The version of the session's layout: a hash of all source that processes must have in common to share one.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// Below this crate: what lies in the session, and what its words mean.
const SHARED: [&str; 5] = [
    "src/session",
    "src/format/words.rs",
    "src/log/name_table.rs",
    "../admission/src",
    "../media/src/emulation",
];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for shared in SHARED {
        let path = root.join(shared);
        println!("cargo::rerun-if-changed={}", path.display());
        collect(&path, &mut files);
    }
    files.sort();
    let mut hash = 0x811c_9dc5u32;
    for file in files {
        let text = std::fs::read(&file).expect("a source file");
        // FNV-1a.
        hash = text.iter().fold(hash, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
    }
    println!("cargo::rustc-env=EGERIA_SESSION_VERSION={hash}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries {
                collect(&entry.expect("a source folder").path(), files);
            }
        }
        Err(_) => files.push(path.to_owned()),
    }
}
