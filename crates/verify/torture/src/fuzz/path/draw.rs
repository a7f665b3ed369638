//! Random names, paths and trees, as somebody makes them who means no good.

use egeria_engine::MAX_PATH_BYTES;
use egeria_stats::rng::Rng;

/// Users and groups of the tree, and of who looks.
pub(super) const USERS: [u32; 3] = [0, 1000, 1001];
pub(super) const GROUPS: [u32; 2] = [2000, 2001];
const MODES: [u32; 8] = [0o777, 0o755, 0o700, 0o070, 0o007, 0o1777, 0o444, 0o333];
/// Links of a chain: more than are followed on one way.
pub(super) const CHAIN: usize = 44;
/// Targets past the volume's root, and through `/proc` to wherever one is.
const OUTSIDE: [&[u8]; 7] = [
    b"/",
    b"/nowhere",
    b"/proc/self/cwd/a",
    b"/proc/self/fd/3/a",
    b"/proc/self/fd/../cwd",
    b"/dev/fd/0",
    b"../../../../../../../../..",
];

/// What is made.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Directory,
    File,
    Link(Vec<u8>),
}

/// Something that is made where these names lead, when they lead to nothing yet.
#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

fn few_name(rng: &mut Rng) -> Vec<u8> {
    vec![b'a' + rng.below(3) as u8]
}

fn name(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => vec![b'n'; 255],
        1 => vec![b'n'; 256],
        2 => b"\xff\xfe".to_vec(),
        3 => b"...".to_vec(),
        4 => b"..a".to_vec(),
        5 => b" ".to_vec(),
        _ => few_name(rng),
    }
}

fn part(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 | 1 => b".".to_vec(),
        2 | 3 => b"..".to_vec(),
        4 => Vec::new(),
        5 => link_of_chain(rng.index(CHAIN)),
        _ => name(rng),
    }
}

/// A name in the chain of links.
pub(super) fn link_of_chain(at: usize) -> Vec<u8> {
    format!("l{at}").into_bytes()
}

/// A relative path, or one without anything.
pub(super) fn path(rng: &mut Rng) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = (0..1 + rng.below(5)).map(|_| part(rng)).collect();
    let mut path = parts.join(&b'/');
    match rng.below(16) {
        0 => path = lengthened(rng, &path),
        1 => path.clear(),
        2 => path = vec![b'/'; 1 + rng.index(3)],
        3 => path = link_of_chain(rng.index(8)),
        _ => {}
    }
    if rng.one_in(4) {
        path.extend(vec![b'/'; 1 + rng.index(3)]);
    }
    if path.first() == Some(&b'/') {
        path.insert(0, b'.');
    }
    path
}

/// About as long as a path may be, with something that leads nowhere else.
fn lengthened(rng: &mut Rng, path: &[u8]) -> Vec<u8> {
    let filling: &[u8] = [&b"./"[..], b"//", b"a/../", b"././/"][rng.index(4)];
    let bytes = (MAX_PATH_BYTES + 3).saturating_sub(path.len() + rng.index(7));
    let mut long: Vec<u8> = filling.iter().copied().cycle().take(bytes).collect();
    long.extend(path);
    long
}

fn target(rng: &mut Rng, base: &[u8]) -> Vec<u8> {
    let target = match rng.below(8) {
        0 => OUTSIDE[rng.index(OUTSIDE.len())].to_vec(),
        // Out of the volume, and back into it.
        1 => [base, &b"/"[..], &path(rng)].concat(),
        _ => path(rng),
    };
    if target.is_empty() {
        b".".to_vec()
    } else {
        target
    }
}

/// Something new; absolute links into the tree begin with `base`.
pub(super) fn new(rng: &mut Rng, base: &[u8]) -> New {
    let names = (0..1 + rng.below(3)).map(|_| name(rng)).collect();
    let kind = match rng.below(9) {
        0..4 => Kind::Directory,
        4 | 5 => Kind::File,
        _ => Kind::Link(target(rng, base)),
    };
    New {
        names,
        kind,
        mode: MODES[rng.index(MODES.len())],
        uid: USERS[rng.index(USERS.len())],
        gid: GROUPS[rng.index(GROUPS.len())],
    }
}
