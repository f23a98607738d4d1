//! Appends facts and blobs to a tape. A line is acknowledged when it is written; [`Recorder::sync`] makes it last.

use super::{Disk, FORMAT, FileDisk, Header, OPEN_SUFFIX, SEALED_SUFFIX, Tape, TapeError, link};
use crate::fact::Fact;
use crate::id::{Hash, RunId};
use crate::redact::Redactor;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// From this length on a finished tape is searched for contents that come again far behind.
const LONG_TAPE_BYTES: u64 = 1 << 20;

/// What became of a recorded fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its line's number, from 0.
    pub seq: u64,
    /// `seq:digest` over the line's time and body, for [`Fact::heard`].
    pub digest: String,
}

/// Takes down what happens. Two exist: the tape writer, and the comparer of an exact replay.
pub trait Recorder: Send {
    /// Keeps a content, redacted, and tells its name. Its line bears the time of the fact before it, and goes to disk
    /// with the fact after it, which is the one that names it.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn blob(&mut self, content: &[u8]) -> Result<Hash, TapeError>;

    /// Keeps a fact, redacted. On return it survives the death of this process.
    ///
    /// # Errors
    /// Where it cannot be written, or (in a replay) where it is not what was recorded.
    fn record(&mut self, at_ns: i64, fact: &Fact) -> Result<Recorded, TapeError>;

    /// Makes everything recorded survive the loss of power.
    ///
    /// # Errors
    /// Where the disk says no.
    fn sync(&mut self) -> Result<(), TapeError>;

    /// The redactor that everything recorded goes through.
    fn redactor(&self) -> &Redactor;
}

/// A fact as the text of its line, redacted, without `chain` and the closing brace.
///
/// # Errors
/// Where the fact is not JSON, such as a map with odd keys.
pub fn encode_line(seq: u64, at_ns: i64, fact: &Fact, redactor: &Redactor) -> Result<String, TapeError> {
    let body = serde_json::to_string(fact)?;
    Ok(open_line(seq, at_ns, &redactor.text(&body)))
}

/// `{"seq":N,"at":NS,` and the members of an object, without its closing brace.
fn open_line(seq: u64, at_ns: i64, object: &str) -> String {
    let members = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(object);
    format!("{{\"seq\":{seq},\"at\":{at_ns},{members}")
}

/// The digest of an open line, as [`Fact::heard`] lists it.
pub(crate) fn digest(seq: u64, open_line: &str) -> String {
    format!("{seq}:{}", &Hash::of(open_line.as_bytes()).short()[..8])
}

/// Writes one tape.
#[derive(Debug)]
pub struct TapeWriter<D: Disk = FileDisk> {
    path: PathBuf,
    disk: D,
    redactor: Arc<Redactor>,
    seq: u64,
    at_ns: i64,
    chain: String,
    blobs: HashSet<Hash>,
    /// Lines of contents that wait for the fact that names them: alone they would say nothing.
    waiting: String,
    /// Whether everything appended was made to last.
    synced: bool,
    failed: bool,
}

impl TapeWriter<FileDisk> {
    /// Starts the tape of a run in a folder of tapes.
    ///
    /// # Errors
    /// Where the file exists already or cannot be written.
    pub fn create(
        folder: &Path,
        run: &RunId,
        at_ns: i64,
        redactor: Arc<Redactor>,
    ) -> Result<Self, TapeError> {
        let path = folder.join(format!("{run}{OPEN_SUFFIX}"));
        let disk = FileDisk::create(&path).map_err(|source| TapeError::Io {
            path: path.clone(),
            doing: "create the tape",
            source,
        })?;
        Self::start(path, disk, at_ns, redactor)
    }

    /// Goes on with a tape: cuts a torn last line off, and opens a finished tape again.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn reopen(tape: &Tape, redactor: Arc<Redactor>) -> Result<Self, TapeError> {
        let io = |doing| move |source| TapeError::Io { path: tape.path().to_owned(), doing, source };
        let path = open_path(tape.path());
        if path != tape.path() {
            // Written beside and renamed, so that a crash leaves the finished tape or the open one, never half.
            let part = path.with_extension("part");
            decompress(tape.path(), &part)
                .and_then(|()| fs::rename(&part, &path))
                .and_then(|()| fs::remove_file(tape.path()))
                .map_err(io("open the finished tape again"))?;
        }
        let disk = FileDisk::reopen(&path, tape.whole_bytes()).map_err(io("go on with the tape"))?;
        Ok(Self {
            path,
            disk,
            redactor,
            seq: tape.next_seq(),
            at_ns: tape.last_at_ns(),
            chain: tape.chain().to_owned(),
            blobs: tape.named().iter().map(|(_, hash)| *hash).collect(),
            waiting: String::new(),
            synced: false,
            failed: false,
        })
    }

    /// Compresses the finished tape whole and removes the plain file. Returns where it is now.
    ///
    /// # Errors
    /// Where the disk says no; the plain tape then stays, whole and readable.
    pub fn seal(mut self) -> Result<PathBuf, TapeError> {
        self.sync()?;
        let sealed = sealed_path(&self.path);
        let part = sealed.with_extension("part");
        let done = compress(&self.path, &part).and_then(|()| fs::rename(&part, &sealed));
        if let Err(source) = done {
            let _ = fs::remove_file(&part);
            return Err(TapeError::Io { path: self.path, doing: "compress the finished tape", source });
        }
        // A crash between the rename and this leaves both files; readers take the sealed one.
        let _ = fs::remove_file(&self.path);
        Ok(sealed)
    }
}

fn sealed_path(open: &Path) -> PathBuf {
    let name = open.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    open.with_file_name(format!("{}{SEALED_SUFFIX}", name.trim_end_matches(OPEN_SUFFIX)))
}

fn open_path(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.strip_suffix(SEALED_SUFFIX) {
        Some(run) => path.with_file_name(format!("{run}{OPEN_SUFFIX}")),
        None => path.to_owned(),
    }
}

fn decompress(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut file = fs::File::create(to)?;
    zstd::stream::copy_decode(fs::File::open(from)?, &mut file)?;
    file.sync_all()
}

fn compress(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut open = fs::File::open(from)?;
    let length = open.metadata()?.len();
    // Higher levels save a few hundredths of the bytes (BENCHMARKS.md) for several times the time, once a run.
    let mut encoder = zstd::Encoder::new(fs::File::create(to)?, 3)?;
    encoder.include_checksum(true)?;
    // Contents come again far behind only in long tapes; the tables for it are large.
    encoder.long_distance_matching(length > LONG_TAPE_BYTES)?;
    // Without the length the tables are made for a tape of any length: tens of megabytes for each short run.
    encoder.set_pledged_src_size(Some(length))?;
    std::io::copy(&mut open, &mut encoder)?;
    let mut file = encoder.finish()?;
    file.flush()?;
    file.sync_all()
}

impl<D: Disk> TapeWriter<D> {
    /// Starts a tape on any disk.
    ///
    /// # Errors
    /// Where the header cannot be written.
    pub fn start(path: PathBuf, disk: D, at_ns: i64, redactor: Arc<Redactor>) -> Result<Self, TapeError> {
        let header = Header {
            format: FORMAT,
            program: concat!("loopdeck ", env!("CARGO_PKG_VERSION")).to_owned(),
            redaction_key_id: redactor.key_id().to_owned(),
        };
        let mut writer = Self {
            path,
            disk,
            redactor,
            seq: 0,
            at_ns,
            chain: String::new(),
            blobs: HashSet::new(),
            waiting: String::new(),
            synced: false,
            failed: false,
        };
        let body = serde_json::to_string(&header)?;
        writer.append(&open_line(0, at_ns, &body.replacen('{', "{\"type\":\"tape\",", 1)))?;
        Ok(writer)
    }

    /// Where the tape lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to those that wait.
    fn line(&mut self, open_line: &str) -> u64 {
        self.chain = link(&self.chain, open_line);
        let _ = writeln!(self.waiting, "{open_line},\"chain\":\"{}\"}}", self.chain);
        self.seq += 1;
        self.seq - 1
    }

    /// Writes a line, and before it those that wait, in one piece.
    fn append(&mut self, open_line: &str) -> Result<u64, TapeError> {
        let seq = self.line(open_line);
        self.write_waiting().map(|()| seq)
    }

    fn write_waiting(&mut self) -> Result<(), TapeError> {
        if self.failed {
            return Err(TapeError::Closed { path: self.path.clone() });
        }
        if let Err(source) = self.disk.append(self.waiting.as_bytes()) {
            self.failed = true;
            return Err(TapeError::Io { path: self.path.clone(), doing: "write to the tape", source });
        }
        self.waiting.clear();
        self.synced = false;
        Ok(())
    }
}

impl<D: Disk> Recorder for TapeWriter<D> {
    fn blob(&mut self, content: &[u8]) -> Result<Hash, TapeError> {
        let redacted = self.redactor.bytes(content);
        let hash = Hash::of(&redacted);
        if self.blobs.contains(&hash) {
            return Ok(hash);
        }
        let value = match std::str::from_utf8(&redacted) {
            Ok(text) => format!("\"text\":{}", serde_json::to_string(text)?),
            Err(_) => format!("\"base64\":\"{}\"", STANDARD.encode(&redacted)),
        };
        if self.failed {
            return Err(TapeError::Closed { path: self.path.clone() });
        }
        self.line(&format!(
            "{{\"seq\":{},\"at\":{},\"type\":\"blob\",\"hash\":\"{hash}\",{value}",
            self.seq, self.at_ns
        ));
        self.blobs.insert(hash);
        Ok(hash)
    }

    fn record(&mut self, at_ns: i64, fact: &Fact) -> Result<Recorded, TapeError> {
        let line = encode_line(self.seq, at_ns, fact, &self.redactor)?;
        self.at_ns = at_ns;
        let digest = digest(self.seq, &line);
        Ok(Recorded { seq: self.append(&line)?, digest })
    }

    fn sync(&mut self) -> Result<(), TapeError> {
        if !self.waiting.is_empty() {
            self.write_waiting()?;
        }
        if self.synced {
            return Ok(());
        }
        self.disk.sync().map_err(|source| TapeError::Io {
            path: self.path.clone(),
            doing: "sync the tape to disk",
            source,
        })?;
        self.synced = true;
        Ok(())
    }

    fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}
