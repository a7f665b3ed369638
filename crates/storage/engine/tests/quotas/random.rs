//! Random sequences of operations with limits: the same answers as the model, and the same usage after each, also after
//! sessions that ended and after crashes.

use super::model::{Answer, Model, Node, Refusal};
use super::{DIRECTORY, FILE, ROOT, limits};
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use egeria_media::Pool;
use egeria_stats::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct Run {
    pools: Vec<Arc<Pool>>,
    memory: PrivateMemory,
    volume: Option<Arc<Volume>>,
    model: Model,
    /// Number of each node's inode.
    inodes: Vec<InodeNumber>,
    random: Rng,
}

fn refusal(errno: i32) -> Refusal {
    match errno {
        libc::EDQUOT => Refusal::Quota,
        libc::EXDEV => Refusal::OtherTree,
        _ => Refusal::Other,
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let pools: Vec<Arc<Pool>> = (0..2)
            .map(|_| Arc::new(Pool::anonymous(16 << 20)))
            .collect();
        create_private(&pools, seed, &CreateOptions::default()).expect("mkfs");
        let mut run = Run {
            pools,
            memory: PrivateMemory::default(),
            volume: None,
            model: Model::new(),
            inodes: vec![ROOT],
            random: Rng::new(seed),
        };
        run.attach();
        run
    }

    /// All that a session knew is gone, as after a crash: each call was durable when it returned.
    fn attach(&mut self) {
        self.volume = None;
        let options = AttachOptions::default();
        let volume = Volume::attach_private(&self.pools, &mut self.memory, &options);
        self.volume = Some(volume.expect("attach"));
    }

    fn volume(&self) -> Arc<Volume> {
        Arc::clone(self.volume.as_ref().expect("attached"))
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    /// A directory or a file in the tree.
    fn pick(&mut self, is_directory: bool) -> Option<usize> {
        let all = self.model.within(0);
        let fits = |node: &usize| self.model.is_directory(*node) == is_directory;
        let all: Vec<usize> = all.into_iter().filter(fits).collect();
        let at = self.random.below(all.len().max(1) as u64) as usize;
        all.get(at).copied()
    }

    #[track_caller]
    fn compare<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: Answer<T>,
        model: Answer<T>,
    ) {
        assert_eq!(found, model, "{what}");
    }

    fn make(&mut self, kind: u64) {
        let (parent, name) = (self.pick(true).expect("the root"), self.name());
        let (volume, ino) = (self.volume(), self.inodes[parent]);
        let node = Node {
            names: (kind == 0).then(BTreeMap::new),
            ..Node::default()
        };
        let blocks = u64::from(kind == 1);
        let made = match kind {
            0 => volume.create(ino, name.as_bytes(), &DIRECTORY),
            1 => volume.symlink(ino, name.as_bytes(), b"target", 0, 0),
            _ => volume.create(ino, name.as_bytes(), &FILE),
        };
        let expected = self.model.make(parent, name, node, blocks);
        let made = made.map_err(|errno| refusal(errno.0));
        self.compare("make", made.map(drop), expected.map(drop));
        if let Ok(made) = made {
            self.inodes.push(made.ino);
        }
    }

    fn change_names(&mut self, what: u64) {
        let volume = self.volume();
        let (from, to) = (
            self.pick(true).expect("root"),
            self.pick(true).expect("root"),
        );
        let (name, new) = (self.name(), self.name());
        let refused = |errno: Errno| refusal(errno.0);
        let (old, target) = (self.inodes[from], self.inodes[to]);
        let (found, expected) = match what {
            0 => {
                let replace = RenameMode::Replace;
                let ends = (name.as_bytes(), new.as_bytes());
                let found = volume.rename(old, ends.0, target, ends.1, replace);
                (found, self.model.rename((from, name), (to, new)))
            }
            1 => match self.model.find(from, name) {
                Some(node) => {
                    let found = volume.link(self.inodes[node], target, new.as_bytes());
                    (found.map(drop), self.model.link(node, to, new))
                }
                None => return,
            },
            _ => {
                let node = self.model.find(from, name);
                let found = if node.is_some_and(|node| self.model.is_directory(node)) {
                    volume.remove_directory(old, name.as_bytes())
                } else {
                    volume.unlink(old, name.as_bytes())
                };
                (found, self.model.remove(from, name))
            }
        };
        self.compare("names", found.map_err(refused), expected);
    }

    fn change_data(&mut self, what: u64) {
        let Some(file) = self.pick(false) else { return };
        let volume = self.volume();
        let ino = self.inodes[file];
        if volume.attributes(ino).expect("attributes").kind() != FileKind::Regular {
            return;
        }
        let reference = volume.open(ino, None).expect("open");
        let (first, count) = (self.random.below(12), 1 + self.random.below(6));
        let range = (first * BLOCK as u64, count * BLOCK as u64);
        let refused = |errno: Errno| refusal(errno.0);
        match what {
            0 => {
                let bytes = vec![7; range.1 as usize];
                let found = volume.write(reference, range.0, &bytes);
                let blocks = found.map(|bytes| (bytes / BLOCK) as u64).map_err(refused);
                let expected = self.model.write(file, first, count);
                self.compare("write", blocks, expected);
            }
            1 => {
                let found = volume.write(reference, range.0 + 100, b"part");
                let expected = self.model.write(file, first, 1);
                let found = found.map(|_| 1).map_err(refused);
                self.compare("write a part", found, expected);
            }
            2 => {
                let keep = AllocateMode::KeepSize;
                let found = volume.allocate(reference, range.0, range.1, keep);
                let expected = self.model.reserve(file, first, count);
                self.compare("reserve", found.map_err(refused), expected);
            }
            3 => {
                let punch = AllocateMode::PunchHole;
                let found = volume.allocate(reference, range.0, range.1, punch);
                self.model.clear(file, first, first + count);
                self.compare("punch", found.map_err(refused), Ok(()));
            }
            _ => {
                let change = AttributeChange {
                    size_bytes: Some(range.0),
                    ..AttributeChange::default()
                };
                // What is reserved behind the end stays where the size does not shrink.
                let size = volume.attributes(ino).expect("attributes").size_bytes;
                let found = volume.set_attributes(ino, &change).map(drop);
                if range.0 < size {
                    self.model.clear(file, first, u64::MAX);
                }
                self.compare("truncate", found.map_err(refused), Ok(()));
            }
        }
        volume.close(ino);
    }

    fn change_limits(&mut self, what: u64) {
        let top = self.pick(true).expect("the root");
        let (volume, ino) = (self.volume(), self.inodes[top]);
        let refused = |error: VolumeError| refusal(error.errno);
        if what == 0 {
            let found = volume.remove_quota(ino).map_err(refused);
            let expected = self.model.nodes[top].limits.take();
            self.compare("remove", found, expected.map(drop).ok_or(Refusal::Other));
            return;
        }
        let given = [(8, 0), (0, 4), (20, 8), (3, 3)][self.random.below(4) as usize];
        let found = volume.set_quota(ino, limits(given.0, given.1));
        let expected = self.model.limit(top, given);
        // Which of several reasons is reported is not compared.
        let either = |answer: Answer<()>| answer.map_err(|_| Refusal::Other);
        self.compare("limit", either(found.map_err(refused)), either(expected));
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => self.attach(),
            1..4 => self.change_limits(1),
            4 => self.change_limits(0),
            5..9 => self.make(0),
            9 => self.make(1),
            10..16 => self.make(2),
            16..20 => self.change_names(0),
            20..22 => self.change_names(1),
            22..25 => self.change_names(2),
            25..31 => self.change_data(0),
            31..33 => self.change_data(1),
            33..35 => self.change_data(2),
            35..37 => self.change_data(3),
            _ => self.change_data(4),
        }
        self.check();
    }

    fn check(&self) {
        let volume = self.volume();
        let all = self.model.within(0).into_iter();
        let limited = all.filter(|node| self.model.nodes[*node].limits.is_some());
        let mut count = 0;
        for top in limited {
            let used = super::used(&volume, self.inodes[top]);
            assert_eq!(used, self.model.used(top));
            count += 1;
        }
        assert_eq!(volume.quotas().len(), count);
    }
}

#[test]
fn any_sequence_is_counted_as_the_model_counts() {
    let cases = std::env::var("EGERIA_TEST_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(25);
    for seed in 0..cases {
        let mut run = Run::new(seed);
        for step in 0..300 {
            let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
            if let Err(panic) = stepped {
                eprintln!("seed {seed}, step {step}");
                std::panic::resume_unwind(panic);
            }
        }
        drop(run.volume.take());
        let report = check_private(&run.pools, &mut run.memory, 1, false).expect("check");
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}
