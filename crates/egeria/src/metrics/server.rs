//! HTTP for one page. Whoever asks is not trusted: little is read of him, and not for long.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use super::Address;
use egeria_cli::failure::{Failure, Outcome, reason};

const MAX_REQUEST_BYTES: usize = 8192;
const MAX_HEADERS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 8;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

type Shared = Arc<Mutex<Option<Registry>>>;

/// Answers until it is dropped.
pub struct Server {
    registry: Shared,
    socket: Option<PathBuf>,
}

impl Server {
    /// Takes the address and answers from now on.
    ///
    /// # Errors
    /// An address that is taken or may not be used.
    pub fn start(address: &Address, metrics: Box<dyn Collector>) -> Outcome<Server> {
        let mut registry = Registry::with_prefix("egeria");
        registry.register_collector(metrics);
        let registry = Arc::new(Mutex::new(Some(registry)));
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "somebody uses it; choose another",
                _ => "choose another, or leave --metrics out",
            };
            Failure::new(format!(
                "cannot serve metrics on {address}: {}; {hint}",
                reason(&error)
            ))
        };
        let shared = Arc::clone(&registry);
        let socket = match address {
            Address::Port(port) => {
                let listener = TcpListener::bind(port).map_err(failed)?;
                let accept = move || {
                    listener
                        .accept()
                        .map(|(stream, _)| Connection::Port(stream))
                };
                listen(accept, shared).map_err(failed)?;
                None
            }
            Address::Socket(path) => {
                let listener = bind(path).map_err(failed)?;
                let accept = move || {
                    listener
                        .accept()
                        .map(|(stream, _)| Connection::Socket(stream))
                };
                listen(accept, shared).map_err(failed)?;
                Some(path.clone())
            }
        };
        Ok(Server { registry, socket })
    }
}

impl Drop for Server {
    /// What is being collected is finished first: it holds the volume.
    fn drop(&mut self) {
        locked(&self.registry).take();
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn locked(registry: &Shared) -> MutexGuard<'_, Option<Registry>> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket that its user alone may use. One that a dead process left is taken away.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let left = is_socket.then(|| UnixStream::connect(path).err()).flatten();
    if left.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

enum Connection {
    Port(TcpStream),
    Socket(UnixStream),
}

fn listen(
    accept: impl Fn() -> io::Result<Connection> + Send + 'static,
    registry: Shared,
) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let body = move || {
        loop {
            let Ok(connection) = accept() else {
                // No descriptor is free, for instance: that passes.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if locked(&registry).is_none() {
                return;
            }
            let place = Place(Arc::clone(&open));
            if place.0.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                continue;
            }
            let registry = Arc::clone(&registry);
            let builder = std::thread::Builder::new().name("metrics-answer".to_owned());
            let _ = builder.spawn(move || {
                let _place = place;
                let _ = match connection {
                    Connection::Port(stream) => answer(
                        stream,
                        TcpStream::set_read_timeout,
                        TcpStream::set_write_timeout,
                        true,
                        &registry,
                    ),
                    Connection::Socket(stream) => answer(
                        stream,
                        UnixStream::set_read_timeout,
                        UnixStream::set_write_timeout,
                        false,
                        &registry,
                    ),
                };
            });
        }
    };
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(body)?;
    Ok(())
}

/// One of the connections that may be open at once.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Limit<S> = fn(&S, Option<Duration>) -> io::Result<()>;

fn answer<S: Read + Write>(
    mut stream: S,
    read: Limit<S>,
    write: Limit<S>,
    checks_host: bool,
    registry: &Shared,
) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    write(&stream, Some(PATIENCE))?;
    let mut request = Vec::new();
    let asked = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() >= MAX_REQUEST_BYTES {
            break Asked::Nonsense;
        }
        read(&stream, Some(left))?;
        let mut room = [0; 1024];
        let length = stream.read(&mut room)?;
        if length == 0 {
            return Ok(());
        }
        request.extend_from_slice(&room[..length]);
        if let Some(asked) = understood(&request, checks_host) {
            break asked;
        }
    };
    stream.write_all(response(&asked, registry).as_bytes())
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics { open_metrics: bool },
    Elsewhere,
    ToChange,
    ForgedHost,
    Nonsense,
}

/// What a request asks for, once it is whole.
fn understood(bytes: &[u8], checks_host: bool) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::Nonsense),
    }
    let values = |name: &str| {
        let named = request
            .headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(name));
        named
            .map(|header| String::from_utf8_lossy(header.value))
            .collect::<Vec<_>>()
    };
    let hosts = values("host");
    if checks_host && !matches!(&hosts[..], [host] if is_loopback(host)) {
        return Some(Asked::ForgedHost);
    }
    Some(match (request.method, request.path) {
        (Some("GET"), Some("/metrics")) => Asked::Metrics {
            open_metrics: values("accept")
                .iter()
                .any(|accept| accept.contains("application/openmetrics-text")),
        },
        (Some("GET"), _) => Asked::Elsewhere,
        _ => Asked::ToChange,
    })
}

/// A page of a web site that had its name lead here would have another host.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn response(asked: &Asked, registry: &Shared) -> String {
    let (status, kind, body) = match asked {
        Asked::Metrics { open_metrics } => match collected(registry) {
            Some(text) if *open_metrics => ("200 OK", OPEN_METRICS, text),
            Some(text) => ("200 OK", PLAIN, plain(&text)),
            None => ("503 Service Unavailable", PLAIN, "it ends\n".to_owned()),
        },
        Asked::Elsewhere => ("404 Not Found", PLAIN, "see /metrics\n".to_owned()),
        Asked::ToChange => ("405 Method Not Allowed", PLAIN, "only GET\n".to_owned()),
        Asked::ForgedHost => ("403 Forbidden", PLAIN, "ask for localhost\n".to_owned()),
        Asked::Nonsense => (
            "400 Bad Request",
            PLAIN,
            "no request of HTTP/1.1\n".to_owned(),
        ),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn collected(registry: &Shared) -> Option<String> {
    let mut text = String::new();
    let registry = locked(registry);
    prometheus_client::encoding::text::encode(&mut text, registry.as_ref()?).ok()?;
    Some(text)
}

/// The older text format, where a counter's family has the name of its values, and an empty family is no family.
fn plain(open_metrics: &str) -> String {
    let lines = open_metrics.lines();
    let counters: Vec<&str> = lines
        .clone()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::new();
    for line in lines.filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let head = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|head| Some((head, line.strip_prefix(head)?)));
        let named = head.and_then(|(head, rest)| Some((head, rest.split_once(' ')?)));
        match named {
            Some((head, (name, rest))) if counters.contains(&name) => {
                text.push_str(&format!("{head}{name}_total {rest}"))
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_of_this_machine_are_answered() {
        let asked = |host: &str| {
            understood(
                format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(),
                true,
            )
        };
        for own in [
            "localhost",
            "localhost:9464",
            "127.0.0.1:9464",
            "[::1]:9464",
        ] {
            assert_eq!(
                asked(own),
                Some(Asked::Metrics {
                    open_metrics: false
                }),
                "{own}"
            );
        }
        for forged in [
            "evil.example",
            "evil.example:9464",
            "localhost.evil.example",
            "192.0.2.1",
            "",
        ] {
            assert_eq!(asked(forged), Some(Asked::ForgedHost), "{forged}");
        }
        assert_eq!(
            understood(b"GET /metrics HTTP/1.1\r\n\r\n", true),
            Some(Asked::ForgedHost)
        );
        assert_eq!(
            understood(b"GET /metrics HTTP/1.1\r\nHost: local", true),
            None
        );
        assert_eq!(understood(b"\0\0 \r\n\r\n", true), Some(Asked::Nonsense));
        assert_eq!(
            understood(b"POST /metrics HTTP/1.1\r\n\r\n", false),
            Some(Asked::ToChange)
        );
    }
}
