//! What a long-running command reports while it works: on stderr in the foreground, in the journal otherwise and where
//! stderr is the journal, and in a file if one was named. Commands that end by themselves print errors and nothing
//! else.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use egeria_engine::{Severity, Volume};
use egeria_metrics::Reports;
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::output::printable;

/// Levels that are reported: `warn`, `debug`, or by module, as `info,egeria_mount=debug`.
const VARIABLE: &str = "EGERIA_LOG";

/// Target of messages that a command has also printed on stdout. In the foreground, stdout appears with stderr and
/// goes to the same journal, so these messages go to the file alone.
pub const SAID: &str = "egeria::said";

/// Report what happens from now on, in the whole process.
///
/// # Errors
/// A level that is none, a file that cannot be opened or is not this user's own.
pub fn begin(foreground: bool, file: Option<&Path>) -> Outcome {
    let levels = levels()?;
    let file = file.map(open).transpose()?;
    let file = file.map(|file| {
        fmt::layer()
            .with_ansi(false)
            .with_writer(OneLine(Mutex::new(file)))
    });
    // Under systemd, stderr is the journal, which is to know of levels.
    let is_journal = foreground && stderr_is_journal();
    let journal = (is_journal || !foreground).then(journal).flatten();
    let on_stderr = foreground && journal.is_none();
    let stderr = on_stderr.then(|| {
        fmt::layer()
            .with_ansi(false)
            .with_writer(OneLine(std::io::stderr))
    });
    let unsaid = move || filter_fn(move |about| !(foreground && about.target() == SAID));
    let stderr = stderr.map(|layer| layer.with_filter(unsaid()));
    let journal = journal.map(|layer| layer.with_filter(unsaid()));
    // Without a journal there is the file, if any: the stderr of a process that left its terminal is not read.
    let registry = tracing_subscriber::registry().with(levels);
    // It fails only when it was done before.
    let _ = registry.with(file).with(stderr).with(journal).try_init();
    Ok(())
}

/// Each report is one line, whatever the names in it hold: programs and other users make names.
struct OneLine<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

impl<W: Write> Write for OneLine<W> {
    /// A report comes whole, with its line end.
    fn write(&mut self, report: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(report);
        let line = printable(text.strip_suffix('\n').unwrap_or(&text));
        self.0.write_all((line + "\n").as_bytes())?;
        Ok(report.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A volume that a long-running command has attached.
pub struct Attached {
    volume: String,
    is_joined: bool,
    reports: Arc<Reports>,
}

impl Attached {
    /// How much is reported of it.
    pub fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.reports)
    }

    /// Report that it is attached: once the command works, because one that cannot start says only why.
    pub fn report(&self) {
        let how = if self.is_joined {
            "in the session of others"
        } else {
            "in a new session"
        };
        tracing::info!("volume {} attached {how}", self.volume);
    }

    /// Report that it is detached.
    pub fn report_end(&self) {
        tracing::info!("volume {} detached", self.volume);
    }
}

/// Report what the recovery of a volume did, and from now on what is found: damage, failing blocks, processes that
/// died, and for which stopped process a change waits.
pub fn follow(volume: &Volume) -> Attached {
    let reports = Arc::<Reports>::default();
    let counted = Arc::clone(&reports);
    volume.set_reporter(Box::new(move |severity, line| {
        counted.count(severity, 1);
        match severity {
            Severity::Information => tracing::info!("{line}"),
            Severity::Warning => tracing::warn!("{line}"),
            Severity::Error => tracing::error!("{line}"),
        }
    }));
    let attached = Attached {
        volume: volume.uuid().to_string(),
        is_joined: !volume.made_session(),
        reports,
    };
    if let Some(recovery) = volume.recovery() {
        recovery
            .damage
            .iter()
            .for_each(|line| tracing::error!("{line}"));
        if recovery.more_damage > 0 {
            let more = recovery.more_damage;
            tracing::error!("{more} more places are damaged; `egeria check` lists them all");
        }
        if recovery.has_recovered() {
            tracing::info!("volume {}: {recovery}", attached.volume);
        }
    }
    attached
}

fn levels() -> Outcome<Targets> {
    let usual = quiet(Targets::new().with_default(LevelFilter::INFO));
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(usual);
    };
    let named = text.to_str().and_then(parsed);
    named.map(quiet).ok_or_else(|| {
        Failure::new(format!(
            "{VARIABLE} is {}, which names no levels; try error, warn, info, debug or info,egeria_mount=debug",
            text.display()
        ))
    })
}

/// A reply that the kernel does not take any more, to an interrupted request or after an unmount, is no failure.
fn quiet(levels: Targets) -> Targets {
    const REPLIES: &str = "fuser::reply";
    let is_named = levels.iter().any(|(target, _)| REPLIES.starts_with(target));
    if is_named {
        levels
    } else {
        levels.with_target(REPLIES, LevelFilter::OFF)
    }
}

/// `Targets` takes a lone word that is no level for the name of a module, so that a misspelt level would say nothing.
fn parsed(text: &str) -> Option<Targets> {
    let levels = text
        .split(',')
        .map(|part| part.split_once('=').map_or(part, |(_, level)| level));
    let is_valid = levels
        .into_iter()
        .all(|level| level.parse::<LevelFilter>().is_ok());
    is_valid.then(|| text.parse().ok()).flatten()
}

fn journal<S: tracing::Subscriber + for<'a> LookupSpan<'a>>() -> Option<impl Layer<S>> {
    let layer = tracing_journald::layer().ok()?;
    Some(layer.with_syslog_identifier("egeria".to_owned()))
}

/// What systemd says of the stream that it connected, if it is still the one.
fn stderr_is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let stream = rustix::fs::fstat(rustix::stdio::stderr());
    stream.is_ok_and(|stream| named == format!("{}:{}", stream.st_dev, stream.st_ino))
}

fn open(path: &Path) -> Outcome<File> {
    let opened = egeria_files::open(path).and_then(|mut file| {
        egeria_files::close_to_others(&file)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    });
    opened.map_err(|error| {
        Failure::new(format!(
            "cannot write the log {}: {}; name a file of your own",
            path.display(),
            reason(&error)
        ))
    })
}
