//! `egeria scrub`: a volume in use, its damage, and the end before the end.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use common::{Running, Sandbox, can_mount, egeria, kill, run, text};
use rustix::process::Signal;

/// Damages the log of the inode: one bit behind the header of each of its pages.
fn damage_log(pool: &Path, ino: u64) {
    let file = fs::File::options().write(true).open(pool).unwrap();
    let bytes = fs::read(pool).unwrap();
    for (index, page) in bytes.chunks(4096).enumerate() {
        if page[..4] == 0x4547_4c50u32.to_le_bytes() && page[16..24] == ino.to_le_bytes() {
            let at = index as u64 * 4096 + 64 + 20;
            file.write_all_at(&[page[64 + 20] ^ 4], at).unwrap();
        }
    }
}

#[test]
fn a_mounted_volume_is_read_and_its_damage_named() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    run(["mount", text(&pool), text(&directory)]).ok();
    fs::create_dir(directory.join("sub")).unwrap();
    // A name that would clear the screen of who prints it.
    let path = directory.join("sub/fi\x1b[2Jle");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let clean = run(["scrub", "--json", text(&directory)]).ok().json();
    assert_eq!(clean["clean"], true);
    assert_eq!(clean["data_bytes"], 25 * 4096);
    assert_eq!(
        run(["scrub", "--metadata-only", text(&pool)]).ok().status,
        0
    );
    let ino = fs::metadata(&path).unwrap().ino();
    for index in 0..2 {
        damage_log(&sandbox.path(&format!("v.{index}")), ino);
    }
    let damaged = run(["scrub", "--json", text(&directory)]);
    assert_eq!(damaged.status, 1, "{damaged:?}");
    let document = damaged.json();
    assert_eq!(document["complete"], true);
    let shown_name = "/sub/fi\\u{1b}[2Jle";
    assert_eq!(document["findings"][0]["affects"], shown_name);
    let shown = run(["scrub", text(&directory)]).stdout;
    assert!(
        shown.contains(shown_name) && !shown.contains('\x1b'),
        "{shown}"
    );
    assert_eq!(fs::read(&path).unwrap(), vec![7; 100_000]);
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_scrub_that_is_interrupted_says_what_it_has() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let script = "for n in $(seq 3000); do echo $n > $EGERIA_MOUNT/$n; done";
    run(["run", "--volume", text(&pool), "--", "sh", "-c", script]).ok();
    let mut scrub = Running::start(egeria(["scrub", "--json", "--share", "1", text(&pool)]));
    let maps = format!("/proc/{}/maps", scrub.id());
    let attached = || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("/dev/shm/egeria-"));
    scrub.wait_until("it has the session", attached);
    kill(scrub.id(), Signal::INT);
    let ended = scrub.finish();
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_eq!(ended.json()["complete"], false);
}

#[test]
fn what_is_no_volume_is_refused() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("plain");
    run(["scrub", text(&directory)]).refused(1, &[text(&directory)]);
    let pool = sandbox.volume("v", "32M");
    run(["scrub", text(&pool), "--share", "0"]).refused(2, &["--share"]);
}
