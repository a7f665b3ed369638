//! What a mount says of its volume while it serves: damage, and whoever holds up others. On stderr in the foreground,
//! in the system's log otherwise, and in a file if one was named.

use std::ffi::CString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use egeria_fs::Volume;
use egeria_watch::own;

use crate::failure::{Failure, Outcome, reason};
use crate::output;

/// Tell what the volume reports from now on.
///
/// # Errors
/// When the file cannot be opened, or is not this user's own.
pub fn begin(volume: &Volume, foreground: bool, file: Option<&Path>) -> Outcome {
    let file = file.map(open).transpose()?.map(Mutex::new);
    volume.set_reporter(Box::new(move |line| {
        match foreground {
            true => output::complain(line),
            false => to_system_log(line),
        }
        if let Some(Ok(mut file)) = file.as_ref().map(Mutex::lock) {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let seconds = since.map_or(0, |since| since.as_secs());
            let _ = writeln!(file, "{seconds} {line}");
        }
    }));
    Ok(())
}

fn open(path: &Path) -> Outcome<File> {
    let opened = own::open(path).and_then(|mut file| {
        own::close_to_others(&file)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    });
    opened.map_err(|error| {
        Failure::new(format!(
            "cannot write the log {}: {}; name a file of your own",
            path.display(),
            reason(&error)
        ))
    })
}

fn to_system_log(line: &str) {
    let Ok(line) = CString::new(format!("egeria: {line}")) else {
        return;
    };
    let priority = libc::LOG_DAEMON | libc::LOG_WARNING;
    // SAFETY: a format that takes one terminated string.
    unsafe { libc::syslog(priority, c"%s".as_ptr(), line.as_ptr()) };
}
