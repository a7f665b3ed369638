//! The harness's half for file data and attributes.

use super::compare::errno;
use super::content::{BLOCK, Block};
use super::generate::*;
use super::harness::{Harness, blocks_needed, pick};
use egeria_engine::*;

const MAX_FILE_BYTES: u64 = i64::MAX as u64;

impl Harness {
    /// An open regular file, its size, or nothing when there is none.
    fn file(&self, handle: Pick) -> Option<(u64, FileReference, u64)> {
        let files: Vec<_> = self
            .handles
            .iter()
            .filter(|(ino, _)| self.model.nodes[ino].content().is_ok())
            .collect();
        let (ino, file) = *pick(&files, handle)?;
        Some((
            ino,
            file,
            self.model.nodes[&ino].content().expect("a file").size,
        ))
    }

    pub fn write(&mut self, handle: Pick, place: &Place, length: u32, seed: u8) {
        let Some((ino, file, size)) = self.file(handle) else {
            return;
        };
        let at = place.resolve(size);
        let bytes = pattern(seed, length as usize);
        let done = self.volume().write(file, at, &bytes);
        if self.is_full(&done, blocks_needed(length as u64)) {
            return;
        }
        let room = MAX_FILE_BYTES.saturating_sub(at).min(bytes.len() as u64) as usize;
        let expected = if room == 0 && !bytes.is_empty() {
            Err(libc::EFBIG)
        } else {
            Ok(room)
        };
        let done = self.shortened(errno(done), expected, blocks_needed(length as u64));
        assert_eq!(done.0, done.1, "write {length} bytes at {at}");
        if let Ok(count) = done.0 {
            self.wrote(ino, at, &bytes[..count]);
        }
    }

    /// A write may be short when the volume is full; then so is the model's.
    fn shortened(
        &self,
        done: Result<usize, i32>,
        expected: Result<usize, i32>,
        blocks: u64,
    ) -> (Result<usize, i32>, Result<usize, i32>) {
        match (done, expected) {
            (Ok(count), Ok(wanted))
                if 0 < count
                    && count < wanted
                    && self.volume().space(None).free_blocks < blocks =>
            {
                (done, done)
            }
            _ => (done, expected),
        }
    }

    fn wrote(&mut self, ino: u64, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.model.content_mut(ino).write(at, bytes);
            self.model.touch(ino, true);
        }
    }

    pub fn append(&mut self, handle: Pick, length: u32, seed: u8) {
        let Some((ino, file, size)) = self.file(handle) else {
            return;
        };
        let bytes = pattern(seed, length as usize);
        let done = self.volume().append(file, &bytes);
        if self.is_full(&done, blocks_needed(length as u64)) {
            return;
        }
        let room = (MAX_FILE_BYTES - size).min(bytes.len() as u64) as usize;
        let expected = if room == 0 && !bytes.is_empty() {
            Err(libc::EFBIG)
        } else {
            Ok(room)
        };
        if let Ok((at, _)) = done {
            assert_eq!(at, size, "where an append lands");
        }
        let done = self.shortened(
            errno(done.map(|(_, count)| count)),
            expected,
            blocks_needed(length as u64),
        );
        assert_eq!(done.0, done.1, "append {length} bytes");
        if let Ok(count) = done.0 {
            self.wrote(ino, size, &bytes[..count]);
        }
    }

    pub fn read(&mut self, handle: Pick, place: &Place, length: usize) {
        let Some((ino, file, size)) = self.file(handle) else {
            return;
        };
        let at = place.resolve(size);
        let mut bytes = vec![0xEE; length];
        let count = self.volume().read(file, at, &mut bytes).expect("read");
        let expected = self.model.nodes[&ino]
            .content()
            .expect("a file")
            .read(at, length);
        assert!(
            bytes[..count] == expected,
            "read {length} bytes at {at} of {size}"
        );
        assert!(
            bytes[count..].iter().all(|byte| *byte == 0xEE),
            "bytes behind the end were touched"
        );
    }

    pub fn truncate(&mut self, node: Pick, place: &Place) {
        let ino = self.any_node(node);
        let size = self
            .model
            .nodes
            .get(&ino)
            .and_then(|node| node.content().ok())
            .map_or(0, |content| content.size);
        let to = place.resolve(size);
        let change = AttributeChange {
            size_bytes: Some(to),
            ..AttributeChange::default()
        };
        let done = self.volume().set_attributes(InodeNumber(ino), &change);
        if to >= size && self.is_full(&done, 4) {
            return;
        }
        let kind = self.model.node(ino).and_then(|node| node.content());
        let expected = match kind {
            Ok(_) if to > MAX_FILE_BYTES => Err(libc::EFBIG),
            kind => kind.map(drop),
        };
        assert_eq!(errno(done.map(drop)), expected, "truncate to {to}");
        if done.is_ok() {
            self.model.content_mut(ino).truncate(to);
            self.model.touch(ino, true);
        }
    }

    pub fn allocate(&mut self, handle: Pick, place: &Place, length: u64, mode: AllocateMode) {
        let Some((ino, file, size)) = self.file(handle) else {
            return;
        };
        let at = place.resolve(size);
        let done = self.volume().allocate(file, at, length, mode);
        let reserves = matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize);
        let needs_space = reserves || mode == AllocateMode::ZeroRange;
        if needs_space && self.is_full(&done, blocks_needed(length)) {
            if reserves {
                self.adopt_reserved(ino, at, length);
            }
            return;
        }
        let end = at.checked_add(length).filter(|end| *end <= MAX_FILE_BYTES);
        let expected = match (length, end) {
            (0, _) => Err(libc::EINVAL),
            (_, None) => Err(libc::EFBIG),
            _ => Ok(()),
        };
        assert_eq!(
            errno(done),
            expected,
            "{mode:?} {length} bytes at {at} of {size}"
        );
        let Some(end) = end.filter(|_| done.is_ok()) else {
            return;
        };
        self.allocated(ino, at, end, mode, size);
    }

    fn allocated(&mut self, ino: u64, at: u64, end: u64, mode: AllocateMode, size: u64) {
        let content = self.model.content_mut(ino);
        let mapped = content.blocks.len();
        let (changed, modified) = match mode {
            AllocateMode::Extend | AllocateMode::KeepSize => {
                let changed = content.reserve(at, end, mode == AllocateMode::Extend);
                // Blocks alone are no change of data; a larger size is.
                (
                    changed,
                    content.size > size && content.blocks.len() == mapped,
                )
            }
            _ => (
                content.clear(at, end, mode == AllocateMode::ZeroRange),
                true,
            ),
        };
        if changed {
            self.model.touch(ino, modified);
        }
    }

    /// A reservation the volume had no room for may be there in part.
    fn adopt_reserved(&mut self, ino: u64, at: u64, length: u64) {
        let extents = self.volume().extents(InodeNumber(ino)).expect("extents");
        let range = at / BLOCK..(at + length).div_ceil(BLOCK);
        let content = self.model.content_mut(ino);
        let before = content.blocks.len();
        for extent in extents.iter().filter(|extent| extent.unwritten) {
            let first = extent.file_offset_bytes / BLOCK;
            for block in
                (first..first + extent.length_bytes / BLOCK).filter(|block| range.contains(block))
            {
                content.blocks.entry(block).or_insert(Block::Unwritten);
            }
        }
        if content.blocks.len() > before {
            self.model.touch(ino, false);
        }
    }

    pub fn seek(&mut self, handle: Pick, place: &Place) {
        let Some((ino, file, size)) = self.file(handle) else {
            return;
        };
        let at = place.resolve(size);
        let content = self.model.nodes[&ino].content().expect("a file");
        assert_eq!(
            errno(self.volume().seek_data(file, at)),
            content.seek_data(at),
            "data at {at}"
        );
        assert_eq!(
            errno(self.volume().seek_hole(file, at)),
            content.seek_hole(at),
            "hole at {at}"
        );
        for bytes in [0, 1, BLOCK, 25 * BLOCK] {
            let end = at.saturating_add(bytes);
            let is_within = |hole: u64| hole < end.min(size);
            assert_eq!(
                errno(self.volume().has_hole(file, at..end)),
                Ok(content.seek_hole(at).is_ok_and(is_within)),
                "hole in {bytes} bytes at {at}"
            );
        }
    }

    pub fn set_attributes(&mut self, operation: &Operation) {
        let Operation::Attributes {
            node,
            permissions,
            owner,
            group,
            atime,
            mtime,
            clears,
        } = operation
        else {
            return;
        };
        let ino = self.any_node(*node);
        let change = AttributeChange {
            permissions: permissions.map(u32::from),
            clears: *clears,
            uid: owner.map(u32::from),
            gid: group.map(u32::from),
            size_bytes: None,
            atime: *atime,
            mtime: *mtime,
        };
        let done = self.volume().set_attributes(InodeNumber(ino), &change);
        if self.is_full(&done, 4) {
            return;
        }
        assert_eq!(errno(done.map(drop)), self.model.node(ino).map(drop));
        if done.is_ok() {
            self.changed_attributes(ino, &change);
        }
    }

    fn changed_attributes(&mut self, ino: u64, change: &AttributeChange) {
        let node = self.model.node_mut(ino);
        if let Some(permissions) = change.permissions {
            node.mode = node.mode & libc::S_IFMT | permissions;
        }
        node.mode &= !(change.clears & (libc::S_ISUID | libc::S_ISGID));
        node.uid = change.uid.unwrap_or(node.uid);
        node.gid = change.gid.unwrap_or(node.gid);
        let mut touched = [false, false, true];
        for (at, time) in [change.atime, change.mtime].into_iter().enumerate() {
            match time {
                Some(TimeChange::At(time_ns)) => node.times_ns[at] = time_ns,
                Some(TimeChange::Now) => touched[at] = true,
                None => {}
            }
        }
        self.model.touch_times(ino, touched);
    }
}
