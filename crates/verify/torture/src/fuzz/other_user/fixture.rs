//! What root and the other user have: a volume and a secret of root's, a directory of the other user's.

use super::user::{as_user, unmount};
use egeria_engine::format::{MIN_POOL_BYTES, Superblock};
use egeria_engine::{CreateOptions, PoolRequest, create_volume};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where sessions are.
const MEMORY: &str = "/dev/shm";
/// Users whom nothing belongs to begin here; each worker has one of its own.
const FIRST_OTHER_USER: u32 = 61_300;
const OTHER_USERS: u32 = 4000;

/// Two users' directories.
pub(super) struct Fixture {
    /// Removed when dropped.
    _directory: TempDir,
    pub(super) other_user: u32,
    /// The name of root's volume, which everybody may know.
    pub(super) root_volume: [u8; 16],
    pub(super) own: Vec<PathBuf>,
    secret: PathBuf,
    /// The other user's directory.
    pub(super) theirs: PathBuf,
    /// Pools of a whole volume that the other user made.
    pub(super) theirs_whole: Vec<PathBuf>,
    /// Where root mounts.
    pub(super) mount_point: PathBuf,
}

/// What a file of root's is: its bytes, and who may do what with it.
type Picture = (Vec<u8>, u32, u32, u64);

fn failed(error: impl ToString) -> String {
    error.to_string()
}

/// Make a volume of two least pools.
fn make_volume(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let paths = [0, 1].map(|index| directory.join(format!("pool{index}")));
    let requests: Vec<PoolRequest> = paths
        .iter()
        .map(|path| PoolRequest {
            node: 0,
            path: path.clone(),
            bytes: Some(MIN_POOL_BYTES),
        })
        .collect();
    create_volume(&requests, &CreateOptions::default()).map_err(failed)?;
    Ok(paths.to_vec())
}

impl Fixture {
    pub(super) fn new() -> Result<Fixture, String> {
        let directory = tempfile::Builder::new()
            .prefix("egeria-fuzz-user-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(MEMORY)
            .map_err(failed)?;
        let made = |name: &str| {
            let path = directory.path().join(name);
            fs::create_dir(&path).map(|()| path).map_err(failed)
        };
        let other_user = FIRST_OTHER_USER + std::process::id() % OTHER_USERS;
        let (theirs, mount_point) = (made("theirs")?, made("mount")?);
        chown(&theirs, Some(other_user), Some(other_user)).map_err(failed)?;
        let own = make_volume(directory.path())?;
        let bytes = fs::read(&own[0]).map_err(failed)?;
        let root_volume = Superblock::decode(&bytes)
            .map_err(|_| "no superblock")?
            .volume;
        let secret = directory.path().join("secret");
        fs::write(&secret, "root's").map_err(failed)?;
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).map_err(failed)?;
        let whole = theirs.join("whole");
        let theirs_whole = as_user(other_user, || {
            fs::create_dir(&whole).map_err(failed)?;
            make_volume(&whole)
        })??;
        Ok(Fixture {
            _directory: directory,
            other_user,
            root_volume,
            own,
            secret,
            theirs,
            theirs_whole,
            mount_point,
        })
    }

    /// Root's files, which nobody may change.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.own.iter().chain([&self.secret])
    }

    pub(super) fn secret(&self) -> &Path {
        &self.secret
    }

    pub(super) fn snapshot(&self) -> Result<Vec<Picture>, String> {
        self.files()
            .map(|path| {
                let metadata = fs::symlink_metadata(path).map_err(failed)?;
                let bytes = fs::read(path).map_err(failed)?;
                Ok((bytes, metadata.uid(), metadata.mode(), metadata.nlink()))
            })
            .collect()
    }

    /// Nothing of root's is other than it was. Sessions come and go: pool 0 says which is or was the last.
    pub(super) fn compare(&self, before: &[Picture]) -> Result<(), String> {
        let now = self.snapshot()?;
        for ((path, before), now) in self.files().zip(before).zip(now) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if (now.1, now.2, now.3) != (before.1, before.2, before.3) {
                return Err(format!("owner, mode or names of root's {name} changed"));
            }
            if now.0.len() != before.0.len() {
                return Err(format!("root's {name} has another size"));
            }
            let line = egeria_engine::format::SESSION_LINE_BLOCK.offset().0 as usize;
            let counts = |at: &usize| name != "pool0" || !(line..line + 4096).contains(at);
            let differs = |at: &usize| now.0[*at] != before.0[*at];
            if now.0 != before.0
                && let Some(at) = (0..now.0.len()).filter(counts).find(differs)
            {
                return Err(format!("byte {at} of root's {name} changed"));
            }
        }
        Ok(())
    }

    /// Whether a path is a way to root's own pools: then it is his.
    pub(super) fn leads_home(&self, path: &Path) -> bool {
        let found = path.canonicalize();
        found.is_ok_and(|found| self.own.contains(&found))
    }

    /// Take away everything that a case left.
    pub(super) fn clean_up(&self) {
        for directory in [&self.mount_point, &self.theirs.join("mount")] {
            unmount(&directory.to_string_lossy());
        }
        for entry in fs::read_dir(&self.theirs).into_iter().flatten().flatten() {
            if entry.file_name() != "whole" {
                remove(&entry.path());
            }
        }
        for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
            let ours = fs::symlink_metadata(entry.path());
            if ours.is_ok_and(|metadata| metadata.uid() == self.other_user) {
                remove(&entry.path());
            }
        }
    }
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.clean_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::skip;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_changed_byte_or_mode_is_found() {
        if let Some(why) = super::super::missing() {
            skip(why);
            return;
        }
        let fixture = Fixture::new().expect("two users");
        let before = fixture.snapshot().expect("read");
        fixture.compare(&before).expect("nothing has changed");
        let refused = as_user(fixture.other_user, || {
            let opened = fs::File::options().write(true).open(&fixture.own[1]);
            (opened.is_err(), fs::read(&fixture.secret).is_err())
        });
        assert_eq!(refused, Ok((true, true)));
        // The rights were the thread's alone.
        let pool = fs::File::options().write(true).open(&fixture.own[1]);
        let pool = pool.expect("root's own");
        pool.write_all_at(&[before[1].0[5000] ^ 1], 5000)
            .expect("write");
        let seen = fixture.compare(&before).expect_err("a byte differs");
        assert_eq!(seen, "byte 5000 of root's pool1 changed");
        pool.write_all_at(&before[1].0[5000..5001], 5000)
            .expect("write");
        fs::set_permissions(&fixture.secret, Permissions::from_mode(0o644)).expect("chmod");
        assert!(fixture.compare(&before).is_err());
    }
}
