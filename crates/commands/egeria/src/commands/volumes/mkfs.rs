//! `egeria mkfs`: make a volume of one pool per node.

use std::path::PathBuf;

use clap::Args;
use egeria_engine::{CreateOptions, PoolRequest, create_volume};
use egeria_machine::{NamedPath, format_bytes};
use egeria_media::{Access, Persistence, Pool};
use serde::Serialize;

use crate::commands::volumes::placement;
use crate::{owner, paths};
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::progress;
use egeria_cli::signals::Signals;
use egeria_cli::sizes;

/// Arguments of `egeria mkfs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria mkfs --pool 0:/mnt/pmem0/pool:64GiB --pool 1:/mnt/pmem1/pool:64GiB
  egeria mkfs --pool 0:/dev/dax0.0 --pool 1:/dev/dax1.0
  egeria mkfs --pool 0:/dev/shm/a:1G --pool 1:/dev/shm/b:1G     (DRAM)

Without SIZE a pool is as large as its file or device. The path of any pool
names the volume afterwards.")]
pub struct Arguments {
    /// A pool: node, file or device, size; once per pool
    #[arg(long = "pool", value_name = "NODE:PATH[:SIZE]", required = true, value_parser = parse_pool)]
    pools: Vec<PoolRequest>,
    /// Overwrite pools that hold a volume already
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    pools: Vec<PoolDocument>,
}

/// A pool that was made.
#[derive(Serialize)]
pub struct PoolDocument {
    /// Its index.
    pub pool: usize,
    /// Its node.
    pub node: u16,
    /// File or device.
    pub path: NamedPath,
    /// Size, bytes.
    pub bytes: u64,
    /// `dax`, `volatile` or `page_cache`.
    pub persistence: &'static str,
}

/// Makes the volume.
pub fn run(arguments: Arguments, format: Format) -> Outcome {
    let mut pools = arguments.pools;
    for pool in &mut pools {
        pool.path = paths::absolute(&pool.path)?;
        owner::check_own(&pool.path)?;
    }
    let signals = Signals::install()?;
    let new: Vec<PathBuf> = pools
        .iter()
        .map(|pool| pool.path.clone())
        .filter(|path| !path.exists())
        .collect();
    let leftovers = new.clone();
    signals.call(move |signal| {
        remove_files(&leftovers);
        std::process::exit(128 + signal);
    });
    let options = CreateOptions {
        force: arguments.force,
        root: None,
    };
    let made = progress::spinning("making the volume", || create_volume(&pools, &options));
    signals.forget();
    let volume = made.inspect_err(|_| remove_files(&new))?;
    placement::prefer_nodes(&pools);
    let document = document_of(volume, &pools);
    format.print(&document, human)
}

/// Pools that were not there before: half a volume is of no use to anybody.
fn remove_files(paths: &[PathBuf]) {
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
}

impl PoolDocument {
    /// The pool with this index that was made as requested.
    pub fn of(index: usize, request: &PoolRequest) -> PoolDocument {
        let pool = Pool::open(&request.path, Access::ReadOnly).ok();
        PoolDocument {
            pool: index,
            node: request.node,
            path: request.path.clone().into(),
            bytes: pool
                .as_ref()
                .map(Pool::bytes)
                .or(request.bytes)
                .unwrap_or(0),
            persistence: match pool.as_ref().map(Pool::persistence) {
                Some(Persistence::Dax) => "dax",
                Some(Persistence::Volatile) => "volatile",
                Some(Persistence::PageCache) | None => "page_cache",
            },
        }
    }
}

fn document_of(volume: uuid::Uuid, pools: &[PoolRequest]) -> Document {
    let pools = pools.iter().enumerate();
    Document {
        volume: volume.to_string(),
        pools: pools
            .map(|(index, request)| PoolDocument::of(index, request))
            .collect(),
    }
}

/// What a pool survives, in words.
pub fn survives(persistence: &str) -> &'static str {
    match persistence {
        "dax" => "power loss",
        "volatile" => "process death, not power loss (DRAM)",
        _ => "process death; power loss only once the page cache is written back",
    }
}

fn human(document: &Document) -> String {
    let rows = document.pools.iter().map(|pool| {
        vec![
            pool.pool.to_string(),
            pool.node.to_string(),
            format_bytes(pool.bytes),
            pool.path.to_string(),
            survives(pool.persistence).to_owned(),
        ]
    });
    let table = output::table(
        &[">pool", ">node", ">size", "path", "survives"],
        rows.collect(),
    );
    let first = &document.pools[0].path;
    format!(
        "volume {}\n{table}\nmount it: egeria mount {first} DIR",
        document.volume
    )
}

/// Reads `NODE:PATH[:SIZE]`; what follows the last colon is a size when it begins with a digit.
pub fn parse_pool(text: &str) -> Result<PoolRequest, String> {
    let wrong = |what: &str| format!("{what}; write NODE:PATH[:SIZE], as 0:/mnt/pmem0/pool:64GiB");
    let (node, rest) = text
        .split_once(':')
        .ok_or_else(|| wrong("a pool needs a node and a path"))?;
    let node = node
        .parse()
        .map_err(|_| wrong(&format!("{node:?} is no node number")))?;
    let (path, bytes) = match rest.rsplit_once(':') {
        Some((path, size)) if size.starts_with(|c: char| c.is_ascii_digit()) => {
            (path, Some(sizes::parse(size)?))
        }
        Some((_, size)) if !size.contains('/') => {
            return Err(wrong(&format!("{size:?} is no size")));
        }
        _ => (rest, None),
    };
    if path.is_empty() {
        return Err(wrong("the path is empty"));
    }
    Ok(PoolRequest {
        node,
        path: PathBuf::from(path),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_with_and_without_a_size() {
        let pool = |node, path: &str, bytes| {
            Ok(PoolRequest {
                node,
                path: PathBuf::from(path),
                bytes,
            })
        };
        assert_eq!(parse_pool("0:/a/b:1G"), pool(0, "/a/b", Some(1 << 30)));
        assert_eq!(parse_pool("7:/dev/dax0.0"), pool(7, "/dev/dax0.0", None));
        assert_eq!(parse_pool("1:/a:b/c"), pool(1, "/a:b/c", None));
        assert_eq!(parse_pool("1:/a:b/c:4096"), pool(1, "/a:b/c", Some(4096)));
    }

    #[test]
    fn wrong_pools_are_refused() {
        for text in [
            "", "/a", "x:/a:1G", "0:", "0::1G", "70000:/a", "-1:/a", "0:/a:1Q", "0:/a:", "0:/a:big",
        ] {
            assert!(parse_pool(text).is_err(), "{text}");
        }
    }
}
