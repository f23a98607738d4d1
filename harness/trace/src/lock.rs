//! Who may open the database: one process at a time, decided by a lock on one file.
//!
//! Place in the flow: [`crate::store`] takes the lock before it opens DuckDB; [`crate::reader`] waits for it or
//! asks its holder. The operating system releases the lock when its holder dies, so it is never stale.
//! `owner.json` says how to reach a holder that answers readers; it means something only while the lock is held.

use crate::home::Home;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to pause between two tries.
const POLL: Duration = Duration::from_millis(20);

/// The lock, held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    owner: PathBuf,
}

/// How to reach the process that owns the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// Where it answers, on loopback.
    pub addr: SocketAddr,
    /// What a reader must present.
    pub token: String,
}

/// The lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("the database of {} is in use by {holder}; wait for it to end, or let `loopdeck serve` own it", home.display())]
    Held {
        /// The home folder.
        home: PathBuf,
        /// Who has it, as far as it is known.
        holder: String,
    },
    /// A file of the lock cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// [`LockError::Held`] when somebody has it.
    pub fn try_take(home: &Home) -> Result<Self, LockError> {
        let path = home.lock();
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { home: home.root().to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        sign(&mut file).map_err(failed)?;
        Ok(Self { file, owner: home.owner() })
    }

    /// Takes the lock, waiting for it at most this long.
    ///
    /// # Errors
    /// [`LockError::Held`] when somebody still has it after the wait.
    pub fn take_within(home: &Home, wait: Duration) -> Result<Self, LockError> {
        let started = Instant::now();
        loop {
            match Self::try_take(home) {
                Err(LockError::Held { .. }) if started.elapsed() < wait => std::thread::sleep(POLL),
                other => return other,
            }
        }
    }

    /// Tells readers where the holder answers; removed again when the lock is dropped.
    ///
    /// # Errors
    /// When `owner.json` cannot be written.
    pub fn announce(&self, addr: SocketAddr, token: &str) -> Result<(), LockError> {
        let owner = Owner { pid: std::process::id(), addr, token: token.to_owned() };
        write_private(&self.owner, &serde_json::to_vec(&owner).unwrap_or_default())
            .map_err(|source| LockError::File { path: self.owner.clone(), source })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only the holder can have written it. A failure leaves a file that nobody trusts without the lock.
        let _ = fs::remove_file(&self.owner);
        let _ = self.file.unlock();
    }
}

impl Owner {
    /// Reads what the holder announced; `None` where nobody did. Trust it only while the lock is held.
    #[must_use]
    pub fn read(home: &Home) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.owner()).ok()?).ok()
    }
}

/// Writes who holds the lock, for the message of those who wait.
fn sign(file: &mut File) -> io::Result<()> {
    let mut command: Vec<String> = std::env::args().take(2).collect();
    if let Some(program) = command.first_mut() {
        *program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "`{}` (process {})", command.join(" "), std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(512).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

/// Written beside and renamed, so that a reader never sees half of it; the token is for its owner's eyes.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("json.part");
    let _ = fs::remove_file(&part);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(&part)?.write_all(bytes)?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path().to_owned()).unwrap();
        (folder, home)
    }

    #[test]
    fn a_second_taker_learns_who_holds_it_and_gets_it_when_it_is_free() {
        let (_folder, home) = home();
        let first = Lock::try_take(&home).unwrap();
        let told = Lock::take_within(&home, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
        drop(first);
        Lock::try_take(&home).unwrap();
    }

    #[test]
    fn the_owner_is_announced_privately_and_forgotten_with_the_lock() {
        let (_folder, home) = home();
        let lock = Lock::try_take(&home).unwrap();
        lock.announce("127.0.0.1:7878".parse().unwrap(), "secret").unwrap();
        assert_eq!(Owner::read(&home).unwrap().token, "secret");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(home.owner()).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(lock);
        assert_eq!(Owner::read(&home), None);
    }
}
