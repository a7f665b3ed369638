//! Frames drawn on ratatui's test back end.

use egeria_facts::ThreadKey;
use egeria_machine::NodeId;
use egeria_policy::{Action, ActionOutcome, ActionRecord, Move, Reason};
use egeria_steward::{ActionLine, NodeRecord, ThreadRecord, WindowRecord};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::widgets::TableState;

use super::draw::{Keys, draw};
use super::rows::Sort;
use super::view::{Label, View};

fn key(thread_id: u32) -> ThreadKey {
    ThreadKey {
        process_id: 4700,
        thread_id,
        start_ticks: 1,
    }
}

fn node(node: u16, read_bytes_s: f64, written_bytes_s: f64, cpu_share: f64) -> NodeRecord {
    NodeRecord {
        node: NodeId(node),
        read_bytes_s,
        written_bytes_s,
        pm_bytes_s: 0.0,
        pm_maximum_bytes_s: Some(2e9),
        cpu_share,
        threads: 2,
    }
}

fn thread(thread_id: u32, node: u16, read_bytes_s: [f64; 2]) -> ThreadRecord {
    ThreadRecord {
        thread: key(thread_id),
        name: "fio".to_owned(),
        node: NodeId(node),
        read_bytes_s: read_bytes_s.to_vec(),
        written_bytes_s: vec![0.0, 1e8],
        cpu_share: 0.5,
        is_shared: thread_id == 4712,
    }
}

fn window() -> WindowRecord {
    let reason = Reason::RemoteReads {
        target: NodeId(0),
        target_bytes_s: 1.2e9,
        next_bytes_s: 0.0,
        margin_bytes_s: 2e8,
    };
    WindowRecord {
        number: 3,
        start_ns: 12_200_000_000,
        duration_ns: 100_000_000,
        time_unix_ns: u64::MAX,
        local_share: Some(0.75),
        nodes: vec![node(0, 1.5e9, 0.5e9, 0.5), node(1, 0.0, 0.001e9, 0.0)],
        threads: vec![
            thread(4711, 0, [1.2e9, 0.0]),
            thread(4712, 1, [9e8, 0.0]),
            thread(4713, 1, [0.0, 3e9]),
        ],
        actions: vec![ActionLine {
            record: ActionRecord {
                action: Action::MigrateThread(Move {
                    thread: key(4711),
                    from: NodeId(1),
                    to: NodeId(0),
                    reason,
                }),
                expected: None,
                outcome: ActionOutcome::Done,
            },
            name: "fio".to_owned(),
            sentence: String::new(),
        }],
        ..WindowRecord::default()
    }
}

fn view(window: WindowRecord) -> View {
    let mut view = View::of_window(Label {
        machine: Some("optane-2s".to_owned()),
        emulated: true,
        policy: Some("full".to_owned()),
        window_ns: Some(100_000_000),
        ..Label::default()
    });
    view.add(window);
    view
}

fn keys(sort: Sort) -> Keys {
    Keys {
        sort,
        paused: false,
        table: TableState::new(),
    }
}

fn drawn(view: &View, keys: &mut Keys, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let frame = view.frame(keys.sort);
    terminal.draw(|area| draw(area, &frame, keys)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// All that matters is there at once, and nothing is cut.
#[test]
fn a_terminal_of_80x24_shows_everything() {
    let lines = drawn(&view(window()), &mut keys(Sort::Bytes), 80, 24);
    let expected = "
egeria top  optane-2s (emulated)  policy full  window 100 ms
at 12.300 s  local 75 %  threads 3  moves 1  no steward
node      read   written  memory in use                 CPUs             threads
   0 1.50 GB/s  500 MB/s  ██████▓▓▓▓▓···········  50 %  █████·····  50 %       2
   1     0 B/s 1.00 MB/s  ▓·····················   0 %  ··········   0 %       2

 thread process name           node local      read   written   CPU shared moves
   4713    4700 fio               1 100 % 3.00 GB/s  100 MB/s  50 %            0
   4711    4700 fio               0  92 % 1.20 GB/s  100 MB/s  50 %            1
   4712    4700 fio               1  10 %  900 MB/s  100 MB/s  50 % yes        0







last actions (`egeria explain` reports them in full, and why a thread stays)
 12.300 s 4711 fio 1→0 it reads 1.20 GB/s from node 0 and at most 0 B/s from any




q quit   s sort (bytes)   p pause   up/down scroll";
    assert_eq!(lines.join("\n"), expected.trim_start_matches('\n'));
}

#[test]
fn threads_come_in_the_order_asked_for() {
    let order = |sort: Sort| -> Vec<u32> {
        let rows = view(window()).frame(sort).threads;
        rows.iter().map(|row| row.thread.thread_id).collect()
    };
    assert_eq!(order(Sort::Bytes), [4713, 4711, 4712]);
    assert_eq!(order(Sort::Local), [4712, 4711, 4713]);
    assert_eq!(order(Sort::Moves), [4711, 4712, 4713]);
    assert_eq!(order(Sort::Thread), [4711, 4712, 4713]);
    let mut sort = Sort::Bytes;
    for _ in 0..5 {
        sort = sort.next();
    }
    assert_eq!(sort, Sort::Bytes);
}

#[test]
fn more_threads_than_lines_are_scrolled_to() {
    let mut many = window();
    many.threads = (1000..1500)
        .map(|id| thread(id, 0, [1e9 - f64::from(id), 0.0]))
        .collect();
    let mut keys = keys(Sort::Bytes);
    let view = view(many);
    let shows = |keys: &mut Keys, id: &str| {
        let lines = drawn(&view, keys, 80, 24);
        lines.iter().any(|line| line.trim_start().starts_with(id))
    };
    assert!(shows(&mut keys, "1000 ") && !shows(&mut keys, "1499 "));
    keys.table.select(Some(499));
    assert!(!shows(&mut keys, "1000 ") && shows(&mut keys, "1499 "));
}

#[test]
fn a_narrow_terminal_shows_fewer_columns_and_no_half_numbers() {
    let lines = drawn(&view(window()), &mut keys(Sort::Bytes), 60, 24);
    assert_eq!(
        lines[6],
        " thread process name           node local      read"
    );
    assert!(lines[7].ends_with("3.00 GB/s"), "{}", lines[7]);
}

#[test]
fn any_size_of_terminal_and_any_number_is_drawn() {
    let mut wild = window();
    wild.nodes = (0..300).map(|id| node(id, 1e300, -5.0, f64::MAX)).collect();
    wild.nodes[1].pm_maximum_bytes_s = None;
    wild.nodes[2].pm_maximum_bytes_s = Some(0.0);
    wild.threads[0].read_bytes_s = Vec::new();
    wild.threads[1].node = NodeId(u16::MAX);
    wild.threads[2].written_bytes_s = vec![f64::MAX; 9];
    wild.threads[2].name = "漢字".repeat(30);
    (wild.start_ns, wild.duration_ns) = (u64::MAX, u64::MAX);
    let view = view(wild);
    for (width, height) in [(80, 24), (1, 1), (3, 200), (200, 3), (40, 10), (300, 100)] {
        drawn(&view, &mut keys(Sort::Local), width, height);
    }
    assert!(!super::text::human(&view.frame(Sort::Cpu)).is_empty());
}

#[test]
fn a_bar_is_never_longer_than_its_place() {
    for (reads, writes) in [
        (0.0, 0.0),
        (1e9, 1e9),
        (9e9, 9e9),
        (-1.0, f64::NAN),
        (1.0, 0.0),
    ] {
        let row = super::rows::NodeRow::new(&node(0, reads, writes, 7.0), 1.0, 0.0);
        let [reads, writes] = row.memory_cells(20);
        assert!(reads + writes <= 20);
        assert_eq!(row.cpu_cells(10), 10);
    }
    let row = super::rows::NodeRow::new(&node(0, 1.5e9, 0.5e9, 0.5), 1.0 / 3.0, 0.0);
    assert_eq!(row.memory_cells(20), [5, 5]);
    assert_eq!(row.used_share(), Some(0.5));
}

#[test]
fn a_pause_is_seen() {
    let mut keys = keys(Sort::Bytes);
    keys.paused = true;
    let lines = drawn(&view(window()), &mut keys, 80, 24);
    assert!(lines[0].ends_with("PAUSED"), "{}", lines[0]);
    assert!(lines[23].contains("p go on"), "{}", lines[23]);
}

#[test]
fn processes_that_are_left_are_listed_with_the_reason() {
    use egeria_facts::ProcessKey;
    use egeria_policy::{KeptProcess, ProcessKept};
    use egeria_steward::KeptLine;
    let kept = KeptProcess {
        process: ProcessKey {
            process_id: 4700,
            start_ticks: 1,
        },
        remote_share: 0.98,
        accesses_s: 1e9,
        because: ProcessKept::Bound,
    };
    let mut view = View::of_window(Label::default());
    view.add(WindowRecord {
        kept_processes: vec![KeptLine::new(kept, "redis\u{1b}".to_owned())],
        ..window()
    });
    let frame = view.frame(Sort::Bytes);
    let text = super::text::human(&frame);
    let line = text.lines().last().unwrap();
    assert!(line.starts_with("Process 4700 (redis"), "{line}");
    assert!(
        line.contains("98 % of its accesses cross nodes: its owner bound"),
        "{line}"
    );
    assert!(!text.contains('\u{1b}'), "names come from others");
    let json = serde_json::to_value(&frame).unwrap();
    assert_eq!(json["kept_processes"][0]["because"]["kind"], "bound");
}

#[test]
fn short_lived_processes_have_a_row_for_each_parent() {
    use egeria_policy::KindFate;
    use egeria_steward::KindLine;
    let mut view = View::of_window(Label::default());
    view.add(WindowRecord {
        kinds: vec![KindLine {
            parent: ThreadKey {
                process_id: 4700,
                thread_id: 4700,
                start_ticks: 1,
            },
            name: "make".to_owned(),
            command: "cc1\u{1b}".to_owned(),
            seen: 12,
            node: Some(NodeId(1)),
            cpu_share: 1.5,
            read_bytes_s: 2e8,
            written_bytes_s: 0.0,
            local_share: Some(0.25),
            because: Some(KindFate::Bound { node: NodeId(1) }),
            sentence: String::new(),
        }],
        ..window()
    });
    let frame = view.frame(Sort::Bytes);
    let text = super::text::human(&frame);
    let row = text.lines().find(|line| line.contains(" make "));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(row[..2], ["4700", "make"]);
    assert_eq!(row[3..7], ["12", "25", "%", "200"]);
    let line = text.lines().last().unwrap();
    assert!(
        line.contains("of process 4700 (make) took 150 % of a CPU")
            && line.contains("may run on node 1 only"),
        "{line}"
    );
    assert!(!text.contains('\u{1b}'), "names come from others");
    let json = serde_json::to_value(&frame).unwrap();
    assert_eq!(json["kinds"][0]["because"]["kind"], "bound");
}
