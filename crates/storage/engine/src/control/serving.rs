//! Finds the user that serves a FUSE mount, in the kernel's list (`/proc/self/mountinfo`). The answers of a mount say
//! which inode of which volume a file is; a mount of an untrusted user could name any inode.

/// Longer lines of the list are skipped.
const LINE_BYTES: usize = 4096;

/// Read the list line by line until a line is of this device; returns the user that serves it.
pub fn serving_user(device: u64, mut read: impl FnMut(&mut [u8]) -> isize) -> Option<u32> {
    let mut room = [0; LINE_BYTES];
    let (mut filled, mut is_rest) = (0, false);
    loop {
        let Some(more @ 1..) = usize::try_from(read(&mut room[filled..])).ok() else {
            return None;
        };
        filled += more;
        let mut start = 0;
        while let Some(length) = room[start..filled].iter().position(|byte| *byte == b'\n') {
            let line = &room[start..start + length];
            if !is_rest && let Some(user) = user_of(line, device) {
                return Some(user);
            }
            (start, is_rest) = (start + length + 1, false);
        }
        room.copy_within(start..filled, 0);
        filled -= start;
        if filled == room.len() {
            (filled, is_rest) = (0, true);
        }
    }
}

/// The user that a line of the list names, if the line is of this device.
fn user_of(line: &[u8], device: u64) -> Option<u32> {
    let line = std::str::from_utf8(line).ok()?;
    // Number, parent, device, root, directory, options, optional fields, "-", kind, source, its options.
    let mut fields = line.split(' ');
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    if u64::from(major.parse::<u32>().ok()?) << 32 | u64::from(minor.parse::<u32>().ok()?) != device
    {
        return None;
    }
    let mut fields = fields.skip(3).skip_while(|field| *field != "-").skip(3);
    let mut options = fields.next()?.split(',');
    options.find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        40 22 0:45 / /mnt/user_id=0 rw,nosuid shared:7 master:2 - fuse.egeria - rw,user_id=40001,group_id=0\n\
        41 22 0:46 / /srv rw - fuse /a,user_id=7\\040b rw,user_id=0,group_id=0,allow_other\n";

    fn user(list: &str, device: u64, at_once: usize) -> Option<u32> {
        let mut rest = list.as_bytes();
        serving_user(device, |room| {
            let more = rest.len().min(room.len()).min(at_once);
            room[..more].copy_from_slice(&rest[..more]);
            rest = &rest[more..];
            more as isize
        })
    }

    #[test]
    fn the_user_who_serves_a_mount_is_found_and_nobody_else() {
        for at_once in [1, 7, 100, 10_000] {
            assert_eq!(user(LIST, 45, at_once), Some(40_001));
            assert_eq!(user(LIST, 46, at_once), Some(0));
            assert_eq!(user(LIST, 8 << 32 | 1, at_once), None);
            assert_eq!(user(LIST, 47, at_once), None);
        }
    }

    #[test]
    fn a_line_without_end_hides_no_other_and_is_no_other() {
        let long = format!("9 9 0:9 / /{} rw - fuse x rw,user_id=5\n", "d".repeat(9000));
        assert_eq!(user(&(long.clone() + LIST), 46, 4096), Some(0));
        assert_eq!(user(&long, 9, 4096), None);
    }
}
