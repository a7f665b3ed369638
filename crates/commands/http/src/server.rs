//! A thread that serves a site on an address.

use std::io::{self, PipeWriter};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;

use super::Address;
use super::connections::{Listener, serve};
use super::request::Site;
use egeria_cli::failure::{Failure, Outcome, reason};

/// Answers until it is dropped.
pub struct Server {
    address: Address,
    /// Closed, it ends the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
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
        let (listener, address) = listen(address).map_err(failed)?;
        let (ended, end) = io::pipe().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || serve(&listener, &ended, &*site))
            .map_err(failed)?;
        Ok(Server {
            address,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Where it answers: of port 0, the one that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    /// What is being collected is finished first: it holds the volume.
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
        if let Address::Socket(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes the address, which is then known.
fn listen(address: &Address) -> io::Result<(Listener, Address)> {
    match address {
        Address::Port(port) => {
            let listener = TcpListener::bind(port)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((Listener::Port(listener), Address::Port(bound)))
        }
        Address::Socket(path) => {
            let listener = bind(path)?;
            listener.set_nonblocking(true)?;
            Ok((Listener::Socket(listener), address.clone()))
        }
    }
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
