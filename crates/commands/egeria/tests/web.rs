//! `egeria web`: its page and documents, who may ask, and the page in a browser.

use crate::browser;
use crate::common;
use crate::decisions;
use egeria_harness::testing::{has_numa_maps, skip};

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use browser::Browser;
use common::{Background, Sandbox, can_mount, egeria, eventually, kill, run};
use decisions::*;
use egeria_machine::NodeId;
use egeria_steward::{NodeRecord, ThreadRecord, WindowRecord};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::process::Signal;
use serde_json::Value;

/// Ends with this test.
struct Web {
    process: Background,
    address: String,
}

fn web<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Web {
    let mut command = egeria(["web", "--json", "--listen", "127.0.0.1:0"]);
    command.args(arguments).stdout(Stdio::piped());
    let mut process = Background(command.spawn().unwrap());
    let output = process.0.stdout.take().unwrap();
    let mut documents = serde_json::Deserializer::from_reader(output).into_iter::<Value>();
    let document = documents.next().expect("an address").unwrap();
    let url = document["address"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    Web {
        process,
        address: address.to_owned(),
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The page has drawn a window.
const HAS_DRAWN: &str = "document.documentElement?.dataset.frameMs !== undefined";

impl Web {
    /// The page in a browser; `None` where there is none.
    fn ask(&self, first_line: &str, host: &str) -> String {
        let request = format!("{first_line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        exchange(TcpStream::connect(&self.address).unwrap(), &request)
    }

    #[track_caller]
    fn page(&self, path: &str) -> String {
        let answer = self.ask(&format!("GET {path}"), &self.address);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    #[track_caller]
    fn document(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path)).unwrap()
    }
}

/// Writes a file over and over until it is dropped.
struct Load(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Load {
    fn on(file: fs::File) -> Load {
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let body = move || {
            let data = vec![7; 1 << 20];
            while !stop.load(Ordering::Relaxed) {
                file.write_all_at(&data, 0).unwrap();
            }
        };
        let thread = std::thread::Builder::new().name("writer-of-test".to_owned());
        Load(ended, Some(thread.spawn(body).unwrap()))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// `None`, loudly, where Chromium is not installed.
fn in_browser(web: &Web, sandbox: &Sandbox) -> Option<Browser> {
    let url = format!("http://{}/", web.address);
    Browser::open(&url, &sandbox.directory("browser"))
}

#[test]
fn the_page_shows_who_uses_a_mounted_volume() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let mut mount = egeria(["mount", "--foreground"]);
    let mut mount = Background::start(mount.arg(&pool).arg(&directory));
    eventually("the mount answers", || {
        common::mounts().contains(&directory)
    });
    let load = Load::on(fs::File::create(directory.join("file")).unwrap());
    let mut web = web([
        OsStr::new("--window"),
        OsStr::new("100"),
        directory.as_os_str(),
    ]);
    let mut state = Value::Null;
    eventually("a window has our thread", || {
        state = web.document("/state");
        let threads = state["threads"].as_array().unwrap().iter();
        let mut ours = threads.filter(|row| row["thread"]["process_id"] == std::process::id());
        ours.any(|row| row["written_bytes_s"].as_f64() > Some(0.0))
    });
    assert!(
        state["nodes"][0]["written_bytes_s"].as_f64() > Some(0.0),
        "{state}"
    );
    assert!(state["flows"][0]["bytes_s"].as_f64() > Some(0.0), "{state}");
    assert_eq!(state["flows"][0]["to"], 0);
    let now_ns = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as f64;
    let history = web.document("/history");
    let last = history.as_array().unwrap().last().unwrap();
    let age_ns = now_ns - last["time_unix_ns"].as_f64().unwrap();
    assert!(age_ns.abs() < 600e9, "{last}");
    if let Some(mut browser) = in_browser(&web, &sandbox) {
        browser.wait_for(HAS_DRAWN);
        let dom = browser.document();
        assert!(dom.contains("writer-of-test"), "{dom}");
        assert!(dom.contains("node 0"), "{dom}");
        assert!(!dom.contains("does not answer"), "{dom}");
    }
    drop(load);
    kill(web.process.id(), Signal::INT);
    assert!(web.process.0.wait().unwrap().success());
    kill(mount.id(), Signal::TERM);
    assert!(mount.0.wait().unwrap().success());
}

#[test]
fn the_page_shows_what_a_steward_did() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let web = web([OsStr::new("--log"), log.as_os_str()]);
    let state = web.document("/state");
    assert_eq!(state["steward"]["state"], "working");
    assert_eq!(state["threads"][0]["thread"]["process_id"], 4700);
    assert_eq!(
        state["last_actions"][0]["action"]["reason"]["kind"],
        "remote_reads"
    );
    let history = web.document("/history");
    let points = history.as_array().unwrap().iter();
    let actions: u64 = points.map(|point| point["actions"].as_u64().unwrap()).sum();
    assert!(actions > 0, "{history}");
    if let Some(mut browser) = in_browser(&web, &sandbox) {
        browser.wait_for(HAS_DRAWN);
        let dom = browser.document();
        assert!(
            dom.contains("thread 4711 (fio) of process 4700 went from node 1 to node 0"),
            "{dom}"
        );
        assert!(dom.contains("fio 4700/4712"), "{dom}");
    }
    // A steward that begins anew is followed.
    let later = vec![start(std::process::id())];
    fs::remove_file(&log).unwrap();
    write(&log, &later);
    eventually("the new log is shown", || {
        web.document("/state")["window"].is_null()
    });
}

/// A window of 100 nodes, and of 10,000 threads that each use a node of their own and the next one.
fn wide_window() -> WindowRecord {
    const NODES: u16 = 100;
    const THREADS: u32 = 10_000;
    let mut wide = window(1);
    let node = |node| NodeRecord {
        node: NodeId(node),
        threads: THREADS / u32::from(NODES),
        ..wide.nodes[0]
    };
    wide.nodes = (0..NODES).map(node).collect();
    let thread = |number: u32| {
        let own = (number % u32::from(NODES)) as usize;
        let mut read_bytes_s = vec![0.0; usize::from(NODES)];
        read_bytes_s[own] = 1e6 * f64::from(number);
        read_bytes_s[(own + 1) % usize::from(NODES)] = 1e5 * f64::from(number);
        ThreadRecord {
            written_bytes_s: vec![0.0; usize::from(NODES)],
            read_bytes_s,
            ..reads(number, own as u16, [0.0, 0.0])
        }
    };
    wide.threads = (1..=THREADS).map(thread).collect();
    wide
}

#[test]
fn many_nodes_keys_alone_and_narrow_screens_work() {
    let sandbox = Sandbox::new();
    let records = [start(std::process::id()), record(wide_window())];
    let log = write(&sandbox.path("log"), &records);
    let web = web([OsStr::new("--log"), log.as_os_str()]);
    let Some(mut browser) = in_browser(&web, &sandbox) else {
        return;
    };
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    let rows = "document.querySelectorAll('#rows tr').length";
    browser.resize(1280, 900);
    browser.wait_for(HAS_DRAWN);
    assert_eq!(
        browser.value("document.querySelectorAll('.node').length"),
        100
    );
    assert_eq!(browser.value(rows), 200, "a bounded number of rows");
    let past_is_hidden = "document.getElementById('past').hidden";
    assert_eq!(browser.value(past_is_hidden), true, "one point is no line");
    assert_eq!(browser.value(fits), true);
    eprintln!(
        "a frame takes {} ms",
        browser.value("document.documentElement.dataset.frameMs")
    );
    browser.keep_picture("wide");

    // Tab reaches the link past the nodes, then the first node; Enter shows its threads, and again all.
    let focus =
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.className";
    browser.press("Tab", 9);
    assert_eq!(browser.value(focus), "skip");
    browser.press("Tab", 9);
    browser.wait_for(&format!("({focus}).startsWith('node 0:')"));
    browser.press("Enter", 13);
    assert_eq!(
        browser.value("document.getElementById('of-node').value"),
        "0"
    );
    let of_node_0 = "[...document.querySelectorAll('#rows tr')].every((row) => row.children[1].textContent === '0')";
    browser.wait_for(of_node_0);
    assert_eq!(
        browser.value("document.activeElement.getAttribute('aria-pressed')"),
        "true"
    );
    browser.press("Enter", 13);
    assert_eq!(browser.value(rows), 200);

    // On a telephone the page itself does not scroll sideways, and what does can be reached by keyboard.
    browser.resize(360, 800);
    browser.wait_for("innerWidth === 360");
    assert_eq!(browser.value(fits), true);
    let out_of_reach = "[...document.querySelectorAll('*')].filter((node) =>
        /auto|scroll/.test(getComputedStyle(node).overflowX + getComputedStyle(node).overflowY)
        && (node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight)
        && node.tabIndex < 0 && node.querySelector('[tabindex=\"0\"], a, button') === null
        && node !== document.documentElement).map((node) => node.id || node.className).join()";
    assert_eq!(browser.value(out_of_reach), "");
    browser.keep_picture("narrow");
}

#[test]
fn the_page_shows_programs_on_any_file_system_and_their_files() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    let script = "while :; do exec 0<\"$FILE\"; while read -r -N 65536 data; do :; done; done";
    let mut reader = Command::new("bash");
    let reader = Background::start(reader.args(["-c", script]).env("FILE", &file));
    let process = reader.id().to_string();
    let web = web(["--window", "200", "--pid", &process]);
    let mut state = Value::Null;
    eventually("a window has its bytes", || {
        state = web.document("/state");
        let is_counted = state["estimate"]
            .as_str()
            .is_some_and(|estimate| estimate.starts_with("counted"));
        let mut rows = if is_counted {
            state["files"].as_array().into_iter().flatten()
        } else {
            state["threads"].as_array().into_iter().flatten()
        };
        let read = |row: &Value, field: &str| row[field].as_f64() > Some(0.0);
        rows.any(|row| {
            if is_counted {
                let is_ours = row["path"].as_str() == file.to_str();
                is_ours && (read(row, "local_read_bytes_s") || read(row, "remote_read_bytes_s"))
            } else {
                read(row, "read_bytes_s")
            }
        })
    });
    if state["files"].is_null() {
        skip(format_args!(
            "files are not counted here: {}",
            state["estimate"]
        ));
    } else if let Some(mut browser) = in_browser(&web, &sandbox) {
        browser.wait_for(HAS_DRAWN);
        let dom = browser.document();
        assert!(dom.contains("Read locally/s"), "{dom}");
    }
}

#[test]
fn a_program_that_only_computes_is_on_the_page() {
    let sandbox = Sandbox::new();
    let busy = Background::start(
        Command::new("perl").args(["-e", "my $h = 'x' x (16 << 20); for (;;) {}"]),
    );
    let web = web(["--window", "200", "--pid", &busy.id().to_string()]);
    let mut state = Value::Null;
    eventually("a window has the program", || {
        state = web.document("/state");
        state["programs"][0]["cpu_share"].as_f64() > Some(0.0)
    });
    let program = &state["programs"][0];
    assert_eq!(program["process_id"], busy.id());
    if has_numa_maps() {
        assert!(
            program["heap"]["bytes"].as_u64().unwrap() >= 16 << 20,
            "{program}"
        );
    }
    let points = web.document("/history");
    assert!(points[0]["cpu_share"].as_f64() > Some(0.0), "{points}");
    if let Some(mut browser) = in_browser(&web, &sandbox) {
        browser.wait_for(HAS_DRAWN);
        let dom = browser.document();
        assert!(dom.contains("of-cpu"), "{dom}");
        assert!(dom.contains(&format!("perl {}", busy.id())), "{dom}");
    }
}

/// Events that show that somebody opened or closed a file.
fn watch(path: &Path) -> OwnedFd {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let opened = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&queue, path, opened).unwrap();
    queue
}

#[test]
fn looking_at_files_in_use_is_not_seen_by_their_watchers() {
    let sandbox = Sandbox::new();
    let (pool, mount) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let mut places = vec![sandbox.path("file")];
    if can_mount() {
        run(["mount".as_ref(), pool.as_os_str(), mount.as_os_str()]).ok();
        places.push(mount.join("file"));
    }
    for path in &places {
        let mut options = fs::File::options();
        let file = options.read(true).write(true).create(true).open(path);
        let _load = Load::on(file.unwrap());
        let watched = watch(path);
        let web = web(["--window", "100", "--all"]);
        let mut windows = Vec::new();
        eventually("several windows have been looked at", || {
            let shown = web.document("/state")["window"].clone();
            if !shown.is_null() && !windows.contains(&shown) {
                windows.push(shown);
            }
            windows.len() > 5
        });
        let own = std::process::id().to_string();
        run(["where", "--observe", "1", &own]).ok();
        let mut events = [0; 4096];
        let seen = rustix::io::read(&watched, &mut events);
        assert_eq!(seen, Err(rustix::io::Errno::AGAIN), "{path:?}: {events:x?}");
    }
    if can_mount() {
        run(["umount".as_ref(), mount.as_os_str()]).ok();
    }
}

#[test]
fn nothing_comes_from_elsewhere_and_nobody_else_may_ask() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let web = web([OsStr::new("--log"), log.as_os_str()]);
    for path in ["/", "/page.css", "/page.js"] {
        let page = web
            .page(path)
            .replace("http://www.w3.org/2000/svg", "name of a language");
        for foreign in ["http://", "https://", "url(", "@import", "import("] {
            assert!(!page.contains(foreign), "{path} has {foreign}");
        }
    }
    let page = web.ask("GET /", "localhost");
    assert!(
        page.contains("Content-Security-Policy: default-src 'none'"),
        "{page}"
    );
    let refused = |line: &str, host: &str, status: &str| {
        let answer = web.ask(line, host);
        assert!(answer.starts_with(status), "{line}: {answer}");
        assert!(!answer.contains("fio"), "{answer}");
    };
    refused("GET /state", "evil.example", "HTTP/1.1 403 ");
    refused("GET /state", "evil.example:9466", "HTTP/1.1 403 ");
    refused("POST /state", "localhost", "HTTP/1.1 405 ");
    refused("GET /../../etc/passwd", "localhost", "HTTP/1.1 404 ");

    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = port.local_addr().unwrap().to_string();
    let arguments = |address: &str| {
        run([
            OsStr::new("web"),
            OsStr::new("--listen"),
            OsStr::new(address),
            OsStr::new("--log"),
            log.as_os_str(),
        ])
    };
    arguments(&taken).refused(1, &["cannot serve the page on", "choose another"]);
    arguments("0.0.0.0:9466").refused(2, &["other machines reach"]);
    arguments("here").refused(2, &["no port and no path"]);
    run(["web", "--all", "--log", "/log"]).refused(2, &["--log", "--all"]);
    run(["web", "--log", "/nowhere"]).refused(1, &["/nowhere"]);
}

#[test]
fn silent_clients_keep_nobody_out() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let web = web([OsStr::new("--log"), log.as_os_str()]);
    let connect = || TcpStream::connect(&web.address).unwrap();
    // Some say nothing, some half of a request, and some ask and take no answer.
    let parts: [&[u8]; 3] = [
        b"",
        b"GET /sta",
        b"GET /history HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    let silent: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = connect();
            stream.write_all(parts[number % parts.len()]).unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert!(web.document("/state").is_object());
    }
    drop(silent);
}

#[test]
fn a_socket_is_its_user_s_and_goes_at_the_end() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let socket = sandbox.path("web");
    let mut command = egeria(["web", "--listen"]);
    command.arg(&socket).arg("--log").arg(&log);
    let mut web = Background::start(command.stdout(Stdio::null()));
    let mut answer = String::new();
    eventually("the socket answers", || {
        let Ok(stream) = UnixStream::connect(&socket) else {
            return false;
        };
        answer = exchange(stream, "GET /state HTTP/1.1\r\nHost: any\r\n\r\n");
        true
    });
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    kill(web.id(), Signal::TERM);
    assert!(web.0.wait().unwrap().success());
    assert!(!socket.exists());
}
