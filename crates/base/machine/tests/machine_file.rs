//! Machine files: what they say is what the machine is, and nonsense gets one line with the key.

use std::path::Path;

use egeria_machine::{CpuId, Machine, MachineError, NodeId};
use proptest::prelude::*;

/// Two emulated nodes with everything a file can say about them.
const GOOD: &str = r#"
name = "good"
distances = [[10, 21], [21, 10]]
[emulation]
dilation = 16.0
timing = true
[[nodes]]
id = 0
cpus = "0-1"
memory_bytes = 1024
[nodes.emulated]
cores = 4
dimms = 1
read_bytes_s = 6.8e9
write_bytes_s = 1.85e9
read_stream_bytes_s = 3.4e9
write_stream_bytes_s = 0.9e9
read_latency_ns = 305.0
write_latency_ns = 81.0
remote_latency_factor = 1.66
remote_read_bandwidth_factor = 0.654
remote_write_bandwidth_factor = 0.654
read_curve = [[1, 1.0], [8, 0.95]]
write_curve = [[1, 1.0]]
llc_bytes = 65536
llc_latency_ns = 20.0
llc_read_bytes_s = 6.5e9
[[nodes]]
id = 1
cpus = "2-3"
[nodes.emulated]
cores = 2
dimms = 1
read_bytes_s = 6.8e9
write_bytes_s = 1.85e9
read_stream_bytes_s = 3.4e9
write_stream_bytes_s = 0.9e9
read_latency_ns = 305.0
write_latency_ns = 81.0
remote_latency_factor = 1.66
remote_read_bandwidth_factor = 0.654
remote_write_bandwidth_factor = 0.654
read_curve = [[1, 1.0]]
write_curve = [[1, 1.0]]
"#;

const PLAIN: &str = r#"
name = "plain"
[[nodes]]
id = 3
cpus = "0-1"
[nodes.bandwidth]
read_bytes_s = 20e9
write_bytes_s = 15e9
read_latency_ns = 60
write_latency_ns = 69
[[nodes.persistent_regions]]
name = "region0"
kind = "nvdimm"
bytes = 4096
[[nodes]]
id = 9
"#;

fn parse(text: &str) -> Result<Machine, MachineError> {
    Machine::from_toml(text, Path::new("some.toml"))
}

/// The line a text gets, which must name the file.
fn refusal(text: &str) -> String {
    let line = parse(text)
        .expect_err("nonsense must be refused")
        .to_string();
    assert!(!line.contains('\n'), "more than one line: {line:?}");
    assert!(line.starts_with("some.toml: "), "names no file: {line}");
    line
}

/// The line [`GOOD`] gets when the first `from` is `to`.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the good file has no {from:?}");
    refusal(&GOOD.replacen(from, to, 1))
}

#[test]
fn a_good_file_is_the_machine_it_says() {
    let machine = parse(GOOD).expect("a good file");
    assert_eq!((machine.name.as_str(), machine.nodes.len()), ("good", 2));
    assert_eq!(machine.node_of_cpu(CpuId(3)), Some(NodeId(1)));
    assert_eq!(machine.distance(NodeId(0), NodeId(1)), Some(21));
    assert_eq!(machine.nodes[0].memory_bytes, 1024);
    let emulated = machine.emulated.as_ref().expect("it declares nodes");
    assert_eq!((emulated.dilation, emulated.timing), (16.0, true));
    let second = machine.emulated_node(NodeId(1)).expect("two of them");
    assert_eq!((second.cores, second.write_bytes_s), (2, 1.85e9));
    assert_eq!(emulated.nodes[0].read_curve, [(1, 1.0), (8, 0.95)]);
    let llc = |node: usize| {
        let node = &emulated.nodes[node];
        (node.llc_bytes, node.llc_latency_ns, node.llc_read_bytes_s)
    };
    assert_eq!(llc(0), (65_536, 20.0, 6.5e9));
    assert_eq!(llc(1), (0, 0.0, 0.0), "a node need not have one");
}

#[test]
fn a_plain_file_has_default_distances_and_gaps_between_ids() {
    let machine = parse(PLAIN).expect("a good file");
    assert_eq!(machine.distances, [[10, 20], [20, 10]]);
    assert!(!machine.is_emulated());
    assert_eq!(machine.index_of(NodeId(9)), Some(1));
    let class = machine.nodes[0].bandwidth.as_ref().expect("it says so");
    assert_eq!((class.read_bytes_s, class.read_latency_ns), (20e9, 60.0));
    assert_eq!(machine.nodes[0].persistent_regions[0].bytes, 4096);
}

#[test]
fn good_files_survive_being_written() {
    for text in [GOOD, PLAIN] {
        let machine = parse(text).expect("a good file");
        assert_eq!(
            parse(&machine.to_toml()).expect("what we write we read"),
            machine
        );
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_key() {
    for (from, to, key, hint) in [
        (
            "read_bytes_s = 6.8e9",
            "read_bytes_s = 0.0",
            "nodes[0].emulated.read_bytes_s: 0",
            "use",
        ),
        (
            "write_bytes_s = 1.85e9",
            "write_bytes_s = -1",
            "emulated.write_bytes_s: -1",
            "1e15",
        ),
        (
            "write_bytes_s = 1.85e9",
            "write_bytes_s = nan",
            "write_bytes_s: NaN",
            "use bytes per",
        ),
        (
            "read_stream_bytes_s = 3.4e9",
            "read_stream_bytes_s = inf",
            "stream_bytes_s: inf",
            "use",
        ),
        (
            "read_latency_ns = 305.0",
            "read_latency_ns = -305.0",
            "read_latency_ns: -305",
            "0 to",
        ),
        (
            "dilation = 16.0",
            "dilation = 0.5",
            "emulation.dilation: 0.5",
            "from 1 to 65536",
        ),
        (
            "dilation = 16.0",
            "dilation = 1e9",
            "emulation.dilation: 1000000000",
            "from 1 to 65536",
        ),
        (
            "dilation = 16.0",
            "dilation = nan",
            "emulation.dilation: NaN",
            "from 1 to 65536",
        ),
        (
            "cores = 4",
            "cores = 0",
            "nodes[0].emulated.cores: 0",
            "use 1 to 256",
        ),
        (
            "cores = 4",
            "cores = 5000",
            "nodes[0].emulated.cores: 5000",
            "use 1 to 256",
        ),
        (
            "dimms = 1",
            "dimms = 0",
            "nodes[0].emulated.dimms: 0",
            "use 1 to 64",
        ),
        (
            "llc_bytes = 65536",
            "llc_bytes = 65535",
            "nodes[0].emulated.llc_bytes: 65535",
            "multiple of 32768, at most 67108864",
        ),
        (
            "llc_bytes = 65536",
            "llc_bytes = 1073741824",
            "llc_bytes: 1073741824",
            "at most 67108864",
        ),
        (
            "llc_bytes = 65536\n",
            "",
            "llc_bytes: missing",
            "leave all three out",
        ),
        (
            "llc_latency_ns = 20.0",
            "llc_latency_ns = nan",
            "llc_latency_ns: NaN",
            "0 to",
        ),
        (
            "llc_read_bytes_s = 6.5e9\n",
            "",
            "llc_read_bytes_s: 0",
            "bytes per second",
        ),
        (
            "factor = 1.66",
            "factor = 0.9",
            "remote_latency_factor: 0.9",
            "from 1 to",
        ),
        (
            "write_bandwidth_factor = 0.654",
            "write_bandwidth_factor = 1.5",
            "factor: 1.5",
            "share",
        ),
        (
            "write_bandwidth_factor = 0.654",
            "write_bandwidth_factor = 0",
            "factor: 0",
            "share",
        ),
        (
            "memory_bytes = 1024",
            "memory_bytes = 9e18",
            "memory_bytes = 9e18",
            "expected u64",
        ),
        (
            "name = \"good\"",
            "name = \"\"",
            "name: not a name",
            "printable",
        ),
        (
            "name = \"good\"",
            "name = \"a\\nb\"",
            "name: not a name",
            "printable",
        ),
    ] {
        let line = changed(from, to);
        assert!(line.contains(key) && line.contains(hint), "{to}: {line}");
    }
}

#[test]
fn curves_that_make_no_sense_are_refused() {
    let good = "read_curve = [[1, 1.0], [8, 0.95]]";
    for (curve, complaint) in [
        (
            "[]",
            "nodes[0].emulated.read_curve: empty; write [[1, 1.0]]",
        ),
        ("[[0, 1.0]]", "read_curve[0]: 0; use 1 to 65536"),
        ("[[1, 0.0]]", "read_curve[0]: 0; use a share"),
        ("[[1, 1.0], [1, 0.9]]", "read_curve[1]: 1 threads after 1"),
        ("[[8, 1.0], [4, 0.9]]", "read_curve[1]: 4 threads after 8"),
        ("[[1, 1.0, 3]]", "line"),
    ] {
        let line = changed(good, &format!("read_curve = {curve}"));
        assert!(line.contains(complaint), "{curve}: {line}");
    }
    let long: Vec<String> = (1..=33)
        .map(|threads| format!("[{threads}, 1.0]"))
        .collect();
    let line = changed(good, &format!("read_curve = [{}]", long.join(",")));
    assert!(line.contains("33 points; have at most 32"), "{line}");
}

#[test]
fn nodes_that_make_no_sense_are_refused() {
    for (from, to, complaint) in [
        (
            "id = 1",
            "id = 0",
            "nodes[1].id: 0 is used twice; give every node its own id",
        ),
        (
            "id = 0",
            "id = 5",
            "nodes[1].id: 1 follows 5; list the nodes by ascending id",
        ),
        ("id = 0", "id = -1", "line 8: "),
        (
            "\"2-3\"",
            "\"1-3\"",
            "nodes[1].cpus: CPU 1 is also in node 0",
        ),
        (
            "\"2-3\"",
            "\"3-2\"",
            "nodes[1].cpus: the range 3-2 runs backwards; write a list",
        ),
        (
            "\"2-3\"",
            "\"0-99999\"",
            "nodes[1].cpus: 99999 is beyond the largest number",
        ),
        (
            "\"2-3\"",
            "\"\"",
            "nodes[1].cpus: missing although other nodes name theirs",
        ),
        (
            "[[10, 21], [21, 10]]",
            "[[10, 21]]",
            "distances: 1 rows for 2 nodes; write 2 rows",
        ),
        (
            "[[10, 21], [21, 10]]",
            "[[10, 21], [21]]",
            "distances[1]: 1 numbers for 2 nodes",
        ),
        (
            "[[10, 21], [21, 10]]",
            "[[11, 21], [21, 10]]",
            "distances[0][0]: 11 from a node to",
        ),
        (
            "[[10, 21], [21, 10]]",
            "[[10, 256], [21, 10]]",
            "distances[0][1]: 256 is no distance",
        ),
    ] {
        let line = changed(from, to);
        assert!(line.contains(complaint), "{to}: {line}");
    }
}

#[test]
fn the_number_of_nodes_is_bounded() {
    assert_eq!(
        refusal("name = \"none\""),
        "some.toml: nodes: there are none; add at least one [[nodes]] table"
    );
    let node = |id: u32| format!("[[nodes]]\nid = {id}\ncpus = \"{id}\"\n");
    let nodes = |count| (0..count).map(node).collect::<String>();
    assert!(parse(&format!("name = \"many\"\n{}", nodes(64))).is_ok());
    let line = refusal(&format!("name = \"too many\"\n{}", nodes(65)));
    assert_eq!(line, "some.toml: nodes: 65 nodes; have at most 64");
    let line = refusal("name = \"idle\"\n[[nodes]]\nid = 0\n");
    assert!(line.contains("no node has a CPU"), "{line}");
}

#[test]
fn emulation_is_declared_wholly_or_not_at_all() {
    let line = refusal(&GOOD.replace("[emulation]\ndilation = 16.0\ntiming = true\n", ""));
    assert!(line.contains("nodes[0].emulated: present although the file has no [emulation]"));
    let start = GOOD.rfind("[nodes.emulated]").expect("it is there");
    let line = refusal(&GOOD[..start]);
    assert!(line.contains("nodes[1].emulated: missing although other nodes have it"));
}

#[test]
fn unknown_and_missing_keys_are_refused_with_their_line() {
    let line = changed("dilation = 16.0", "dilatation = 16.0");
    assert!(
        line.contains("line 5: unknown field `dilatation`"),
        "{line}"
    );
    let line = changed("cores = 4\n", "");
    assert!(line.contains("line 11: missing field `cores`"), "{line}");
    let line = changed("timing = true", "timing = 1");
    assert!(
        line.contains("line 6: invalid type: integer `1`, expected a boolean"),
        "{line}"
    );
    let line = changed("name = \"good\"", "name = \"good");
    assert!(line.contains("line 2: "), "{line}");
}

#[test]
fn a_file_that_cannot_be_a_machine_file_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let refused = |path: &Path| Machine::from_file(path).expect_err("refused").to_string();
    let hint = "give the path of a TOML machine file, or a profile's name";

    let missing = refused(&directory.path().join("missing.toml"));
    assert!(
        missing.contains("No such file") && missing.ends_with(hint),
        "{missing}"
    );
    assert!(refused(directory.path()).contains("it is not a regular file"));
    assert!(refused(Path::new("/dev/zero")).contains("it is not a regular file"));
    let path = directory.path().join("bytes.toml");
    std::fs::write(&path, b"name = \"\xff\"").expect("write");
    assert!(refused(&path).contains("it is not UTF-8 text"));
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).expect("write");
    assert!(refused(&path).contains("it is larger than 1048576 bytes"));
}

#[test]
fn a_file_on_disk_is_resolved_and_a_stray_word_is_not() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("good.toml");
    std::fs::write(&path, GOOD).expect("write");
    let spec = path.to_str().expect("UTF-8");
    let machine = Machine::resolve(Some(spec), None).expect("a good file");
    assert_eq!(machine.nodes, parse(GOOD).expect("a good file").nodes);

    let line = Machine::resolve(Some("octane-2s"), None)
        .expect_err("no such profile")
        .to_string();
    let known = Machine::profile_names().join(", ");
    assert_eq!(
        line,
        format!(
            "no machine profile \"octane-2s\"; use one of {known}, or the path of a machine file"
        )
    );
}

proptest! {
    /// Damaged files: no panic, one line.
    #[test]
    fn damaged_files_never_panic(
        at in 0..GOOD.len(),
        length in 0..40_usize,
        instead in "[ -~\\n\\u{0}é]{0,12}",
    ) {
        let end = (at + length).min(GOOD.len());
        let text = format!("{}{instead}{}", &GOOD[..at], &GOOD[end..]);
        match parse(&text) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok(machine) => prop_assert_eq!(
                parse(&machine.to_toml()).map_err(|error| error.to_string()),
                Ok(machine)
            ),
        }
    }

    /// CPU lists survive being written.
    #[test]
    fn cpu_lists_survive_being_written(set in proptest::collection::btree_set(0..8192_u16, 0..40)) {
        let cpus: Vec<CpuId> = set.into_iter().map(CpuId).collect();
        let text = egeria_machine::format_cpu_list(&cpus);
        prop_assert_eq!(egeria_machine::parse_cpu_list(&text), Ok(cpus));
    }

    /// Any text at all is a list or a complaint.
    #[test]
    fn any_text_is_a_cpu_list_or_a_complaint(text in "\\PC{0,40}|[0-9,-]{0,40}") {
        if let Ok(cpus) = egeria_machine::parse_cpu_list(&text) {
            prop_assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
