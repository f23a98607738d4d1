//! Reading a log file line by line, from where a former reading ended.

use crate::id::Hash;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The largest line that is written or read, in bytes: what bounds the memory of a reader.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// A line that cannot be used; reading goes on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Its number, 1-based.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

/// Reads whole lines of a log file; a line without its end is left for the next reading.
#[derive(Debug)]
pub struct LineReader {
    file: BufReader<File>,
    offset: u64,
    line: u64,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
struct Sealed<'a> {
    blake3: Hash,
    #[serde(borrow)]
    entry: &'a RawValue,
}

impl LineReader {
    /// Opens a file at a byte offset, before which lie this many lines.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path, offset: u64, line: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file: BufReader::with_capacity(1 << 16, file), offset, line, buffer: Vec::new() })
    }

    /// The byte after the last line read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of lines read, those before the start included.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next entry or what is wrong with it; `None` at the end of the last whole line.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_entry<T: DeserializeOwned>(&mut self) -> io::Result<Option<Result<T, Damage>>> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let mut read = (&mut self.file).take(limit).read_until(b'\n', &mut self.buffer)? as u64;
        let too_long = self.buffer.len() > MAX_LINE_BYTES;
        if too_long {
            read += self.skip_line()?;
        } else if self.buffer.last() != Some(&b'\n') {
            return Ok(None);
        }
        self.offset += read;
        self.line += 1;
        if too_long {
            return Ok(Some(Err(self.damage(format!("is longer than {MAX_LINE_BYTES} bytes")))));
        }
        Ok(Some(open_seal(&self.buffer).map_err(|what| self.damage(what))))
    }

    fn damage(&self, what: String) -> Damage {
        Damage { line: self.line, what }
    }

    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let chunk = self.file.fill_buf()?;
            if chunk.is_empty() {
                return Ok(skipped);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.file.consume(used);
            skipped += used as u64;
            if end.is_some() {
                return Ok(skipped);
            }
        }
    }
}

fn open_seal<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let sealed: Sealed<'_> = serde_json::from_slice(line).map_err(|why| format!("is no log line: {why}"))?;
    let text = sealed.entry.get();
    if Hash::of(text.as_bytes()) != sealed.blake3 {
        return Err("does not match its hash: it was changed or torn".to_owned());
    }
    serde_json::from_str(text).map_err(|why| format!("holds an entry this version cannot read: {why}"))
}
