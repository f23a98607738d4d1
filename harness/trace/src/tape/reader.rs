//! Reads a tape, open or finished, whole or torn.

use super::{Header, MAX_LINE_BYTES, OPEN_SUFFIX, SEALED_SUFFIX, TapeError, link};
use crate::fact::{Fact, RunEnded, RunStarted};
use crate::id::Hash;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// A fact with its place and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The line's number, from 0.
    pub seq: u64,
    /// Nanoseconds since 1970, from the run's clock.
    pub at_ns: i64,
    /// What happened.
    pub fact: Fact,
    /// `seq:digest` over the line's time and body, as [`Fact::heard`] lists it.
    pub digest: String,
}

/// A tape in memory.
#[derive(Debug, Clone)]
pub struct Tape {
    path: PathBuf,
    header: Header,
    lines: Vec<Line>,
    blobs: HashMap<Hash, Vec<u8>>,
    torn_bytes: u64,
    whole_bytes: u64,
    named: Vec<(u64, Hash)>,
    last_at_ns: i64,
    chain: String,
    next_seq: u64,
}

/// A line as it stands, before it is known to be a fact.
#[derive(Deserialize)]
struct Raw<'a> {
    seq: u64,
    at: i64,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    chain: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawBlob {
    hash: Hash,
    text: Option<String>,
    base64: Option<String>,
}

impl Tape {
    /// Reads a tape. A torn last line is dropped; [`Self::torn_bytes`] tells how long it was.
    ///
    /// # Errors
    /// Where the file cannot be read, is of a newer format, or is damaged anywhere but in a torn last line.
    pub fn read(path: &Path) -> Result<Self, TapeError> {
        Self::read_until(path, usize::MAX)
    }

    /// Reads a tape up to its first fact, which tells who the run is.
    ///
    /// # Errors
    /// As [`Self::read`], as far as it reads.
    pub fn read_start(path: &Path) -> Result<Self, TapeError> {
        Self::read_until(path, 1)
    }

    fn read_until(path: &Path, most_facts: usize) -> Result<Self, TapeError> {
        let io = |doing| move |source| TapeError::Io { path: path.to_owned(), doing, source };
        let mut file = BufReader::new(File::open(path).map_err(io("open the tape"))?);
        let magic = file.fill_buf().map_err(io("read the tape"))?;
        if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let decoder = zstd::Decoder::with_buffer(file).map_err(io("decompress the tape"))?;
            let mut tape = Self::from_lines(path, BufReader::new(decoder), most_facts)?;
            if tape.torn_bytes > 0 {
                return Err(tape.damaged(u64::MAX, "a finished tape must not end in half a line".to_owned()));
            }
            tape.torn_bytes = 0;
            return Ok(tape);
        }
        Self::from_lines(path, file, most_facts)
    }

    fn from_lines(path: &Path, mut input: impl BufRead, most_facts: usize) -> Result<Self, TapeError> {
        let mut tape = Self {
            path: path.to_owned(),
            header: Header { format: 0, program: String::new(), redaction_key_id: String::new() },
            lines: Vec::new(),
            blobs: HashMap::new(),
            torn_bytes: 0,
            whole_bytes: 0,
            named: Vec::new(),
            last_at_ns: 0,
            chain: String::new(),
            next_seq: 0,
        };
        let (mut buffer, mut chain, mut seq) = (Vec::new(), String::new(), 0);
        while tape.lines.len() < most_facts {
            buffer.clear();
            let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
            let read = (&mut input).take(limit).read_until(b'\n', &mut buffer);
            let read = read.map_err(|why| tape.damaged(seq, format!("cannot be read: {why}")))?;
            if read == 0 {
                break;
            }
            if buffer.last() != Some(&b'\n') {
                if buffer.len() >= MAX_LINE_BYTES {
                    return Err(tape.damaged(seq, format!("is longer than {MAX_LINE_BYTES} bytes")));
                }
                tape.torn_bytes = buffer.len() as u64;
                break;
            }
            chain = tape.take(&buffer[..buffer.len() - 1], seq, &chain)?;
            tape.whole_bytes += buffer.len() as u64;
            seq += 1;
        }
        (tape.chain, tape.next_seq) = (chain, seq);
        match seq {
            0 => Err(tape.damaged(0, "the file holds no whole line, so it is no tape".to_owned())),
            _ => Ok(tape),
        }
    }

    /// Takes one whole line in and returns the chain after it.
    fn take(&mut self, line: &[u8], seq: u64, before: &str) -> Result<String, TapeError> {
        let text =
            std::str::from_utf8(line).map_err(|why| self.damaged(seq, format!("is not UTF-8: {why}")))?;
        let raw: Raw<'_> = serde_json::from_str(text)
            .map_err(|why| self.damaged(seq, format!("is not a line of a tape: {why}")))?;
        if raw.seq != seq {
            return Err(
                self.damaged(seq, format!("has seq {}, expected {seq}: lines are lost or moved", raw.seq))
            );
        }
        let open = text
            .strip_suffix(&format!(",\"chain\":\"{}\"}}", raw.chain))
            .ok_or_else(|| self.damaged(seq, "does not end in its chain".to_owned()))?;
        if link(before, open) != raw.chain {
            return Err(self.damaged(seq, "was changed: its chain does not match".to_owned()));
        }
        if raw.kind == "blob" && raw.at != self.last_at_ns {
            return Err(self.damaged(
                seq,
                "a blob bears the time of the fact before it, and this one does not".to_owned(),
            ));
        }
        self.last_at_ns = raw.at;
        match (seq, raw.kind.as_ref()) {
            (0, "tape") => self.take_header(text)?,
            (0, kind) => return Err(self.damaged(0, format!("is `{kind}`, but a tape begins with `tape`"))),
            (_, "blob") => self.take_blob(text, seq)?,
            _ => self.take_fact(text, open, seq, raw.at)?,
        }
        Ok(raw.chain.into_owned())
    }

    fn take_header(&mut self, text: &str) -> Result<(), TapeError> {
        self.header =
            serde_json::from_str(text).map_err(|why| self.damaged(0, format!("bad header: {why}")))?;
        match self.header.format > super::FORMAT {
            true => Err(TapeError::Newer { path: self.path.clone(), found: self.header.format }),
            false => Ok(()),
        }
    }

    fn take_blob(&mut self, text: &str, seq: u64) -> Result<(), TapeError> {
        let blob: RawBlob =
            serde_json::from_str(text).map_err(|why| self.damaged(seq, format!("bad blob: {why}")))?;
        let content = match (blob.text, blob.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(code)) => {
                STANDARD.decode(code).map_err(|why| self.damaged(seq, format!("bad base64: {why}")))?
            }
            _ => return Err(self.damaged(seq, "a blob has either `text` or `base64`".to_owned())),
        };
        if Hash::of(&content) != blob.hash {
            return Err(self.damaged(seq, "the blob's content does not match its hash".to_owned()));
        }
        self.named.push((seq, blob.hash));
        self.blobs.insert(blob.hash, content);
        Ok(())
    }

    fn take_fact(&mut self, text: &str, open: &str, seq: u64, at_ns: i64) -> Result<(), TapeError> {
        let mut fact: Fact = serde_json::from_str(text)
            .map_err(|why| self.damaged(seq, format!("unknown or bad fact: {why}")))?;
        if let Fact::ToolFinished(finished) = &mut fact {
            finished.content = self.text(&finished.shown).unwrap_or_default().to_owned();
        }
        if let Fact::RunStarted(started) = &mut fact
            && let Some(history) = &started.history
        {
            let text = self.text(history).unwrap_or_default();
            started.earlier = serde_json::from_str(text)
                .map_err(|why| self.damaged(seq, format!("its history is no list of messages: {why}")))?;
        }
        self.lines.push(Line { seq, at_ns, fact, digest: super::writer::digest(seq, open) });
        Ok(())
    }

    pub(super) fn damaged(&self, seq: u64, why: String) -> TapeError {
        TapeError::Damaged { path: self.path.clone(), line: seq.saturating_add(1), why }
    }

    /// Where it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The facts in order.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// A content by its name.
    #[must_use]
    pub fn blob(&self, hash: &Hash) -> Option<&[u8]> {
        self.blobs.get(hash).map(Vec::as_slice)
    }

    /// A content that is text.
    #[must_use]
    pub fn text(&self, hash: &Hash) -> Option<&str> {
        std::str::from_utf8(self.blob(hash)?).ok()
    }

    /// How the run began, if the tape got that far.
    #[must_use]
    pub fn started(&self) -> Option<&RunStarted> {
        self.lines.iter().find_map(|line| match &line.fact {
            Fact::RunStarted(fact) => Some(fact.as_ref()),
            _ => None,
        })
    }

    /// How the run ended, if it did and was not resumed since.
    #[must_use]
    pub fn ended(&self) -> Option<&RunEnded> {
        match self.lines.last().map(|line| &line.fact) {
            Some(Fact::RunEnded(fact)) => Some(fact.as_ref()),
            _ => None,
        }
    }

    /// The chain after the last whole line.
    pub(super) fn chain(&self) -> &str {
        &self.chain
    }

    /// The number of the next line.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The time that the last line bears.
    pub(super) fn last_at_ns(&self) -> i64 {
        self.last_at_ns
    }

    /// Length of a torn last line that was dropped; 0 for a whole tape.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Length of all whole lines, in bytes before compression.
    #[must_use]
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// The blobs in the order written, each with its line's number.
    pub(super) fn named(&self) -> &[(u64, Hash)] {
        &self.named
    }

    /// The tapes in a folder: for each run the finished file if there is one, else the open one, by name.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn list(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut by_run: std::collections::BTreeMap<String, PathBuf> = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if let Some(run) = name.strip_suffix(SEALED_SUFFIX) {
                by_run.insert(run.to_owned(), path);
            } else if let Some(run) = name.strip_suffix(OPEN_SUFFIX) {
                by_run.entry(run.to_owned()).or_insert(path);
            }
        }
        Ok(by_run.into_values().collect())
    }
}
