//! How far the index has read each log file, kept in the database beside the rows.

use super::index::Unreadable;
use duckdb::{Connection, params};
use std::collections::HashMap;
use std::path::PathBuf;

/// How far one file has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Bytes read; the size of the file for files that are read whole.
    pub(super) read_to: u64,
    /// Lines read.
    pub(super) lines: u64,
    /// When the file was changed last, for files that are read whole; 0 otherwise.
    pub(super) modified_at_ns: i64,
}

/// The marks of all files, and what could not be read, as the database has them.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) marks: HashMap<String, Mark>,
    pub(super) unreadable: Vec<Unreadable>,
}

impl Progress {
    pub(super) fn load(connection: &Connection) -> duckdb::Result<Self> {
        let mut progress = Self::default();
        let mut statement = connection.prepare(include_str!("../../sql/store/progress.sql"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mark = Mark {
                read_to: row.get::<_, i64>(1)?.unsigned_abs(),
                lines: row.get::<_, i64>(2)?.unsigned_abs(),
                modified_at_ns: row.get(3)?,
            };
            progress.marks.insert(row.get(0)?, mark);
        }
        let mut statement = connection.prepare(include_str!("../../sql/store/unreadable.sql"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let path = PathBuf::from(row.get::<_, String>(0)?);
            progress.unreadable.push(Unreadable {
                path,
                line: row.get::<_, i64>(1)?.unsigned_abs(),
                what: row.get(2)?,
            });
        }
        Ok(progress)
    }

    /// Writes marks and damages inside the open transaction; memory follows when it is committed.
    pub(super) fn write(
        connection: &Connection,
        marks: &HashMap<String, Mark>,
        unreadable: &[Unreadable],
    ) -> duckdb::Result<()> {
        for file in marks.keys() {
            connection.execute(include_str!("../../sql/store/forget_progress.sql"), [file])?;
            connection.execute(include_str!("../../sql/store/forget_unreadable.sql"), [file])?;
        }
        let mut appender = connection.appender("progress")?;
        for (file, mark) in marks {
            appender.append_row(params![file, mark.read_to, mark.lines, mark.modified_at_ns])?;
        }
        appender.flush()?;
        let mut appender = connection.appender("unreadable")?;
        for one in unreadable {
            appender.append_row(params![one.path.to_string_lossy(), one.line, one.what])?;
        }
        appender.flush()
    }

    /// Takes over what was committed.
    pub(super) fn commit(&mut self, marks: HashMap<String, Mark>, unreadable: Vec<Unreadable>) {
        self.unreadable
            .retain(|one| one.line > 0 || !marks.contains_key(one.path.to_string_lossy().as_ref()));
        self.unreadable.extend(unreadable);
        self.marks.extend(marks);
    }
}
