//! What was measured of pools before, kept over restarts: one JSON document, by what a pool lies on.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use egeria_engine::Volume;
use egeria_machine::PoolBandwidth;
use serde::{Deserialize, Serialize};

/// Variable that names the directory instead.
const FILE_NAME: &str = "measured-pools.json";
const MAX_FILE_BYTES: u64 = 1 << 20;
/// At most this number of pools is remembered; older ones are forgotten.
const MAX_POOLS: usize = 256;
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
    #[serde(default)]
    read_stream_bytes_s: Option<f64>,
    #[serde(default)]
    write_stream_bytes_s: Option<f64>,
    #[serde(default)]
    read_curve: Vec<(u32, f64)>,
    #[serde(default)]
    write_curve: Vec<(u32, f64)>,
    #[serde(default)]
    mix_curve: Vec<[f64; 2]>,
}

/// The file in the directory of what is kept.
pub(super) fn path() -> PathBuf {
    egeria_files::state_directory().join(FILE_NAME)
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
    let pool = PoolBandwidth {
        read_bytes_s: found.read_bytes_s,
        write_bytes_s: found.write_bytes_s,
        read_stream_bytes_s: found.read_stream_bytes_s,
        write_stream_bytes_s: found.write_stream_bytes_s,
        read_curve: found.read_curve,
        write_curve: found.write_curve,
        mix_curve: found.mix_curve,
    };
    // A peak alone says nothing of many threads: it is measured again.
    let has_curves = pool.read_stream_bytes_s.is_some() && pool.write_stream_bytes_s.is_some();
    (has_curves && pool.is_valid()).then_some(pool)
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
pub(super) fn keep(store: &Path, device: &str, found: &PoolBandwidth) -> io::Result<()> {
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
        read_stream_bytes_s: found.read_stream_bytes_s,
        write_stream_bytes_s: found.write_stream_bytes_s,
        read_curve: found.read_curve.clone(),
        write_curve: found.write_curve.clone(),
        mix_curve: found.mix_curve.clone(),
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

    fn found() -> PoolBandwidth {
        PoolBandwidth {
            read_bytes_s: 6.8e9,
            write_bytes_s: 2.25e9,
            read_stream_bytes_s: Some(3e9),
            write_stream_bytes_s: Some(1e9),
            read_curve: vec![(4, 1.0), (8, 0.9)],
            write_curve: vec![(4, 1.0), (8, 0.5)],
            mix_curve: vec![[0.5, 0.8]],
        }
    }

    #[test]
    fn what_was_found_is_found_again_and_the_last_counts() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = directory.path().join("state").join(FILE_NAME);
        assert_eq!(find(&store, "one"), None);
        keep(&store, "one", &found()).unwrap();
        let later = PoolBandwidth {
            read_bytes_s: 7e9,
            ..found()
        };
        keep(&store, "other", &found()).unwrap();
        keep(&store, "one", &later).unwrap();
        assert_eq!(find(&store, "one"), Some(later));
        assert_eq!(find(&store, "other"), Some(found()));
        assert_eq!(find(&store, "third"), None);
        let files = std::fs::read_dir(store.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
        for number in 0..MAX_POOLS {
            keep(&store, &number.to_string(), &found()).unwrap();
        }
        assert_eq!(find(&store, "one"), None);
        assert_eq!(find(&store, "0"), Some(found()));
    }

    #[test]
    fn what_cannot_be_believed_counts_as_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = directory.path().join(FILE_NAME);
        let pool = |read: &str| {
            format!(
                r#"{{"pools":[{{"device":"one","read_bytes_s":{read},"write_bytes_s":1e9,
                "read_stream_bytes_s":1e9,"write_stream_bytes_s":1e9}}]}}"#
            )
        };
        let peak = pool("5e9").replace("\"write_stream_bytes_s\":1e9", "\"write_curve\":[]");
        let curve = pool("5e9").replace("{\"device", "{\"read_curve\":[[4,1.0],[2,1.0]],\"device");
        for (text, is_found) in [
            (pool("5e9"), true),
            (pool("-5e9"), false),
            (pool("0"), false),
            (pool("1e300"), false),
            (pool("null"), false),
            (peak, false),
            (curve, false),
            ("nonsense".to_owned(), false),
            (String::new(), false),
        ] {
            std::fs::write(&store, &text).unwrap();
            assert_eq!(find(&store, "one").is_some(), is_found, "{text}");
        }
        keep(&store, "one", &found()).unwrap();
        assert_eq!(find(&store, "one"), Some(found()), "nonsense is replaced");
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
