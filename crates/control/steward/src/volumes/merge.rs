//! Facts of processes and of the volumes that they use, as one window.

use std::collections::HashMap;

use egeria_facts::{
    Facts, MAX_COUNTER, MAX_FILE_FACTS, MAX_FILES, Measured, MediumFacts, Mix, ThreadFacts,
    ThreadKey,
};

/// Adds what went through volumes. Threads that are not in the window stay out: they are met in the next one.
pub(super) fn add(facts: &mut Facts, parts: Vec<Facts>) {
    if parts.is_empty() {
        return;
    }
    let are_others_written = facts.window.nodes.iter().any(|node| node.has_pool);
    let threads = facts.window.threads.iter().enumerate();
    let at: HashMap<ThreadKey, usize> = threads.map(|(at, thread)| (thread.key, at)).collect();
    for part in parts {
        for thread in part.window.threads {
            let at = at.get(&thread.key);
            if let Some(of_all) = at.and_then(|at| facts.window.threads.get_mut(*at)) {
                add_thread(of_all, thread);
            }
        }
        let is_written = part.window.nodes.iter().any(|node| node.written_bytes > 0);
        for (node, of_part) in facts.window.nodes.iter_mut().zip(part.window.nodes) {
            // A node counts as one for new data if all that is written could go there.
            if !are_others_written {
                node.has_pool |= of_part.has_pool;
            } else if is_written {
                node.has_pool &= of_part.has_pool;
            }
            node.read_bytes = bounded(node.read_bytes, of_part.read_bytes);
            node.written_bytes = bounded(node.written_bytes, of_part.written_bytes);
        }
        for medium in part.media {
            add_medium(&mut facts.media, medium);
        }
        facts.files.extend(part.files);
    }
    facts.files.truncate(MAX_FILE_FACTS);
}

fn add_thread(thread: &mut ThreadFacts, part: ThreadFacts) {
    let both = [
        (&mut thread.read_bytes, part.read_bytes),
        (&mut thread.written_bytes, part.written_bytes),
    ];
    for (sums, more) in both {
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum = bounded(*sum, more);
        }
    }
    thread.is_shared |= part.is_shared;
    thread.pinned |= part.pinned;
    thread.files.extend(part.files);
    thread.files.sort_by_key(|each| {
        let moved = each.read_bytes.saturating_add(each.written_bytes);
        (std::cmp::Reverse(moved), each.file)
    });
    thread.files.truncate(MAX_FILES);
}

fn bounded(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MAX_COUNTER)
}

fn add_medium(media: &mut Vec<MediumFacts>, part: MediumFacts) {
    match media.iter_mut().find(|medium| medium.node == part.node) {
        Some(medium) => *medium = both(medium, &part),
        None => media.push(part),
    }
}

/// Data of either kind must find room, so the smaller room counts.
fn both(one: &MediumFacts, other: &MediumFacts) -> MediumFacts {
    let rooms = one.free_bytes.into_iter().chain(other.free_bytes);
    let is_striped = |medium: &MediumFacts| medium.striped_files != Some(false);
    MediumFacts {
        node: one.node,
        measured: sum(&one.measured, &other.measured),
        free_bytes: rooms.min(),
        striped_files: Some(is_striped(one) || is_striped(other)),
    }
}

fn sum(one: &Measured, other: &Measured) -> Measured {
    // What is not requested through one volume goes through DRAM for it, also what goes through the other.
    let dram_bytes_s = match (one.dram_bytes_s, other.dram_bytes_s) {
        (Some(dram_bytes_s), Some(_)) => Some((dram_bytes_s - other.pm_bytes_s).max(0.0)),
        (one, other) => one.or(other),
    };
    Measured {
        mix: mean(&one.mix, &other.mix),
        demand: one.demand.saturating_add(other.demand),
        pm_bytes_s: one.pm_bytes_s + other.pm_bytes_s,
        dram_bytes_s,
    }
}

fn mean(one: &Mix, other: &Mix) -> Mix {
    let requests = one.requests.saturating_add(other.requests);
    let mean = |of: fn(&Mix) -> f64| {
        let weighted = |mix: &Mix| of(mix) * mix.requests as f64;
        (weighted(one) + weighted(other)) / requests.max(1) as f64
    };
    Mix {
        requests,
        mean_bytes: mean(|mix| mix.mean_bytes),
        write_share: mean(|mix| mix.write_share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::{CpuSet, FileFacts, FileKey, FileUse, Window};
    use egeria_machine::{Machine, NodeId};

    fn thread(thread_id: u32, node: u16) -> ThreadFacts {
        let key = ThreadKey {
            process_id: 7,
            thread_id,
            start_ticks: 1,
        };
        ThreadFacts::idle(key, NodeId(node), 2, CpuSet::empty())
    }

    fn facts(machine: &Machine, threads: Vec<ThreadFacts>) -> Facts {
        let mut window = Window::empty(machine, 0, 0, 1);
        window.threads = threads;
        Facts::of(window)
    }

    fn medium(requests: u64, bytes: f64, free_bytes: u64) -> MediumFacts {
        MediumFacts {
            node: NodeId(1),
            measured: Measured {
                mix: Mix {
                    requests,
                    mean_bytes: bytes,
                    write_share: 1.0,
                },
                demand: 2,
                pm_bytes_s: 5.0,
                dram_bytes_s: Some(8.0),
            },
            free_bytes: Some(free_bytes),
            striped_files: Some(false),
        }
    }

    #[test]
    fn a_thread_has_one_row_for_memory_and_both_volumes() {
        let machine = Machine::profile("optane-2s").unwrap();
        let mut all = facts(&machine, vec![thread(7, 1), thread(8, 0)]);
        all.window.threads[0].busy_ns = 1;
        all.window
            .nodes
            .iter_mut()
            .for_each(|node| node.has_pool = false);
        let part = |volume: u32, bytes: u64| {
            let file = FileKey { volume, inode: 3 };
            let mut used = thread(7, 0);
            used.read_bytes = vec![bytes, 0];
            used.files = vec![FileUse {
                file,
                read_bytes: bytes,
                written_bytes: 0,
            }];
            let mut part = facts(&machine, vec![used, thread(9, 0)]);
            part.window.nodes[0].read_bytes = bytes;
            part.window.nodes[1].has_pool = false;
            part.files = vec![FileFacts {
                file,
                bytes,
                bytes_on: vec![bytes, 0],
                read_bytes: vec![vec![0; 2]; 2],
                written_bytes: 0,
                replicas: Vec::new(),
            }];
            part
        };
        add(&mut all, vec![part(0, 10), part(4, 30)]);
        let [first, second] = &all.window.threads[..] else {
            panic!("{:?}", all.window.threads);
        };
        assert_eq!((first.node, first.busy_ns), (NodeId(1), 1));
        assert_eq!(first.read_bytes, [40, 0]);
        let volumes = first.files.iter().map(|file| file.file.volume);
        assert_eq!(volumes.collect::<Vec<_>>(), [4, 0], "most used first");
        assert_eq!(second.read_total(), 0);
        assert_eq!(all.window.nodes[0].read_bytes, 40);
        let pools = all.window.nodes.iter().map(|node| node.has_pool);
        assert_eq!(pools.collect::<Vec<_>>(), [true, false]);
        let files = all.files.iter().map(|file| file.file.volume);
        assert_eq!(files.collect::<Vec<_>>(), [0, 4]);
        all.validate(&machine).unwrap();
    }

    #[test]
    fn media_of_two_volumes_are_one() {
        let mut media = Vec::new();
        add_medium(&mut media, medium(30, 100.0, 7));
        add_medium(&mut media, medium(10, 500.0, 9));
        let [both] = &media[..] else {
            panic!("{media:?}");
        };
        let measured = both.measured;
        assert_eq!(
            (measured.mix.requests, measured.mix.mean_bytes),
            (40, 200.0)
        );
        assert_eq!((measured.demand, measured.pm_bytes_s), (4, 10.0));
        assert_eq!(measured.dram_bytes_s, Some(3.0));
        assert_eq!(
            (both.free_bytes, both.striped_files),
            (Some(7), Some(false))
        );
    }
}
