//! The writer thread: the one that writes to DuckDB.

use super::StoreError;
use super::index::Indexed;
use super::progress::Progress;
use crate::home::Home;
use duckdb::Connection;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

/// How many callers may wait for the writer before the next one waits for its turn to ask.
const QUEUE: usize = 64;

/// What the writer is asked to do: catch up, and say how it went.
type Request = SyncSender<Result<Indexed, StoreError>>;

/// How the rest of the store reaches the writer; dropping it ends the thread after its present batch.
#[derive(Debug)]
pub(super) struct Handle {
    requests: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) home: Home,
    pub(super) progress: Progress,
    pub(super) last_row_id: i64,
    pub(super) last_nth: i64,
}

pub(super) fn start(connection: Connection, home: Home) -> Result<Handle, StoreError> {
    let path = home.database();
    let writer = Writer::load(connection, home)
        .map_err(|source| StoreError::Database { path: path.clone(), source })?;
    let (requests, queue) = mpsc::sync_channel(QUEUE);
    let thread = std::thread::Builder::new()
        .name("index-writer".to_owned())
        .spawn(move || serve(writer, &queue))
        .map_err(|source| StoreError::File { path, source })?;
    Ok(Handle { requests: Some(requests), thread: Some(thread) })
}

fn serve(mut writer: Writer, queue: &Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        let answer = writer.catch_up();
        // Whoever asked before this catch-up began has to wait for its own: it may have appended since.
        let _ = first.send(answer);
    }
}

impl Handle {
    pub(super) fn catch_up(&self) -> Result<Indexed, StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().ok_or(StoreError::WriterGone)?;
        requests.send(reply).map_err(|_| StoreError::WriterGone)?;
        answer.recv().map_err(|_| StoreError::WriterGone)?
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the writer was already told to whoever waited for it.
            let _ = thread.join();
        }
    }
}

impl Writer {
    fn load(connection: Connection, home: Home) -> duckdb::Result<Self> {
        let (last_row_id, changes, silences): (i64, i64, i64) =
            connection.query_row(include_str!("../../sql/store/counters.sql"), [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let progress = Progress::load(&connection)?;
        Ok(Self { connection, home, progress, last_row_id, last_nth: changes.max(silences) })
    }

    pub(super) fn database_error(&self, source: duckdb::Error) -> StoreError {
        StoreError::Database { path: self.home.database(), source }
    }
}
