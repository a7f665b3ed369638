//! The rules and the dashboard that are shipped, with the Prometheus that Debian packages: it scrapes a mount and a steward.

use crate::common;
use egeria_harness::testing::skip;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Background, Sandbox, can_mount, egeria, eventually, kill, run};
use rustix::process::Signal;
use serde_json::Value;

fn packaging() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../packaging")
}

fn rules() -> PathBuf {
    packaging().join("prometheus/egeria-rules.yml")
}

/// Whether the program is here; says so loudly when not.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        skip(format_args!(
            "{program} is missing; apt-get install prometheus"
        ));
    }
    found
}

/// What every panel of the dashboard asks, with its variables filled in.
fn dashboard_queries() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(query)) = fields.get("expr") {
                    found.push(query.clone());
                }
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(packaging().join("grafana/egeria.json")).unwrap();
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text).unwrap(), &mut found);
    let filled = found.iter().map(|query| {
        query
            .replace("$__rate_interval", "1m")
            .replace("$volume", ".*")
    });
    filled.collect()
}

/// Names of our metrics in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("egeria_"))
}

/// The names of all values that the text of a scrape may have.
fn served(text: &str) -> Vec<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.flat_map(|line| match line.split_once(' ') {
        Some((name, "histogram")) => ["_bucket", "_sum", "_count"]
            .map(|part| format!("{name}{part}"))
            .to_vec(),
        Some((name, _)) => vec![name.to_owned()],
        None => Vec::new(),
    });
    names.collect()
}

/// The body of an answer.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines()
        .next()?
        .contains(" 200 ")
        .then(|| body.to_owned())
}

/// An address of the loopback that nobody else is likely to take: our own, out of its sixteen million.
fn own_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 1 + high % 200, middle, low);
    TcpListener::bind((own, 0)).unwrap().local_addr().unwrap()
}

/// Prometheus at work.
struct Prometheus {
    address: SocketAddr,
    _process: Background,
}

impl Prometheus {
    fn start(sandbox: &Sandbox, targets: &[SocketAddr]) -> Prometheus {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let settings = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: [{:?}]\n\
             scrape_configs: [{{job_name: egeria, static_configs: [{{targets: {targets:?}}}]}}]\n",
            rules().canonicalize().unwrap()
        );
        let settings = sandbox.file("prometheus.yml", &settings);
        let address = own_address();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--web.listen-address={address}"))
            .arg(format!(
                "--storage.tsdb.path={}",
                sandbox.directory("prometheus").display()
            ));
        let prometheus = Prometheus {
            address,
            _process: Background::start(&mut command),
        };
        eventually("Prometheus answers", || get(address, "/-/ready").is_some());
        prometheus
    }

    fn ask(&self, path: &str) -> Value {
        let answer = get(self.address, path).unwrap_or_else(|| panic!("{path} was refused"));
        serde_json::from_str(&answer).unwrap()
    }

    /// The values of a query; Prometheus refuses what is none.
    fn query(&self, query: &str) -> Vec<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.ask(&format!("/api/v1/query?query={encoded}"));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let values = answer["data"]["result"].as_array().unwrap().iter();
        let values = values.map(|value| value["value"][1].as_str().unwrap().parse().unwrap());
        values.collect()
    }

    fn sum(&self, metric: &str) -> f64 {
        self.query(metric).iter().sum()
    }
}

/// A file whose data is damaged, in a volume that is not mounted.
fn damaged(sandbox: &Sandbox, pool: &Path, directory: &Path) -> PathBuf {
    run(["mount".as_ref(), pool.as_os_str(), directory.as_os_str()]).ok();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(directory, "user.egeria.checksum", b"crc32c", flags).unwrap();
    let bytes = b"bytes that are nowhere else".repeat(10);
    let file = directory.join("damaged");
    fs::write(&file, &bytes).unwrap();
    run(["umount".as_ref(), directory.as_os_str()]).ok();
    let found = ["v.0", "v.1"].map(|pool| common::damage(&sandbox.path(pool), &bytes));
    assert!(found.contains(&true));
    file
}

#[test]
fn prometheus_scrapes_and_alerts_of_damage() {
    if !can_mount() || !has("prometheus") {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let file = damaged(&sandbox, &pool, &directory);
    let [of_mount, of_steward] = [own_address(), own_address()];
    let mut mount = egeria(["mount", "--foreground", "--metrics", &of_mount.to_string()]);
    let mut mount = Background::start(mount.arg(&pool).arg(&directory));
    eventually("the mount answers", || {
        common::mounts().contains(&directory)
    });
    let mut steward = egeria(["steward", "--window", "20", "--metrics"]);
    steward.arg(of_steward.to_string()).arg(&pool);
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background::start(&mut steward);
    eventually("the steward answers", || {
        get(of_steward, "/metrics").is_some()
    });

    let texts = [of_mount, of_steward].map(|address| get(address, "/metrics").unwrap());
    let served: Vec<String> = texts.iter().flat_map(|text| served(text)).collect();
    let queries = dashboard_queries();
    assert!(queries.len() > 20, "{queries:?}");
    let alerts = fs::read_to_string(rules()).unwrap();
    for text in queries.iter().chain([&alerts]) {
        for name in names(text) {
            assert!(served.iter().any(|served| served == name), "{name}: {text}");
        }
    }

    let prometheus = Prometheus::start(&sandbox, &[of_mount, of_steward]);
    eventually("both are scraped", || prometheus.sum("up") == 2.0);
    eventually("no damage is known yet", || {
        prometheus.query("sum(egeria_mount_errors_total)") == [0.0]
    });
    fs::write(directory.join("written"), vec![7; 1 << 20]).unwrap();
    let opened = fs::File::open(&file).unwrap();
    assert!(opened.read_at(&mut [0; 100], 0).is_err());
    drop(opened);
    eventually("what was written is counted", || {
        prometheus.sum("egeria_written_bytes_total") >= f64::from(1 << 20)
    });
    for query in &queries {
        prometheus.query(query);
    }
    let latency =
        "histogram_quantile(0.99, sum by (le) (egeria_mount_request_duration_seconds_bucket))";
    assert!(prometheus.sum(latency) > 0.0);
    eventually("damage is an alert", || {
        let alerts = prometheus.ask("/api/v1/alerts");
        let alerts = alerts["data"]["alerts"].as_array().unwrap().clone();
        let mut damage = alerts.iter();
        damage.any(|alert| {
            alert["labels"]["alertname"] == "EgeriaDamage" && alert["state"] == "firing"
        })
    });
    eventually("all rules are evaluated", || {
        let groups = prometheus.ask("/api/v1/rules");
        let rules = groups["data"]["groups"][0]["rules"].as_array().unwrap();
        rules.len() == alerts.matches("alert:").count()
            && rules.iter().all(|rule| rule["health"] == "ok")
    });

    drop(prometheus);
    for process in [&mut steward, &mut mount] {
        kill(process.id(), Signal::TERM);
        assert!(process.0.wait().unwrap().success());
    }
}

#[test]
fn promtool_takes_the_rules() {
    if !has("promtool") {
        return;
    }
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(rules())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.status.success() && !said.contains("duplicate"),
        "{said}"
    );
}
