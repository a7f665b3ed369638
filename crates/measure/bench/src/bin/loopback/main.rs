//! A minimal file system over FUSE that passes everything on to a directory: what `egeria-lab bench names` and
//! `egeria-lab bench everyday` compare the mount with. The same FUSE library, as many threads, and otherwise what
//! libfuse's `passthrough_ll` does by default: names and attributes are kept for a second.
//!
//! ```text
//! egeria-loopback SOURCE DIRECTORY
//! ```
//! It says `ready` once mounted, and unmounts when its standard input ends: also when who started it was killed.

#![forbid(unsafe_code)]

mod answers;
mod convert;
mod files;
mod handles;
mod nodes;

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use fuser::{Config, MountOption, Session};

use files::Loopback;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let [source, directory] = arguments.as_slice() else {
        eprintln!("egeria-loopback: started by hand; run `egeria-lab bench names` instead");
        return ExitCode::from(2);
    };
    match serve(source.as_ref(), directory.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("egeria-loopback: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(source: &Path, directory: &Path) -> io::Result<()> {
    let session = Session::new(Loopback::of(source)?, directory, &config())?.spawn()?;
    let mut output = io::stdout();
    output.write_all(b"ready\n").and_then(|()| output.flush())?;
    // Nothing is ever said there: the end is the sign.
    io::stdin().read_to_end(&mut Vec::new())?;
    session.umount_and_join()
}

/// As many threads as the mount has, each with a queue of its own.
fn config() -> Config {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("egeria-loopback".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
    ];
    config.n_threads = Some((2 * cpus).clamp(4, 32));
    config.clone_fd = true;
    config
}
