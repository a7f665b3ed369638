//! Files of the Rust interface that the kernel opens too, so that they can be mapped (`egeria_client::File::through_mount`).

use crate::child::Served;
use crate::common::{Mounted, Place, eventually, map};
use egeria_client::{File, OpenOptions, Volume};
use egeria_engine::AttachMode;
use std::os::unix::fs::FileExt;

const BYTES: usize = 64 << 10;

/// The volume's file, of these bytes.
fn written(volume: &Volume, byte: u8) -> File {
    let mut options = OpenOptions::new();
    let file = volume.open("/file", options.read(true).write(true).create(true));
    let file = file.unwrap();
    file.write_all_at(&vec![byte; BYTES], 0).unwrap();
    file
}

fn client(served: &Served) -> Volume {
    Volume::attach(&served.volume.pool_paths()[0]).unwrap()
}

#[test]
fn a_view_sees_later_writes_of_every_kind() {
    let Some(served) = Served::new() else { return };
    let volume = client(&served);
    let file = written(&volume, 1);
    let kernel = file.through_mount().unwrap();
    // The file's own calls would change it past a view.
    let refused = file.write_at(&[2; 10], 0).unwrap_err();
    assert_eq!(refused.errno(), libc::EBUSY);
    let view = map(&kernel, BYTES, false);
    assert_eq!((view.get(0), view.get(BYTES - 1)), (1, 1));
    kernel.write_all_at(&[2; 10], 0).unwrap();
    assert_eq!((view.get(0), view.get(9), view.get(10)), (2, 2, 1));
    std::fs::write(served.path("file"), vec![3; BYTES]).unwrap();
    assert_eq!((view.get(0), view.get(BYTES - 1)), (3, 3));
    // The name is not what it is opened by.
    volume.rename("/file", "/moved").unwrap();
    kernel.write_all_at(&[4], 0).unwrap();
    assert_eq!(view.get(0), 4);
    drop((view, kernel));
    eventually("the file is used past the kernel again", || {
        file.write_at(&[5], 0).is_ok()
    });
    let mut byte = [0];
    file.read_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [5]);
}

#[test]
fn a_view_covers_what_was_written_just_before() {
    let Some(served) = Served::new() else { return };
    let volume = client(&served);
    let file = written(&volume, 1);
    // The kernel believes in this size.
    assert_eq!(
        std::fs::metadata(served.path("file")).unwrap().len(),
        BYTES as u64
    );
    file.append(&vec![7; BYTES]).unwrap();
    volume.remove_file("/file").unwrap();
    let kernel = file.through_mount().unwrap();
    let view = map(&kernel, 2 * BYTES, false);
    assert_eq!(view.get(2 * BYTES - 1), 7);
}

#[test]
fn a_view_is_opened_with_the_rights_of_the_file() {
    let Some(served) = Served::new() else { return };
    let volume = client(&served);
    drop(written(&volume, 1));
    let reader = volume.open("/file", OpenOptions::new().read(true)).unwrap();
    let kernel = reader.through_mount().unwrap();
    let refused = kernel.write_at(&[2], 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
}

#[test]
fn without_a_mount_there_is_no_view() {
    let place = Place::with_pools_of(64 << 20);
    let engine = place.attach(AttachMode::CreateOrJoin);
    let volume = Volume::attach(place.pool(0)).unwrap();
    let file = written(&volume, 1);
    let refused = file.through_mount().unwrap_err();
    assert_eq!(refused.errno(), libc::ENODEV);
    assert!(refused.message().contains("egeria mount"), "{refused}");
    drop((file, volume));
    engine.detach();
}

#[test]
fn a_mount_of_this_process_gives_no_view() {
    let Some(mount) = Mounted::new() else { return };
    let volume = Volume::attach(&mount.volume.pool_paths()[0]).unwrap();
    let refused = written(&volume, 1).through_mount().unwrap_err();
    assert_eq!(refused.errno(), libc::ENODEV);
}

#[test]
fn a_mount_that_has_ended_gives_no_view() {
    let Some(mut served) = Served::new() else {
        return;
    };
    let volume = client(&served);
    let file = written(&volume, 1);
    served.kill();
    assert_eq!(file.through_mount().unwrap_err().errno(), libc::ENODEV);
}
