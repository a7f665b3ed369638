//! `numa_maps` as kernels write them: of a machine with four nodes, and of nobody.

use egeria_machine::NodeId;
use egeria_pages::numa_maps::Memory;
use proptest::prelude::*;

/// A data base with hugetlbfs, changed copies of private mappings, and odd names.
const RECORDED: &[u8] = include_bytes!("data/numa_maps-4-nodes");

fn bytes(memory: &egeria_pages::NodeBytes) -> Vec<(u16, u64)> {
    memory.iter().map(|(node, bytes)| (node.0, bytes)).collect()
}

#[test]
fn recorded_maps_are_summed_by_node() {
    let memory = Memory::read(RECORDED).unwrap();
    assert_eq!(memory.mappings, 12);
    // Heap 40+2, stack 3, huge 8192 (transparent), of libc's data 2 of 3 (one on each node), of the program's 1.
    assert_eq!(
        bytes(&memory.anonymous),
        [
            (0, 4096 * (40 + 3 + 1)),
            (1, 4096),
            (3, 4096 * (8192 + 2 + 1))
        ]
    );
    let of_file = |path: &[u8]| bytes(&memory.by_file[path]);
    assert_eq!(
        of_file(b"/usr/lib/libc.so.6"),
        [(0, 4096 * 300), (1, 4096 * 21)]
    );
    assert_eq!(of_file(b"/srv/my data\n"), [(2, 4096 * 100)]);
    assert_eq!(
        of_file(b"/dev/hugepages/pg"),
        [(0, 64 << 21), (2, 64 << 21)]
    );
    assert_eq!(of_file(b"/dev/shm/PostgreSQL.1"), [(1, 4096 * 77)]);
    assert_eq!(memory.huge_bytes, 128 << 21);
    assert_eq!(memory.by_node().of(NodeId(1)), 4096 * (2 + 20 + 77));
}

#[test]
fn nonsense_is_passed_over() {
    for text in [
        "",
        "\n\n",
        "zzz",
        "7f00 default N=1 N0= N99999999=4 N0=-1 Nx=3 anon=18446744073709551616",
        "7f00 default file= anon=5",
        "7f00 default N0=18446744073709551615 N1=18446744073709551615 kernelpagesize_kB=99999999999",
    ] {
        let memory = Memory::read(text.as_bytes()).unwrap();
        assert!(memory.by_file.is_empty(), "{text}");
    }
    let escapes = b"7f00 default file=/a\\04\\134\\999\\ mapped=1 N0=1 kernelpagesize_kB=4";
    let memory = Memory::read(&escapes[..]).unwrap();
    assert_eq!(memory.by_file.keys().next().unwrap(), b"/a\\04\\\\999\\");
}

proptest! {
    #[test]
    fn any_bytes_are_read(text: Vec<u8>) {
        let _ = Memory::read(&text[..]).unwrap();
    }

    #[test]
    fn sums_are_those_of_the_lines(pages in prop::collection::vec((0..8_u16, 0..1_000_000_u64, 0..1_000_000_u64), 0..40)) {
        let mut text = String::new();
        for (node, count, anonymous) in &pages {
            text += &format!("7f00 default file=/f anon={anonymous} N{node}={count} kernelpagesize_kB=4\n");
        }
        let memory = Memory::read(text.as_bytes()).unwrap();
        let expected = |node| {
            let of_node = pages.iter().filter(|(other, ..)| *other == node);
            of_node.map(|(_, count, _)| count * 4096).sum::<u64>()
        };
        for node in 0..8 {
            prop_assert_eq!(memory.by_node().of(NodeId(node)), expected(node));
        }
        let anonymous: u64 = pages.iter().map(|(_, count, anonymous)| anonymous.min(count) * 4096).sum();
        prop_assert_eq!(memory.anonymous.total(), anonymous);
    }
}
