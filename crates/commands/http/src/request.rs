//! Requests and responses. The client is not trusted.

use std::net::IpAddr;

const MAX_HEADERS: usize = 64;

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

pub struct Request<'a> {
    /// Its path, without what follows a question mark.
    pub path: &'a str,
    /// Kinds that are accepted, as they were sent.
    pub accept: &'a str,
}

pub struct Answer {
    pub kind: &'static str,
    pub body: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Page { path: String, accept: String },
    ToChange,
    ForgedHost,
    Nonsense,
}

/// What a request asks for, once it is whole.
pub(super) fn understood(bytes: &[u8], checks_host: bool) -> Option<Asked> {
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

pub(super) fn response(asked: &Asked, site: &dyn Site) -> Vec<u8> {
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
            match site.answer(&request) {
                Some(answer) => ("200 OK", answer),
                None => said("404 Not Found", site.hint()),
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
