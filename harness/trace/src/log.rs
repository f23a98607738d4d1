//! An append-only log of JSON lines: what the inbox and the ops log are made of.
//!
//! Place in the flow: a process appends to a file of its own; the [`crate::store`] reads all files from where
//! its index stands. A line is `{"blake3":HASH,"entry":ENTRY}`, the hash taken over the text of the entry, so a
//! torn or changed line is found. A line is written by one write(2): acknowledged means that the operating
//! system has it, and that it survives the process.

mod read;

pub use read::{Damage, LineReader, MAX_LINE_BYTES};

use crate::id::Hash;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder of log files, of which this process appends to one.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    length: u64,
}

/// Where an entry was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub path: PathBuf,
    /// The byte after the entry: an index that stands here or further has seen it.
    pub end: u64,
}

/// An entry could not be appended; nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be written: disk full, read-only, no permission.
    #[error("cannot append to {}: {source}; nothing was kept of this entry", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The entry is larger than a reader would take.
    #[error("an entry of {bytes} bytes is larger than the {MAX_LINE_BYTES} a log line may have; split it")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The entry is no JSON.
    #[error("cannot write the entry as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Log {
    /// A log in this folder. Nothing is created before the first append.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, open: Mutex::new(None) }
    }

    /// Appends an entry; when it returns, the entry survives this process.
    ///
    /// # Errors
    /// When it cannot be written whole; then the file is cut back to where it was.
    pub fn append<T: Serialize>(&self, entry: &T) -> Result<Position, LogError> {
        let line = line(entry)?;
        let mut guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = match guard.take() {
            Some(open) => open,
            None => create(&self.folder)?,
        };
        match open.write(&line) {
            Ok(()) => {
                let position = Position { path: open.path.clone(), end: open.length };
                *guard = Some(open);
                Ok(position)
            }
            Err(source) => {
                let path = open.path.clone();
                // A file that cannot be cut back ends in a torn line: never append after it, start another.
                if open.file.set_len(open.length).is_ok() {
                    *guard = Some(open);
                }
                Err(LogError::Write { path, source })
            }
        }
    }
}

impl Open {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write(line)?;
        if written != line.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk took only a part of the line"));
        }
        self.length += written as u64;
        Ok(())
    }
}

/// The files of a log folder, in order of name.
///
/// # Errors
/// When the folder cannot be listed.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn line<T: Serialize>(entry: &T) -> Result<Vec<u8>, LogError> {
    let text = serde_json::to_string(entry)?;
    let line = format!("{{\"blake3\":\"{}\",\"entry\":{text}}}\n", Hash::of(text.as_bytes())).into_bytes();
    if line.len() > MAX_LINE_BYTES {
        return Err(LogError::TooLarge { bytes: line.len() });
    }
    Ok(line)
}

/// A file that no other process has: named by process id, and numbered past what former processes left.
fn create(folder: &Path) -> Result<Open, LogError> {
    let process = std::process::id();
    for number in 0_u64.. {
        let path = folder.join(format!("{process}-{number}.jsonl"));
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        match options.open(&path) {
            Ok(file) => return Ok(Open { path, file, length: 0 }),
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(LogError::Write { path: folder.to_owned(), source }),
        }
    }
    Err(LogError::Write { path: folder.to_owned(), source: io::ErrorKind::AlreadyExists.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> (Vec<u32>, Vec<Damage>) {
        let (mut entries, mut damages) = (Vec::new(), Vec::new());
        let mut reader = LineReader::open(path, 0, 0).unwrap();
        while let Some(line) = reader.next_entry::<u32>().unwrap() {
            match line {
                Ok(entry) => entries.push(entry),
                Err(damage) => damages.push(damage),
            }
        }
        (entries, damages)
    }

    #[test]
    fn what_is_appended_is_read_back_by_many_threads_and_in_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (Log::new(folder.path().to_owned()), Log::new(folder.path().to_owned()));
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let log = if thread % 2 == 0 { &a } else { &b };
                scope.spawn(move || (0..50).for_each(|n| drop(log.append(&(thread * 100 + n)).unwrap())));
            }
        });
        let mut all: Vec<u32> = files(folder.path()).unwrap().iter().flat_map(|path| read(path).0).collect();
        all.sort_unstable();
        assert_eq!(all, (0..4).flat_map(|t| (0..50).map(move |n| t * 100 + n)).collect::<Vec<_>>());
        assert_eq!(files(folder.path()).unwrap().len(), 2);
    }

    #[test]
    fn a_changed_line_is_named_and_the_rest_is_read_and_a_torn_end_is_left_for_later() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::new(folder.path().to_owned());
        let path = (1..=3_u32).map(|n| log.append(&n).unwrap().path).last().unwrap();
        let mut text = fs::read_to_string(&path).unwrap().replace("\"entry\":2", "\"entry\":7");
        text.push_str("{\"blake3\":\"00");
        fs::write(&path, text).unwrap();
        let (entries, damages) = read(&path);
        assert_eq!(entries, [1, 3]);
        assert_eq!(damages.len(), 1);
        assert_eq!(damages[0].line, 2);
    }

    #[test]
    fn a_full_disk_leaves_nothing_of_the_entry() {
        // `/dev/full` refuses every write, as a full disk does.
        let Ok(file) = OpenOptions::new().append(true).open("/dev/full") else { return };
        let log = Log::new(PathBuf::from("/dev"));
        *log.open.lock().unwrap() = Some(Open { path: "/dev/full".into(), file, length: 0 });
        let told = log.append(&1_u32).unwrap_err().to_string();
        assert!(told.starts_with("cannot append to /dev/full: "), "{told}");
    }

    #[test]
    fn a_folder_that_is_gone_is_a_clear_error() {
        let told = Log::new(PathBuf::from("/nonexistent/inbox")).append(&1_u32).unwrap_err().to_string();
        assert!(told.contains("/nonexistent/inbox"), "{told}");
    }
}
