//! What was measured of pools before, kept over restarts: one JSON document, by what a pool lies on.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use egeria_engine::Volume;
use egeria_machine::PoolBandwidth;
use serde::{Deserialize, Serialize};

/// Variable that names the directory instead.
const VARIABLE: &str = "EGERIA_STATE_DIR";
const FILE_NAME: &str = "measured-pools.json";
const MAX_FILE_BYTES: u64 = 1 << 20;
/// At most this number of pools is remembered; older ones are forgotten.
const MAX_POOLS: usize = 256;
/// No memory is as fast.
const MAX_BYTES_S: f64 = 1e14;
/// Directories above a device in sysfs that may say its namespace's UUID.
const MAX_PARENTS: usize = 4;

/// All that was measured, the latest last.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Document {
    pools: Vec<Measured>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    /// See [`device`].
    device: String,
    read_bytes_s: f64,
    write_bytes_s: f64,
}

/// `$EGERIA_STATE_DIR`, for root `/var/lib/egeria`, for others `$XDG_STATE_HOME/egeria` or `~/.local/state/egeria`;
/// and the file in it.
pub(super) fn path() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = match variable(VARIABLE) {
        Some(directory) => PathBuf::from(directory),
        None if egeria_files::user() == 0 => "/var/lib/egeria".into(),
        None => {
            let home = || PathBuf::from(variable("HOME").unwrap_or_default());
            let state = variable("XDG_STATE_HOME").map(PathBuf::from);
            let state = state.unwrap_or_else(|| home().join(".local/state"));
            state.join("egeria")
        }
    };
    directory.join(FILE_NAME)
}

/// What a pool lies on: the UUID of the namespace of persistent memory, where the kernel says one, else the pool
/// itself.
pub(super) fn device(volume: &Volume, pool: usize) -> Option<String> {
    let path = volume.pool_paths().into_iter().nth(pool)?;
    let metadata = std::fs::metadata(&path).ok()?;
    let (kind, number) = if metadata.file_type().is_char_device() {
        ("char", metadata.rdev())
    } else {
        ("block", metadata.dev())
    };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = PathBuf::from(format!("/sys/dev/{kind}/{major}:{minor}"));
    let namespace = namespace_uuid(&device).map(|uuid| format!("namespace {uuid}"));
    Some(namespace.unwrap_or_else(|| format!("volume {} pool {pool}", volume.uuid())))
}

fn namespace_uuid(device: &Path) -> Option<String> {
    let device = device.canonicalize().ok()?;
    let above = device.ancestors().take(MAX_PARENTS);
    let mut said =
        above.filter_map(|directory| std::fs::read_to_string(directory.join("uuid")).ok());
    let uuid = said.next()?.trim().parse::<uuid::Uuid>().ok()?;
    (!uuid.is_nil()).then(|| uuid.to_string())
}

/// What is kept of a device, if it can be believed.
pub(super) fn find(store: &Path, device: &str) -> Option<PoolBandwidth> {
    let found = read(store).ok()?.pools;
    let found = found.into_iter().rev().find(|each| each.device == device)?;
    let is_sane = |bytes_s: f64| (1.0..=MAX_BYTES_S).contains(&bytes_s);
    let is_sane = is_sane(found.read_bytes_s) && is_sane(found.write_bytes_s);
    is_sane.then_some(PoolBandwidth {
        read_bytes_s: found.read_bytes_s,
        write_bytes_s: found.write_bytes_s,
    })
}

fn read(store: &Path) -> io::Result<Document> {
    let text = egeria_files::read_trusted(store, MAX_FILE_BYTES)?;
    let text = text.ok_or(io::ErrorKind::NotFound)?;
    Ok(serde_json::from_str(&text)?)
}

/// Keeps what was found. A document that cannot be read is replaced.
///
/// # Errors
/// Those of the kernel; where others could change what is kept.
pub(super) fn keep(store: &Path, device: &str, found: PoolBandwidth) -> io::Result<()> {
    let directory = store.parent().unwrap_or(Path::new("/"));
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let directory = egeria_files::directory(directory)?;
    let mut document = read(store).unwrap_or_default();
    document.pools.retain(|each| each.device != device);
    document.pools.push(Measured {
        device: device.to_owned(),
        read_bytes_s: found.read_bytes_s,
        write_bytes_s: found.write_bytes_s,
    });
    let excess = document.pools.len().saturating_sub(MAX_POOLS);
    document.pools.drain(..excess);
    // Written to another file and renamed, so that no reader sees half of it.
    let aside = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
    let written = write(&aside, &document).and_then(|()| std::fs::rename(&aside, store));
    if written.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    written
}

fn write(path: &Path, document: &Document) -> io::Result<()> {
    let file = egeria_files::create_private(path)?;
    serde_json::to_writer_pretty(&file, document)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: PoolBandwidth = PoolBandwidth {
        read_bytes_s: 6.8e9,
        write_bytes_s: 2.25e9,
    };

    #[test]
    fn what_was_found_is_found_again_and_the_last_counts() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = directory.path().join("state").join(FILE_NAME);
        assert_eq!(find(&store, "one"), None);
        keep(&store, "one", FOUND).unwrap();
        let later = PoolBandwidth {
            read_bytes_s: 7e9,
            ..FOUND
        };
        keep(&store, "other", FOUND).unwrap();
        keep(&store, "one", later).unwrap();
        assert_eq!(find(&store, "one"), Some(later));
        assert_eq!(find(&store, "other"), Some(FOUND));
        assert_eq!(find(&store, "third"), None);
        let files = std::fs::read_dir(store.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
        for number in 0..MAX_POOLS {
            keep(&store, &number.to_string(), FOUND).unwrap();
        }
        assert_eq!(find(&store, "one"), None);
        assert_eq!(find(&store, "0"), Some(FOUND));
    }

    #[test]
    fn what_cannot_be_believed_counts_as_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = directory.path().join(FILE_NAME);
        let pool = |read: &str| {
            format!(r#"{{"pools":[{{"device":"one","read_bytes_s":{read},"write_bytes_s":1e9}}]}}"#)
        };
        for (text, is_found) in [
            (pool("5e9"), true),
            (pool("-5e9"), false),
            (pool("0"), false),
            (pool("1e300"), false),
            (pool("null"), false),
            ("nonsense".to_owned(), false),
            (String::new(), false),
        ] {
            std::fs::write(&store, &text).unwrap();
            assert_eq!(find(&store, "one").is_some(), is_found, "{text}");
        }
        keep(&store, "one", FOUND).unwrap();
        assert_eq!(find(&store, "one"), Some(FOUND), "nonsense is replaced");
        std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(find(&store, "one"), None, "others can write it");
    }

    #[test]
    fn namespace_is_told_by_the_directories_above_a_device() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let namespace = directory.path().join("region0/namespace0.0");
        let device = namespace.join("block/pmem0");
        std::fs::create_dir_all(&device).unwrap();
        assert_eq!(namespace_uuid(&device), None);
        let uuid = "3d1f2c0e-7f0e-4a53-9d0b-5a4d7d6c1b2a";
        for (text, expected) in [
            (format!("{uuid}\n"), Some(uuid)),
            ("nonsense".to_owned(), None),
            ("00000000-0000-0000-0000-000000000000".to_owned(), None),
        ] {
            std::fs::write(namespace.join("uuid"), text).unwrap();
            assert_eq!(namespace_uuid(&device).as_deref(), expected);
        }
        std::fs::write(directory.path().join("uuid"), uuid).unwrap();
        std::fs::remove_file(namespace.join("uuid")).unwrap();
        assert_eq!(namespace_uuid(&device.join("a/b")), None, "too far above");
    }
}
