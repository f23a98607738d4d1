//! What every command needs: the home folder, its redaction key, its tapes, and a way to ask the index.

use crate::exit::Failure;
use harness::agent::Studio;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trace::home::Home;
use trace::outcome::RunStatus;
use trace::reader::Reader;
use trace::redact::Redactor;
use trace::store::Table;
use trace::tape::{OPEN_SUFFIX, Tape, TapeError, is_held};

/// How long a reading command waits for another that reads.
const WAIT: Duration = Duration::from_secs(5);

/// The state of a run whose process died before its end.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The home and who to ask about it.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) home: Home,
}

impl House {
    /// Opens the home of `LOOPDECK_HOME`, or `.loopdeck` here.
    pub(crate) fn open() -> Result<Self, Failure> {
        Ok(Self { home: Home::open(Home::located()).map_err(Failure::infrastructure)? })
    }

    /// The redactor of this home; its key is made when first needed and readable by its owner only.
    pub(crate) fn redactor(&self) -> Result<Redactor, Failure> {
        let path = self.home.root().join("redaction.key");
        let key = read_or_make_key(&path)
            .map_err(|why| Failure::infrastructure(format!("{}: {why}", path.display())))?;
        Redactor::new(key).map_err(Failure::infrastructure)
    }

    /// Where runs are recorded.
    pub(crate) fn studio(&self) -> Result<Studio, Failure> {
        Ok(Studio { tapes: self.home.tapes(), redactor: Arc::new(self.redactor()?) })
    }

    /// A way to ask the index, which first takes in everything that was acknowledged. Logs that cannot be read
    /// are told on stderr; the rest is answered.
    pub(crate) fn reader(&self) -> Result<Reader, Failure> {
        let reader = Reader::open(&self.home, WAIT).map_err(Failure::infrastructure)?;
        if let Reader::Local { indexed, .. } = &reader {
            for one in &indexed.unreadable {
                crate::say::warn(&format!("{one}"));
            }
        }
        Ok(reader)
    }

    /// Tells runs that go on from runs whose process died: `running` becomes `interrupted` in an answer's rows where
    /// nobody holds the tape any more. The index cannot know: nothing is written when a process dies.
    pub(crate) fn tell_interrupted(&self, runs: &mut Table) {
        let place = |name: &str| runs.columns.iter().position(|column| column.name == name);
        let (Some(run), Some(status)) = (place("run_id"), place("status")) else { return };
        for row in &mut runs.rows {
            let is_running = row.get(status).is_some_and(|status| status == RunStatus::Running.as_str());
            let run_id = row.get(run).and_then(Value::as_str).unwrap_or_default();
            if is_running && self.is_interrupted(run_id) {
                row[status] = INTERRUPTED.into();
            }
        }
    }

    fn is_interrupted(&self, run_id: &str) -> bool {
        // Ids of received runs are anybody's words; only a plain file name is one of ours.
        let name = format!("{run_id}{OPEN_SUFFIX}");
        let is_plain = Path::new(&name).file_name().is_some_and(|plain| plain == name.as_str());
        is_plain && matches!(is_held(&self.home.tapes().join(name)), Ok(false))
    }

    /// The tape that a text names: a file, `latest`, or a unique beginning of a run's id.
    pub(crate) async fn tape(&self, target: &str) -> Result<Tape, Failure> {
        let path = match Path::new(target) {
            file if file.is_file() => file.to_owned(),
            _ => self.tape_of_run(target).await?,
        };
        Tape::read(&path).map_err(|why| match why {
            TapeError::Io { .. } => Failure::infrastructure(why),
            _ => Failure::usage(why),
        })
    }

    /// Where the tape of a run is.
    pub(crate) async fn tape_of_run(&self, target: &str) -> Result<PathBuf, Failure> {
        let reader = self.reader()?;
        let run_id = reader.find_run(target).await.map_err(Failure::usage)?;
        let name = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with(&format!("{run_id}.")))
        };
        let tapes = Tape::list(&self.home.tapes()).map_err(Failure::infrastructure)?;
        tapes.into_iter().find(name).ok_or_else(|| {
            Failure::usage(format!(
                "run {run_id} has no tape: it was imported or came by OTLP, which carry no provider bytes; only \
                 runs of `loopdeck run` can be replayed exactly or with a live model"
            ))
        })
    }
}

fn read_or_make_key(path: &Path) -> std::io::Result<[u8; 32]> {
    if let Ok(bytes) = std::fs::read(path)
        && let Ok(key) = <[u8; 32]>::try_from(bytes)
    {
        return Ok(key);
    }
    let mut key = [0; 32];
    for part in key.chunks_exact_mut(8) {
        part.copy_from_slice(&harness::port::random().to_be_bytes());
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut file) => file.write_all(&key).map(|()| key),
        // Another process made it in between.
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
            let bytes = std::fs::read(path)?;
            bytes
                .try_into()
                .map_err(|_| std::io::Error::other("is not 32 bytes long; delete it to make a new key"))
        }
        Err(why) => Err(why),
    }
}
