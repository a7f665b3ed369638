//! The loopback's process and its mount point.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use egeria_harness::program::find_beside;
use egeria_harness::{Error, Result};
use egeria_scratch::{MountPoint, detach};

/// Name of the program.
const PROGRAM: &str = "egeria-loopback";
/// How long mounting and unmounting may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A mounted loopback; unmounted when dropped, and by itself when this process is killed.
pub(super) struct Loopback {
    child: Child,
    point: MountPoint,
}

impl Loopback {
    /// Mounts the directory `source` somewhere else.
    pub(super) fn start(program: Option<&Path>, source: &Path) -> Result<Loopback> {
        let program = find_beside(program, PROGRAM, "EGERIA_LOOPBACK")?;
        let failed = |error| Error::io(format!("cannot start {PROGRAM}"), error, "build it again");
        let point = MountPoint::create(false)?;
        let mut command = Command::new(program);
        command
            .arg(source)
            .arg(point.path())
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C at the terminal is ours to act on: it ends when its input does.
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        let mut loopback = Loopback { child, point };
        loopback.wait_until_ready()?;
        Ok(loopback)
    }

    /// Where it is mounted.
    pub(super) fn directory(&self) -> &Path {
        self.point.path()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let output = self.child.stdout.take();
        let (sender, says) = channel();
        std::thread::spawn(move || {
            let line = output.and_then(|output| BufReader::new(output).lines().next());
            // Nobody listens any more once it took too long.
            let _ = sender.send(line);
        });
        match says.recv_timeout(PATIENCE) {
            Ok(Some(Ok(line))) if line == "ready" => Ok(()),
            _ => Err(Error::failed(format!(
                "{PROGRAM} did not mount; see its message above, and is there a /dev/fuse?"
            ))),
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        let mut ended = None;
        while ended.is_none() && Instant::now() < deadline {
            ended = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(5));
        }
        if !ended.is_some_and(|status| status.success()) {
            // Somebody still sits in there, or it was killed.
            detach(self.point.path());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
