//! Limits of directory trees under the library: the same answers as the kernel gives.

use crate::common::{Mounted, finish};
use egeria_engine::{InodeNumber, NewInode, QuotaLimits, Volume};
use egeria_harness::testing::eventually;

const SCRIPT: &str = "\
dd if=/dev/zero of=top/file bs=4096 count=100 2>&1 | grep -o 'Disk quota exceeded'
stat -c %s:%b top/file
dd if=/dev/zero of=top/file bs=4096 count=5 conv=notrunc 2>&1 | grep -o '5+0 records out'
dd if=/dev/zero of=top/file bs=1 count=1 seek=99999 2>&1 | grep -o 'Disk quota exceeded'
stat -f -c %b:%f:%a:%c:%d top/file
ln -s target top/link 2>&1 | grep -o 'Disk quota exceeded'
ln top/file twin 2>&1 | grep -o 'Invalid cross-device link'
perl -e 'rename(\"top/file\", \"x\") or print \"$!\\n\"'
: > top/two
: > top/three
touch top/four 2>&1 | grep -o 'Disk quota exceeded'
mv top/two outside && ls -R
truncate -s 4096 top/file && stat -c %s:%b top/file
rm -r top/file top/three outside
";

/// A directory with 10 blocks and 4 inodes.
fn limit(volume: &Volume) -> InodeNumber {
    let new = NewInode::of_root(libc::S_IFDIR | 0o777);
    let made = volume.create(InodeNumber::ROOT, b"top", &new).unwrap();
    let limits = QuotaLimits {
        bytes: Some(40_960),
        inodes: Some(4),
    };
    volume.set_quota(made.ino, limits).unwrap();
    made.ino
}

#[test]
fn limits_answer_as_the_kernel_says() {
    let mut answers = Vec::new();
    for is_direct in [false, true] {
        let Some(mounted) = Mounted::new() else {
            return;
        };
        let top = limit(&mounted.volume);
        let before = mounted.volume.counters();
        let mut command = if is_direct {
            mounted.command("sh")
        } else {
            mounted.bare_command("sh")
        };
        command.env("LC_ALL", "C");
        let output = finish(command.args(["-c", SCRIPT]));
        if is_direct {
            mounted.assert_served(&before, 12, "limits");
        }
        assert!(output.status.success(), "{output:?}");
        answers.push(String::from_utf8_lossy(&output.stdout).into_owned());
        // The mount gives files back when the kernel has forgotten them.
        eventually("all files are given back", || {
            let quota = mounted.volume.quota_of(top).unwrap();
            (quota.used_bytes, quota.used_inodes) == (0, 1)
        });
    }
    assert_eq!(answers[0], answers[1]);
    let lines: Vec<&str> = answers[0].lines().collect();
    assert_eq!(lines[..2], ["Disk quota exceeded", "40960:80"]);
    assert_eq!(lines[4], "10:0:0:4:2");
}
