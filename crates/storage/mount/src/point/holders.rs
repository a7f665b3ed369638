//! Processes that keep a mount busy, from `/proc`.

use crate::point::error::Holder;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Processes that hold something below the directory, each once. A user other than root sees only its own processes.
pub(crate) fn holders(directory: &Path) -> Vec<Holder> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| holder(pid, directory)).collect()
}

fn holder(pid: u32, directory: &Path) -> Option<Holder> {
    let process = Path::new("/proc").join(pid.to_string());
    let how = how(&process, directory)?;
    let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(Holder {
        pid,
        program: name.trim_end().to_owned(),
        how,
    })
}

/// What the process holds. Only link texts are read: the mount is not asked for anything.
fn how(process: &Path, directory: &Path) -> Option<&'static str> {
    let below = |link: &Path| std::fs::read_link(link).is_ok_and(|to| to.starts_with(directory));
    let single = [
        ("cwd", "working directory"),
        ("root", "root directory"),
        ("exe", "program"),
    ];
    if let Some((_, how)) = single.iter().find(|(link, _)| below(&process.join(link))) {
        return Some(how);
    }
    let mut files = std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    if files.any(|file| below(&file.path())) {
        return Some("open file");
    }
    maps_below(process, directory).then_some("mapped file")
}

fn maps_below(process: &Path, directory: &Path) -> bool {
    let Ok(maps) = std::fs::read(process.join("maps")) else {
        return false;
    };
    let mut prefix = directory.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    maps.split(|byte| *byte == b'\n').any(|line| {
        let path = line
            .iter()
            .position(|byte| *byte == b'/')
            .map(|at| &line[at..]);
        path.is_some_and(|path| path.starts_with(&prefix))
    })
}
