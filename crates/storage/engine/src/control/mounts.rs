//! Where volumes are mounted, from the kernel's list (`/proc/self/mountinfo`).

/// A mount of a whole volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// Number of the mount, which the kernel may reuse.
    pub id: u64,
    /// Where it is mounted, as the process sees it.
    pub point: Vec<u8>,
}

/// The mounts of whole volumes in the kernel's list; unreadable lines are skipped.
pub fn volume_mounts(list: &[u8]) -> Vec<MountLine> {
    list.split(|byte| *byte == b'\n')
        .filter_map(mount_of)
        .collect()
}

/// Number, parent, device, root, directory, options, optional fields, "-", kind, source, its options.
fn mount_of(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (root, point) = (fields.nth(2)?, fields.next()?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let is_whole = kind == b"fuse.egeria" && root == b"/";
    is_whole.then(|| MountLine {
        id,
        point: unescaped(point),
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_volumes_are_found_and_their_directories_unescaped() {
        let list = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:45 / /mnt/a\\040b\\134 rw,nosuid shared:7 master:2 - fuse.egeria - rw,user_id=0\n\
            41 22 0:45 /sub /srv rw - fuse.egeria - rw,user_id=0\n\
            x 22 0:45 / /bad rw - fuse.egeria - rw\n\
            42 22 0:46 / /other rw - fuse /fuse.egeria rw\n";
        let found = volume_mounts(list);
        let expected = MountLine {
            id: 40,
            point: b"/mnt/a b\\".to_vec(),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn half_lines_are_no_mounts() {
        for line in [
            &b""[..],
            b"40",
            b"40 22 0:45 / /a rw - ",
            b"40 22 0:45 / /a rw fuse.egeria",
            b"\xff / / -",
        ] {
            assert_eq!(volume_mounts(line), []);
        }
        assert_eq!(unescaped(b"a\\9\\04"), b"a\\9\\04");
    }
}
