//! Memories, controllers and caches in machine files.

use egeria_machine::{AccessKind, Machine, MachineError, MemoryKind};

const SPEEDS: &str = r#"
    read_bytes_s = 60e9
    write_bytes_s = 40e9
    read_stream_bytes_s = 12e9
    write_stream_bytes_s = 8e9
    read_latency_ns = 75.0
    write_latency_ns = 70.0
"#;

fn text(node: &str, more_of_memory: &str) -> String {
    format!(
        r#"
        name = "one socket"
        [[nodes]]
        id = 0
        cpus = "0-15"
        {node}
        [[nodes.memories]]
        kind = "dram"
        {SPEEDS}
        {more_of_memory}
        "#
    )
}

fn read(text: &str) -> Result<Machine, MachineError> {
    Machine::from_toml(text, "test.toml".as_ref())
}

fn refusal(node: &str, more_of_memory: &str) -> String {
    let line = read(&text(node, more_of_memory)).unwrap_err().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn memories_read_back_as_they_were_written() {
    let more = format!(
        r#"
        [[nodes.memories]]
        kind = "persistent"
        controller = 1
        modules = 3
        bytes = 384_000_000_000
        granularity_bytes = 256
        directory_write_share = 0.5
        write_lines_in_flight = 7
        remote_latency_factor = 1.5
        remote_write_bandwidth_factor = 0.25
        write_curve = [[4, 1.0], [14, 0.55]]
        {SPEEDS}
        [[nodes.controllers]]
        id = 1
        queue_lines = 57
        "#
    );
    let node = "socket_queue_lines = 194\n[nodes.cache]\nbytes = 22_000_000\nlatency_ns = 20.0\nread_bytes_s = 2e10";
    let machine = read(&text(node, &more)).unwrap();
    let again = read(&machine.to_toml()).unwrap();
    assert_eq!(machine, again);
    let hardware = &machine.nodes[0].hardware;
    assert_eq!(hardware.memories[0].kind, MemoryKind::Dram);
    assert_eq!(hardware.memories[1].controller, 1);
    assert_eq!(hardware.socket_queue_lines, Some(194));
    assert_eq!(hardware.cache.as_ref().unwrap().bytes, 22_000_000);
}

#[test]
fn a_memory_takes_what_an_emulated_node_of_its_figures_takes() {
    let emulated = Machine::profile("optane-2s").unwrap();
    let node = &emulated.emulated.as_ref().unwrap().nodes[0];
    let machine = read(&text(
        "",
        &format!(
            r#"
            [[nodes.memories]]
            kind = "persistent"
            read_bytes_s = {:?}
            write_bytes_s = {:?}
            read_stream_bytes_s = {:?}
            write_stream_bytes_s = {:?}
            read_latency_ns = {:?}
            write_latency_ns = {:?}
            remote_latency_factor = {:?}
            remote_read_bandwidth_factor = {:?}
            remote_write_bandwidth_factor = {:?}
            read_curve = [[1, 1.0], [4, 1.0], [8, 0.95], [16, 0.85]]
            write_curve = [[1, 1.0], [4, 1.0], [8, 0.85], [16, 0.7]]
            "#,
            node.read_bytes_s,
            node.write_bytes_s,
            node.read_stream_bytes_s,
            node.write_stream_bytes_s,
            node.read_latency_ns,
            node.write_latency_ns,
            node.remote_latency_factor,
            node.remote_read_bandwidth_factor,
            node.remote_write_bandwidth_factor,
        ),
    ))
    .unwrap();
    let medium = machine.nodes[0].hardware.memories[1].medium();
    for kind in [AccessKind::Read, AccessKind::Write] {
        for (bytes, remote, threads) in [(64, false, 1), (4096, true, 3), (1 << 21, true, 20)] {
            let (found, said) = (
                medium.undisturbed_ns(bytes, kind, remote, threads),
                node.undisturbed_ns(bytes, kind, remote, threads),
            );
            assert_eq!(found, said);
            let (found, said) = (
                medium.service_ns(bytes, kind, remote, threads),
                node.service_ns(bytes, kind, remote, threads),
            );
            assert_eq!(found, said);
        }
    }
}

#[test]
fn impossible_memories_are_refused_by_their_key_in_one_line() {
    let cases = [
        ("", "modules = 0", "nodes[0].memories[0].modules"),
        (
            "",
            "granularity_bytes = 100",
            "nodes[0].memories[0].granularity_bytes",
        ),
        (
            "",
            "directory_write_share = nan",
            "nodes[0].memories[0].directory_write_share",
        ),
        (
            "",
            "remote_latency_factor = 0.5",
            "nodes[0].memories[0].remote_latency_factor",
        ),
        (
            "",
            "remote_read_bandwidth_factor = 0.0",
            "nodes[0].memories[0].remote_read_bandwidth_factor",
        ),
        (
            "",
            "read_curve = [[4, 1.0], [2, 1.0]]",
            "nodes[0].memories[0].read_curve[1]",
        ),
        (
            "",
            "read_lines_in_flight = 0",
            "nodes[0].memories[0].read_lines_in_flight",
        ),
        ("socket_queue_lines = 0", "", "nodes[0].socket_queue_lines"),
        (
            "[nodes.cache]\nbytes = 1\nlatency_ns = 1.0\nread_bytes_s = 0.0",
            "",
            "nodes[0].cache.read_bytes_s",
        ),
        (
            "[[nodes.controllers]]\nid = 3\nqueue_lines = 57",
            "",
            "nodes[0].controllers[0].id",
        ),
        (
            "[[nodes.controllers]]\nid = 0\nqueue_lines = 57\n[[nodes.controllers]]\nid = 0\nqueue_lines = 57",
            "",
            "nodes[0].controllers[1].id",
        ),
        ("", "speed = 1.0", "speed"),
    ];
    for (node, memory, key) in cases {
        let line = refusal(node, memory);
        assert!(line.contains(key), "{key} in {line}");
    }
}

#[test]
fn pool_bandwidth_is_kept_and_checked() {
    let table = |write: &str| {
        format!("[nodes.pool_bandwidth]\nread_bytes_s = 6.8e9\nwrite_bytes_s = {write}\n")
    };
    let machine = read(&text("", &table("2.25e9"))).unwrap();
    assert_eq!(read(&machine.to_toml()).unwrap(), machine);
    let pool = machine.nodes[0].pool_bandwidth.as_ref().unwrap();
    assert_eq!((pool.read_bytes_s, pool.write_bytes_s), (6.8e9, 2.25e9));
    let curves = "2.25e9\nread_curve = [[4, 1.0], [8, 0.5]]\nmix_curve = [[0.5, 0.8]]";
    let machine = read(&text("", &table(curves))).unwrap();
    assert_eq!(read(&machine.to_toml()).unwrap(), machine);
    let pool = machine.nodes[0].pool_bandwidth.as_ref().unwrap();
    assert_eq!(pool.read_curve, [(4, 1.0), (8, 0.5)]);
    assert!(pool.is_valid());
    let line = refusal("", &table("2.25e9\nwrite_curve = [[8, 0.5], [4, 1.0]]"));
    assert!(line.contains("pool_bandwidth.write_curve[1]"), "{line}");
    let line = refusal("", &table("-1.0"));
    assert!(
        line.contains("nodes[0].pool_bandwidth.write_bytes_s"),
        "{line}"
    );
}

#[test]
fn too_many_memories_are_refused() {
    let nine = format!("[[nodes.memories]]\nkind = \"expander\"\n{SPEEDS}").repeat(8);
    assert!(refusal("", &nine).contains("nodes[0].memories: 9"));
}

#[test]
fn an_emulated_node_says_its_medium_once() {
    let emulated = Machine::profile("optane-2s").unwrap().to_toml();
    let second = emulated.replacen(
        "[nodes.emulated]",
        "[nodes.cache]\nbytes = 1\nlatency_ns = 1.0\nread_bytes_s = 1e9\n[nodes.emulated]",
        1,
    );
    let line = read(&second).unwrap_err().to_string();
    assert!(line.contains("nodes[0].cache"), "{line}");
    let mut machine = read(&emulated).unwrap();
    let dram = read(&text("", "")).unwrap().nodes[0].hardware.clone();
    machine.nodes[0].hardware = dram;
    assert_eq!(
        read(&machine.to_toml()).unwrap().nodes[0]
            .hardware
            .memories
            .len(),
        1
    );
    machine.nodes[0].hardware.memories[0].kind = MemoryKind::Persistent;
    let line = read(&machine.to_toml()).unwrap_err().to_string();
    assert!(line.contains("nodes[0].memories[0].kind"), "{line}");
}
