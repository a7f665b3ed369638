//! Where something is served: nothing is open to the network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// A loopback port or a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// HTTP on a port of this machine's loopback.
    Port(SocketAddr),
    /// HTTP on a unix socket.
    Socket(PathBuf),
}

impl Address {
    /// Reads `PORT`, `IP:PORT` or `/PATH`.
    ///
    /// # Errors
    /// What is none of these, and addresses that other machines reach.
    pub fn parse(text: &str) -> Result<Address, String> {
        if text.starts_with('/') {
            return Ok(Address::Socket(PathBuf::from(text)));
        }
        let port = text.parse::<u16>();
        let port = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let address = port.or_else(|_| text.parse::<SocketAddr>()).map_err(|_| {
            format!("{text:?} is no port and no path from the root; write 9464, 127.0.0.1:9464, or /run/egeria/metrics")
        })?;
        if address.ip().is_loopback() {
            Ok(Address::Port(address))
        } else {
            Err(format!(
                "other machines reach {address}, and whoever asks gets an answer; use 127.0.0.1:{} behind a proxy that asks who it is",
                address.port()
            ))
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Port(address) => write!(formatter, "{address}"),
            Address::Socket(path) => write!(formatter, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_can_be_let_in() {
        for good in [
            "9464",
            "127.0.0.1:9464",
            "[::1]:9464",
            "/run/egeria/metrics",
        ] {
            Address::parse(good).expect(good);
        }
        for open in ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464"] {
            assert!(
                Address::parse(open).unwrap_err().contains("other machines"),
                "{open}"
            );
        }
        for bad in ["", "port", "70000", "metrics/socket", "localhost:9464"] {
            assert!(
                Address::parse(bad).unwrap_err().contains("no port"),
                "{bad}"
            );
        }
    }
}
