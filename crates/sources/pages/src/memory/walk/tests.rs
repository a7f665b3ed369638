use super::*;
use egeria_machine::NodeId;

fn walk<'a>(facts: &'a str, ranges: &'a str) -> Walk<&'a [u8], &'a [u8]> {
    Walk::of(facts.as_bytes(), ranges.as_bytes())
}

#[test]
fn what_was_accessed_is_read_by_mapping() {
    let facts = "1000 default N0=2 kernelpagesize_kB=4\n5000 bind:0 N0=1 kernelpagesize_kB=4\n\
        9000 default N0=1 kernelpagesize_kB=4\n";
    let ranges = "1000-3000 rw-p 00000000 00:00 0 [heap]\nSize: 8 kB\nReferenced: 4 kB\nVmFlags: rd\n\
        5000-9000 r--p 0 00:00 0\nReferenced:       0 kB\nAnonHugePages: 4 kB\n9000-a000 r--p 0 00:00 0\n\
        Referenced: 99999999999999999999 kB\nReferenced: many\n";
    let all = walk(facts, ranges).next(9).unwrap();
    let parts = all.parts.iter().map(|part| {
        (
            part.area.range.clone(),
            part.accessed_bytes,
            part.huge_bytes,
        )
    });
    let wanted = [
        (0x1000..0x3000, 4096, 0),
        (0x5000..0x9000, 0, 4096),
        (0x9000..0xa000, 0, 0),
    ];
    assert_eq!(parts.collect::<Vec<_>>(), wanted);
    assert!(all.is_last && all.is_tracked);
    let new = "1000-3000 rw-p 0 00:00 0\nVmFlags: rd sd\n";
    assert!(!walk(facts, new).next(9).unwrap().is_tracked);
}

#[test]
fn small_mappings_of_a_policy_are_one_up_to_two_mebibytes() {
    let (mut facts, mut ranges) = (String::new(), String::new());
    for number in 0..1024 {
        let start = 0x20_0000 + number * 4096;
        facts += &format!("{start:x} default N{}=1 kernelpagesize_kB=4\n", number % 2);
        ranges += &format!(
            "{start:x}-{:x} rw-p 0 00:00 0\nReferenced: 4 kB\n",
            start + 4096
        );
    }
    let all = walk(&facts, &ranges).next(usize::MAX).unwrap();
    let mib = 1_u64 << 20;
    assert_eq!(all.parts.len(), 2);
    assert_eq!(all.parts[1].area.range, 0x40_0000..0x60_0000);
    assert_eq!(
        all.parts[1].area.bytes,
        [(NodeId(0), mib), (NodeId(1), mib)]
    );
    assert_eq!(all.parts[1].accessed_bytes, 2 * mib);
    // A mapping of another policy is never taken in, not even without pages.
    let facts = "1000 default N0=1 kernelpagesize_kB=4\n2000 bind:0\n3000 default N0=1 kernelpagesize_kB=4\n";
    let ranges = "1000-2000 rw-p 0\n2000-3000 rw-p 0\n3000-4000 rw-p 0\n";
    assert_eq!(walk(facts, ranges).next(9).unwrap().parts.len(), 2);
}

#[test]
fn a_walk_goes_on_where_it_was_and_loses_nothing() {
    let (mut facts, mut ranges) = (String::new(), String::new());
    for number in 1..=10 {
        let start = number * (4 << 20);
        facts += &format!("{start:x} default N0=1 kernelpagesize_kB=4\n");
        ranges += &format!("{start:x}-{:x} rw-p 0\nSize: 4 kB\n", start + 4096);
    }
    let mut walk = walk(&facts, &ranges);
    let (mut starts, mut at) = (Vec::new(), 0);
    loop {
        let slice = walk.next(3).unwrap();
        assert!(slice.parts.len() <= 3 && slice.range.start == at);
        at = slice.range.end;
        starts.extend(slice.parts.iter().map(|part| part.area.range.start >> 22));
        if slice.is_last {
            break;
        }
    }
    assert_eq!(starts, (1..=10).collect::<Vec<_>>());
    assert_eq!(at, usize::MAX);
}

#[test]
fn mappings_that_come_or_go_in_between_are_left_out() {
    let facts = "1000 default N0=1 kernelpagesize_kB=4\n3000 default N0=1 kernelpagesize_kB=4\n";
    let ranges = "2000-3000 rw-p 0\n3000-4000 rw-p 0\nffffffffff600000-ffffffffff601000 --xp 0\n";
    let all = walk(facts, ranges).next(9).unwrap();
    assert_eq!(all.parts.len(), 1);
    assert_eq!(all.parts[0].area.range, 0x3000..0x4000);
}

fn joined(facts: &[u8], ranges: &[u8]) -> io::Result<Vec<Area>> {
    let all = Walk::of(facts, ranges).next(usize::MAX)?;
    Ok(all.parts.into_iter().map(|part| part.area).collect())
}

#[test]
fn areas_have_ranges_pages_and_the_owner_s_nodes() {
    let facts = "1000 default heap anon=3 N0=2 N2=1 kernelpagesize_kB=4\n\
        8000 bind:1,3-4 anon=1 N1=1 kernelpagesize_kB=4\n\
        200000 prefer (many):2 file=/a huge N0=1 kernelpagesize_kB=2048\n\
        900000 weighted interleave:0-1 N0=1 kernelpagesize_kB=4\n\
        a00000 local file=/b\n\
        b00000 interleave=static:5 N0=1 kernelpagesize_kB=4\n";
    let ranges = "1000-4000 rw-p 0 00:00 0 [heap]\n5000-6000 r--p 0 00:00 0\n8000-9000 rw-p 0 00:00 0\n\
        200000-400000 rw-p 0 00:00 0\n900000-901000 rw-p 0 00:00 0\na00000-a01000 r--p 0 00:00 0 /b\n";
    let found = joined(facts.as_bytes(), ranges.as_bytes()).unwrap();
    let bound: Vec<_> = found.iter().map(|area| area.bound_to.clone()).collect();
    let nodes = |all: &[u16]| Some(all.iter().copied().map(NodeId).collect::<Vec<_>>());
    assert_eq!(
        bound,
        [None, nodes(&[1, 3, 4]), nodes(&[2]), nodes(&[0, 1])]
    );
    let interleaved: Vec<bool> = found.iter().map(|area| area.is_interleaved).collect();
    assert_eq!(interleaved, [false, false, false, true]);
    assert!(area::is_interleaved("interleave=static:5 N0=1"));
    assert_eq!(found[0].range, 0x1000..0x4000);
    assert_eq!(found[0].bytes, [(NodeId(0), 2 * 4096), (NodeId(2), 4096)]);
    assert_eq!(
        (found[2].page_bytes, found[2].bytes[0].1),
        (2 << 20, 2 << 20)
    );
    assert!(found[0].allows(NodeId(7)) && !found[1].allows(NodeId(2)));
}

#[test]
fn lines_that_make_no_sense_are_left_out() {
    let facts = "zz default N0=1\n1000\n2000 bind:9999-1 N0=1 kernelpagesize_kB=3\n\
        3000 bind:0-65535 N0=18446744073709551615 Nx=2 kernelpagesize_kB=4\n";
    let ranges = "3000-2000 x\n3000-4000 x\n2000-3000 x\n";
    let found = joined(facts.as_bytes(), ranges.as_bytes()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].bytes, [(NodeId(0), u64::MAX)]);
    assert!(found[0].bound_to.as_ref().unwrap().len() < 2000);
}

#[test]
fn a_mapping_has_its_file_and_its_users() {
    let facts = "1000 default file=/a mapmax=3 N0=1 kernelpagesize_kB=4\n2000 default N0=1 kernelpagesize_kB=4\n";
    let ranges = "1000-2000 rw-s 0 fd:01 77 /a\n2000-3000 rw-p 0 00:00 0\n";
    let all = walk(facts, ranges).next(9).unwrap();
    let of = |part: &Part| (part.area.file, part.area.mappers);
    let device = (0xfd, 1);
    let file = Some(MappedFile { device, inode: 77 });
    let wanted = [(file, 3), (None, 1)];
    assert_eq!(all.parts.iter().map(of).collect::<Vec<_>>(), wanted);
}
