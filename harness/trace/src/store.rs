//! The only door to DuckDB: the index over the logs, written by one thread and read by many.
//!
//! Place in the flow: log -> row -> **store** -> question. Opening takes the home's lock. The writer thread owns
//! the write connection and reads the logs itself, so its queue is on disk and never drops anything; readers see
//! whole batches. Everything in here can be derived again: [`Store::rebuild`].

mod append;
mod ask;
mod guard;
mod index;
mod progress;
mod schema;
mod table;
mod writer;

pub use ask::QueryError;
pub use index::{Indexed, Unreadable};
pub use table::{Column, Kind, Table, TableError};

use crate::home::Home;
use crate::lock::{Lock, LockError};
use crate::question::Question;
use duckdb::{Config, Connection};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The DuckDB this program is built and tested with.
const VERSION: &str = "v1.5.5";
/// What DuckDB may use of memory: queries beyond it spill to disk.
const MEMORY_LIMIT: &str = "512MB";
/// A checkpoint stalls the writer for seconds, so it is rare.
const CHECKPOINT_THRESHOLD: &str = "256MB";

/// The index could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else owns the database.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// DuckDB refused.
    #[error("{}: {source}; the logs are intact: `loopdeck doctor --rebuild` derives it anew", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: duckdb::Error,
    },
    /// Another DuckDB than the one tested was found at run time.
    #[error(
        "found DuckDB {found}, but this program needs {VERSION}: unset LD_LIBRARY_PATH and DUCKDB_LIB_DIR, or build again"
    )]
    Version {
        /// What was found.
        found: String,
    },
    /// The file was written by a later version of this program.
    #[error("{} has schema {found}, newer than the {known} known here: upgrade, or `loopdeck doctor --rebuild`", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known.
        known: i64,
    },
    /// A file or folder of the logs cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The writer thread is gone.
    #[error("the index writer has stopped: restart; the logs are intact")]
    WriterGone,
}

/// The index of one home, owned by this process until dropped.
#[derive(Debug)]
pub struct Store {
    // Dropped in this order: the writer ends its batch, then connections close, then the lock is free.
    writer: writer::Handle,
    idle: Mutex<Vec<Connection>>,
    first: Mutex<Connection>,
    lock: Lock,
}

impl Store {
    /// Takes the lock and opens the index, creating it if it is not there.
    ///
    /// # Errors
    /// When somebody else owns it, or it cannot be opened.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        Self::with_lock(home, Lock::try_take(home)?)
    }

    /// As [`Store::open`], waiting for the lock at most this long.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_within(home: &Home, wait: Duration) -> Result<Self, StoreError> {
        Self::with_lock(home, Lock::take_within(home, wait)?)
    }

    /// Opens the index with a lock that is already held.
    pub(crate) fn with_lock(home: &Home, lock: Lock) -> Result<Self, StoreError> {
        let path = home.database();
        let failed = |source| StoreError::Database { path: path.clone(), source };
        let first = connect(&path).map_err(failed)?;
        schema::prepare(&first, &path)?;
        let writing = first.try_clone().map_err(failed)?;
        let writer = writer::start(writing, home.clone())?;
        Ok(Self { writer, idle: Mutex::default(), first: Mutex::new(first), lock })
    }

    /// Drops the index and derives it from the logs anew.
    ///
    /// # Errors
    /// As [`Store::open`], and when the old files cannot be removed.
    pub fn rebuild(home: &Home) -> Result<(Self, Indexed), StoreError> {
        let lock = Lock::try_take(home)?;
        let path = home.database();
        for file in [path.clone(), PathBuf::from(format!("{}.wal", path.display()))] {
            match std::fs::remove_file(&file) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::File { path: file, source });
                }
                _ => {}
            }
        }
        let store = Self::with_lock(home, lock)?;
        let indexed = store.catch_up()?;
        Ok((store, indexed))
    }

    /// Tells readers where this process answers them.
    ///
    /// # Errors
    /// When `owner.json` cannot be written.
    pub fn announce(&self, addr: SocketAddr, token: &str) -> Result<(), StoreError> {
        Ok(self.lock.announce(addr, token)?)
    }

    /// Reads every log from where the index stands to its present end. When it returns, what was acknowledged
    /// before the call can be asked for. Costs a listing of the log folders when nothing is new.
    ///
    /// # Errors
    /// When DuckDB refuses, or a log folder cannot be listed. What cannot be read of a log is no error: it is
    /// told in the answer, and the rest is indexed.
    pub fn catch_up(&self) -> Result<Indexed, StoreError> {
        self.writer.catch_up()
    }

    /// Asks one of the questions of [`crate::question`].
    ///
    /// # Errors
    /// As [`Store::query`].
    pub fn ask(&self, question: &Question) -> Result<Table, QueryError> {
        self.query(question.sql, &question.params, question.limit)
    }

    /// Runs one reading statement; at most `limit` rows come back, and the table says whether there were more.
    ///
    /// # Errors
    /// When the statement is not a single reading one, or DuckDB refuses it, or it takes too long.
    pub fn query(&self, sql: &str, params: &[serde_json::Value], limit: usize) -> Result<Table, QueryError> {
        let connection = self.connection()?;
        let answer = ask::run(&connection, sql, params, limit);
        // A connection goes back only after it has answered or failed cleanly; a panic closes it instead.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        answer
    }

    /// A text that is equal for indexes that say the same, whatever order they were written in.
    ///
    /// # Errors
    /// As [`Store::query`].
    pub fn checksum(&self) -> Result<String, QueryError> {
        let table = self.query(include_str!("../sql/store/checksum.sql"), &[], 1)?;
        Ok(serde_json::Value::from(table.rows.concat()).to_string())
    }

    fn connection(&self) -> Result<Connection, QueryError> {
        if let Some(idle) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(idle);
        }
        Ok(self.first.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?)
    }
}

fn connect(path: &Path) -> Result<Connection, duckdb::Error> {
    let config = Config::default()
        .enable_external_access(false)?
        .enable_autoload_extension(false)?
        .with("autoinstall_known_extensions", "false")?
        .max_memory(MEMORY_LIMIT)?
        .with("checkpoint_threshold", CHECKPOINT_THRESHOLD)?;
    #[expect(clippy::disallowed_methods, reason = "this is the one place, and the lock is held")]
    let connection = Connection::open_with_flags(path, config)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
