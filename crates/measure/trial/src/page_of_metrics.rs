//! A number from a page of metrics in Prometheus's text format, fetched over HTTP.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::kind::Kind;

/// How long the server may take for each step.
const PATIENCE: Duration = Duration::from_secs(5);
/// No page of metrics is nearly as large.
const MAX_PAGE_BYTES: u64 = 16 << 20;
const MAX_HEADERS: usize = 64;

/// A series on a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// `HOST:PORT`.
    address: String,
    path: String,
    /// Name of the metric, perhaps with labels.
    name: String,
}

impl Series {
    /// Reads `http://HOST[:PORT]/PATH#NAME`, where NAME is a metric's name, perhaps with labels as on the page.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub fn parse(url: &str) -> Result<Series, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!(
                "{url:?}: only http:// is read; for others write a command, as 'curl -s URL | grep …'"
            ));
        };
        let Some((place, name)) = rest.split_once('#').filter(|(_, name)| !name.is_empty()) else {
            return Err(format!(
                "{url:?} names no metric; add #NAME, as …/metrics#requests_total"
            ));
        };
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        if host.is_empty()
            || place
                .chars()
                .any(|each| each.is_whitespace() || each.is_control())
        {
            return Err(format!(
                "{url:?} names no host; write http://HOST:PORT/metrics#NAME"
            ));
        }
        // The colons of an address of IPv6 are inside brackets.
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let port = if has_port { "" } else { ":80" };
        Ok(Series {
            address: format!("{host}{port}"),
            path: format!("/{path}"),
            name: name.to_owned(),
        })
    }

    /// Its value now, and its kind as the page says.
    ///
    /// # Errors
    /// One line with the cause.
    pub fn fetch(&self) -> Result<(f64, Option<Kind>), String> {
        let page = self
            .page()
            .map_err(|cause| format!("http://{}{}: {cause}", self.address, self.path))?;
        value_on(&page, &self.name)
    }

    fn page(&self) -> Result<String, String> {
        let said = |error: std::io::Error| error.to_string();
        let mut addresses = self.address.to_socket_addrs().map_err(said)?;
        let address = addresses.next().ok_or("the host has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(said)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(said)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(said)?;
        // With version 1.0 a server neither sends pieces nor keeps the connection.
        let request = format!(
            "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\n\r\n",
            self.path, self.address
        );
        stream.write_all(request.as_bytes()).map_err(said)?;
        let mut answer = Vec::new();
        stream
            .take(MAX_PAGE_BYTES)
            .read_to_end(&mut answer)
            .map_err(said)?;
        body_of(&answer)
    }
}

fn body_of(answer: &[u8]) -> Result<String, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(answer) {
        Ok(httparse::Status::Complete(head)) => head,
        _ => return Err("it does not answer in HTTP".to_owned()),
    };
    match response.code {
        Some(200) => Ok(String::from_utf8_lossy(&answer[head..]).into_owned()),
        code => Err(format!("it answers with status {}", code.unwrap_or(0))),
    }
}

/// The only series with this name, with the labels that the name has.
fn value_on(page: &str, name: &str) -> Result<(f64, Option<Kind>), String> {
    let metric = name.split('{').next().unwrap_or(name);
    let of_series = |line: &'_ str| {
        let rest = line.strip_prefix(name)?;
        let rest = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest,
        };
        rest.starts_with([' ', '\t'])
            .then(|| rest.trim().to_owned())
    };
    let found: Vec<String> = page.lines().filter_map(of_series).collect();
    let [value] = &found[..] else {
        return Err(match found.len() {
            0 => format!("the page has no metric {name}; see the page for its names"),
            count => format!("the page has {count} series {name}; name one with its labels"),
        });
    };
    let number = value.split_whitespace().next().unwrap_or_default();
    let value = number
        .parse()
        .map_err(|_| format!("{name} is {number:?}, which is no number"))?;
    Ok((value, kind_on(page, metric)))
}

fn kind_on(page: &str, metric: &str) -> Option<Kind> {
    let mut types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    // OpenMetrics names the family, without what is added for counters.
    let family = metric.strip_suffix("_total").unwrap_or(metric);
    types.find_map(|line| match line.split_once(' ')? {
        (name, kind) if name == metric || name == family => Kind::parse(kind.trim()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# TYPE requests_total counter\nrequests_total{code=\"200\"} 17 1700\nrequests_total{code=\"500\"} 1\n# TYPE load gauge\nload 2.5\nodd NaN\ntext abc\n# TYPE done counter\ndone_total 4\n";

    #[test]
    fn a_series_is_found_by_name_and_labels() {
        assert_eq!(value_on(PAGE, "load"), Ok((2.5, Some(Kind::Gauge))));
        let found = value_on(PAGE, "requests_total{code=\"200\"}");
        assert_eq!(found, Ok((17.0, Some(Kind::Counter))));
        assert_eq!(value_on(PAGE, "done_total"), Ok((4.0, Some(Kind::Counter))));
    }

    #[test]
    fn a_series_that_is_none_or_several_or_text_is_one_line() {
        let refused = |name, words: &str| {
            let line = value_on(PAGE, name).unwrap_err();
            assert!(line.contains(words), "{line}");
        };
        refused("requests", "no metric requests");
        refused("requests_total", "2 series");
        refused("text", "\"abc\"");
    }

    #[test]
    fn urls_name_host_page_and_metric() {
        let series = Series::parse("http://localhost:9090/metrics#up{a=\"b\"}").unwrap();
        assert_eq!(series.address, "localhost:9090");
        assert_eq!(
            (series.path.as_str(), series.name.as_str()),
            ("/metrics", "up{a=\"b\"}")
        );
        assert_eq!(
            Series::parse("http://[::1]/m#up").unwrap().address,
            "[::1]:80"
        );
        for (url, words) in [
            ("https://a/m#up", "only http://"),
            ("http://a/m", "#NAME"),
            ("http:///m#up", "no host"),
            ("http://a b/m#up", "no host"),
        ] {
            let line = Series::parse(url).unwrap_err();
            assert!(line.contains(words), "{line}");
        }
    }

    #[test]
    fn answers_that_are_no_page_are_refused() {
        assert_eq!(
            body_of(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nx 1\n").unwrap(),
            "x 1\n"
        );
        assert!(
            body_of(b"HTTP/1.0 404 Not Found\r\n\r\n")
                .unwrap_err()
                .contains("404")
        );
        for answer in [&b""[..], b"hello", b"HTTP/1.0 200"] {
            assert!(body_of(answer).unwrap_err().contains("HTTP"));
        }
    }
}
