//! The disk under a tape, as a port: tests fill it up, cut its writes and watch the order of syncs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

/// Something that bytes can be appended to and made to last.
pub trait Disk: Send + std::fmt::Debug {
    /// Appends all bytes. On return they survive the death of this process.
    ///
    /// # Errors
    /// What the system says; part of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything appended survive the loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
}

impl FileDisk {
    /// Creates a file that must not exist yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self { file: alone(file)? })
    }

    /// Opens a file to append to, after cutting it to `length` bytes.
    ///
    /// # Errors
    /// What the system says.
    pub fn reopen(path: &Path, length: u64) -> io::Result<Self> {
        let file = alone(OpenOptions::new().append(true).open(path)?)?;
        file.set_len(length)?;
        Ok(Self { file })
    }
}

/// Holds the file against a second writer until it is closed, by the death of this process too.
fn alone(file: File) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another process is writing it: the run is going on there",
        )),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Whether a process holds a tape to write it. A tape without an end that nobody holds is that of a run whose process
/// died.
///
/// # Errors
/// What the system says, also where there is no such file.
pub fn is_held(path: &Path) -> io::Result<bool> {
    match File::open(path)?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

impl Disk for FileDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
