//! Whoever asks is not trusted: little is read of him, and not for long.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Address;
use egeria_cli::failure::{Failure, Outcome, reason};

const MAX_REQUEST_BYTES: usize = 8192;
const MAX_HEADERS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 8;

/// What a browser must not do with a page: everything that is not named.
const RULES: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is served.
pub trait Site: Send + 'static {
    /// The page of this path; `None`: there is none.
    fn answer(&self, request: &Request<'_>) -> Option<Answer>;

    /// Where to look instead of a path that does not exist.
    fn hint(&self) -> &'static str;
}

/// A GET.
pub struct Request<'a> {
    /// Its path, without what follows a question mark.
    pub path: &'a str,
    /// Kinds that are accepted, as they were sent.
    pub accept: &'a str,
}

/// A page.
pub struct Answer {
    /// Its kind.
    pub kind: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

type Shared = Arc<Mutex<Option<Box<dyn Site>>>>;

/// Answers until it is dropped.
pub struct Server {
    site: Shared,
    address: Address,
}

impl Server {
    /// Takes the address and answers from now on.
    ///
    /// # Errors
    /// An address that is taken or may not be used.
    pub fn start(
        address: &Address,
        (what, option): (&str, &str),
        site: Box<dyn Site>,
    ) -> Outcome<Server> {
        let site = Arc::new(Mutex::new(Some(site)));
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "somebody uses it; choose another".to_owned(),
                io::ErrorKind::NotFound => {
                    "its directory is missing; make it, or choose another".to_owned()
                }
                _ => format!("choose another, or leave {option} out"),
            };
            Failure::new(format!(
                "cannot serve {what} on {address}: {}; {hint}",
                reason(&error)
            ))
        };
        let shared = Arc::clone(&site);
        let address = match address {
            Address::Port(port) => {
                let listener = TcpListener::bind(port).map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                let accept = move || {
                    listener
                        .accept()
                        .map(|(stream, _)| Connection::Port(stream))
                };
                listen(accept, shared).map_err(failed)?;
                Address::Port(bound)
            }
            Address::Socket(path) => {
                let listener = bind(path).map_err(failed)?;
                let accept = move || {
                    listener
                        .accept()
                        .map(|(stream, _)| Connection::Socket(stream))
                };
                listen(accept, shared).map_err(failed)?;
                Address::Socket(path.clone())
            }
        };
        Ok(Server { site, address })
    }

    /// Where it answers: of port 0, the one that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    /// What is being collected is finished first: it holds the volume.
    fn drop(&mut self) {
        locked(&self.site).take();
        if let Address::Socket(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn locked(site: &Shared) -> MutexGuard<'_, Option<Box<dyn Site>>> {
    site.lock().unwrap_or_else(PoisonError::into_inner)
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
    site: Shared,
) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let body = move || {
        loop {
            let Ok(connection) = accept() else {
                // No descriptor is free, for instance: that passes.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if locked(&site).is_none() {
                return;
            }
            let place = Place(Arc::clone(&open));
            if place.0.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                continue;
            }
            let site = Arc::clone(&site);
            let builder = std::thread::Builder::new().name("http-answer".to_owned());
            let _ = builder.spawn(move || {
                let _place = place;
                let _ = match connection {
                    Connection::Port(stream) => answer(
                        stream,
                        TcpStream::set_read_timeout,
                        TcpStream::set_write_timeout,
                        true,
                        &site,
                    ),
                    Connection::Socket(stream) => answer(
                        stream,
                        UnixStream::set_read_timeout,
                        UnixStream::set_write_timeout,
                        false,
                        &site,
                    ),
                };
            });
        }
    };
    std::thread::Builder::new()
        .name("http".to_owned())
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
    site: &Shared,
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
    stream.write_all(&response(&asked, site))
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Page { path: String, accept: String },
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
        (Some("GET"), Some(path)) => Asked::Page {
            path: path.split('?').next().unwrap_or_default().to_owned(),
            accept: values("accept").join(","),
        },
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

fn response(asked: &Asked, site: &Shared) -> Vec<u8> {
    let said = |status, text: &str| {
        let answer = Answer {
            kind: PLAIN,
            body: format!("{text}\n").into_bytes(),
        };
        (status, answer)
    };
    let (status, answer) = match asked {
        Asked::Page { path, accept } => {
            let request = Request { path, accept };
            match locked(site)
                .as_ref()
                .map(|site| (site.answer(&request), site.hint()))
            {
                Some((Some(answer), _)) => ("200 OK", answer),
                Some((None, hint)) => said("404 Not Found", hint),
                None => said("503 Service Unavailable", "it ends"),
            }
        }
        Asked::ToChange => said("405 Method Not Allowed", "only GET"),
        Asked::ForgedHost => said("403 Forbidden", "ask for localhost"),
        Asked::Nonsense => said("400 Bad Request", "no request of HTTP/1.1"),
    };
    let (kind, length) = (answer.kind, answer.body.len());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n{RULES}\r\n\r\n"
    );
    [head.into_bytes(), answer.body].concat()
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
                Some(Asked::Page {
                    path: "/metrics".to_owned(),
                    accept: String::new(),
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
