//! Which operations sequences are made of: every call of the file API on the tree of the initial states, in the
//! classes of arguments that take different ways through the engine.

use super::operation::Operation;

/// Every operation, with every class of arguments.
const ALL: &[&str] = &[
    "create new",
    "create d/new",
    "create empty/new",
    "mkdir d/newdir",
    "mkdir made",
    "symlink news 300",
    "symlink d/short 5",
    "link small d/another",
    "link big new",
    "unlink big",
    "unlink twin",
    "unlink small",
    "unlink d/x",
    "unlink e/gaps",
    "unlink-open big",
    "write-open 100 5000",
    "close-open",
    "rmdir empty",
    "rename big new",
    "rename big symlink",
    "rename big twin",
    "rename small twin",
    "rename d/x e/z",
    "rename d/x e/y",
    "rename e/y d/x",
    "rename d/sub e/sub",
    "rename d/sub empty",
    "rename d e/d",
    "rename-new e/third d/new",
    "exchange d/x e/y",
    "exchange d/sub big",
    "exchange d e",
    "write d/sub/deep 0 5",
    "write d/sub/deep 1099511627781 3",
    "write big 4096 8192",
    "write big 8192 4096",
    "write big 100 4",
    "write big 4000 10000",
    "write big 36900 5000",
    "write small 9000 100",
    "write small 28672 9000",
    "write new 0 6000",
    "write e/gaps 8000 9000",
    "append small 4",
    "append small 4100",
    "append big 3900",
    "truncate big 0",
    "truncate big 10001",
    "truncate big 8589934592",
    "truncate small 3000",
    "truncate e/gaps 5000",
    "reserve small 0 30000",
    "reserve-behind small 8192 8192",
    "punch big 5000 20000",
    "punch big 5000 200",
    "punch e/gaps 4000 20000",
    "zero big 35000 20000",
    "zero big 4096 4096",
    "chmod d/x 4711",
    "chmod d 700",
    "chown big 7",
    "attributes big",
    "utimens e/y 77",
    "setxattr d/x user.new 1000",
    "setxattr big user.old 9",
    "setxattr d user.d 20",
    "removexattr big user.old",
    "checksums e crc32c",
    "checksums sums off",
    "create sums/new",
    "mkdir sums/new",
    "symlink sums/new 300",
    "write sums/file 4096 4096",
    "write sums/file 100 30000",
    "append sums/file 100",
    "truncate sums/file 5001",
    "truncate sums/file 20000",
    "punch sums/file 3000 5000",
    "reserve sums/file 8192 8192",
    "rename sums/file sums/new",
    "layout e striped",
    "relocate big 0 1",
    "relocate big 1 0",
    "relocate small 0 1",
    "relocate small 1 0",
    "relocate sums/file 0 1",
    "relocate sums/file 1 0",
    "layout e/third striped:4096",
    "layout stripes local",
    "create stripes/new",
    "write stripes/file 4096 4096",
    "write stripes/file 100 30000",
    "write stripes/file 100 9000",
    "write stripes/file 0 64",
    "append stripes/file 10000",
    "truncate stripes/file 5001",
    "punch stripes/file 3000 9000",
    "reserve stripes/file 8192 30000",
];

/// One of each class: for longer sequences.
const FEW: &[&str] = &[
    "create new",
    "create d/x",
    "mkdir made",
    "symlink news 300",
    "link big d/new",
    "unlink big",
    "unlink d/x",
    "unlink-open big",
    "write-open 0 5000",
    "close-open",
    "rmdir empty",
    "rename big new",
    "rename d/x e/y",
    "rename new big",
    "rename d/sub empty",
    "exchange d/x big",
    "write new 0 6000",
    "write big 4000 6000",
    "write big 4096 4096",
    "append d/x 3500",
    "truncate big 5001",
    "truncate d/x 20000",
    "punch big 5000 9000",
    "reserve-behind d/x 8192 8192",
    "chmod big 4711",
    "setxattr big user.new 900",
    "removexattr big user.old",
    "write sums/file 4000 6000",
    "append sums/file 3500",
    "truncate sums/file 5001",
];

/// What matters in directories with limits, of [`super::InitialState::Limited`]: within them, over them, and across.
const LIMITS: &[&str] = &[
    "limit d 16384 0",
    "limit d 0 4",
    "limit e 1048576 100",
    "limit d/sub 4096 1",
    "limit empty 4096 1",
    "unlimit d",
    "create d/new",
    "mkdir d/newdir",
    "mkdir d/sub/newdir",
    "symlink d/short 5",
    "link d/x d/twin",
    "link small d/another",
    "unlink d/x",
    "unlink d/sub/deep",
    "rmdir d/sub",
    "rmdir empty",
    "rename d/x d/sub/x",
    "rename d/x d/sub/deep",
    "rename d/x e/z",
    "rename big d/big",
    "rename d/sub e/sub",
    "rename d e/d",
    "exchange d/x d/sub/deep",
    "exchange d/x e/y",
    "write d/x 4096 8192",
    "write d/x 0 4096",
    "write d/x 100 4",
    "write d/sub/deep 0 5",
    "write d/sub/deep 8192 4096",
    "append d/x 4100",
    "truncate d/x 0",
    "truncate d/x 20000",
    "reserve d/x 0 16384",
    "reserve d/x 0 1000000",
    "reserve-behind d/x 8192 8192",
    "punch d/x 0 4096",
    "zero d/x 4000 9000",
    "write stripes/file 4096 4096",
    "write stripes/file 100 30000",
    "append stripes/file 10000",
    "punch stripes/file 3000 9000",
    "unlink stripes/file",
];

fn parsed(texts: &[&str]) -> Vec<Operation> {
    let parsed = texts.iter().map(|text| text.parse());
    parsed
        .collect::<Result<_, _>>()
        .expect("operations of this table")
}

/// Names of nearly the greatest length, which take several lines of a log.
fn long_names() -> [Operation; 2] {
    let path = format!("d/{}", "n".repeat(250));
    let to = format!("e/{}", "m".repeat(255));
    let from = "d/x".to_owned();
    [Operation::Create { path }, Operation::Rename { from, to }]
}

/// Every operation, with every class of arguments.
pub(super) fn all() -> Vec<Operation> {
    let mut all = parsed(ALL);
    all.extend(long_names());
    all
}

/// What matters in directories with limits.
pub(super) fn limits() -> Vec<Operation> {
    parsed(LIMITS)
}

/// One of each class.
pub(super) fn few() -> Vec<Operation> {
    parsed(FEW)
}
