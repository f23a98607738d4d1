//! Tables and views of the index: created, migrated, and refused when they are newer than this program.

use super::{StoreError, VERSION};
use crate::id::Hash;
use duckdb::{Connection, params};
use std::path::Path;

const VERSION_TABLE: &str = include_str!("../../sql/schema/000_version.sql");
const FOUND: &str = include_str!("../../sql/store/version.sql");
/// What brings a database from one schema to the next, in order: the first makes an empty one schema 1.
const MIGRATIONS: [&str; 1] = [include_str!("../../sql/schema/001_tables.sql")];

/// The views, each after those it is made of.
pub(super) const VIEWS: [(&str, &str); 11] = [
    ("span_live", include_str!("../../sql/view/span_live.sql")),
    ("call_once", include_str!("../../sql/view/call_once.sql")),
    ("call_live", include_str!("../../sql/view/call_live.sql")),
    ("model_calls", include_str!("../../sql/view/model_calls.sql")),
    ("tool_calls", include_str!("../../sql/view/tool_calls.sql")),
    ("turns", include_str!("../../sql/view/turns.sql")),
    ("spans", include_str!("../../sql/view/spans.sql")),
    ("messages", include_str!("../../sql/view/messages.sql")),
    ("scores", include_str!("../../sql/view/scores.sql")),
    ("alerts", include_str!("../../sql/view/alerts.sql")),
    ("runs", include_str!("../../sql/view/runs.sql")),
];

/// Brings the database to the newest schema and locks its configuration.
pub(super) fn prepare(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Database { path: path.to_owned(), source };
    connection.execute_batch(VERSION_TABLE).map_err(failed)?;
    let (library, found, views): (String, Option<i64>, Option<String>) =
        connection.query_row(FOUND, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(failed)?;
    if library != VERSION {
        return Err(StoreError::Version { found: library });
    }
    let (known, found) = (known(), found.unwrap_or(0));
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    let wanted = views_hash();
    if found < known || views.as_deref() != Some(&wanted) {
        migrate(connection, found, &wanted).map_err(failed)?;
    }
    connection.execute_batch("SET lock_configuration = true").map_err(failed)
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// One transaction, then a checkpoint: schema changes mixed with data in the write-ahead log are fragile.
fn migrate(connection: &Connection, found: i64, views: &str) -> duckdb::Result<()> {
    connection.execute_batch("BEGIN TRANSACTION")?;
    let done = (|| {
        for script in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            connection.execute_batch(script)?;
        }
        for (_, script) in VIEWS {
            connection.execute_batch(script)?;
        }
        connection.execute("DELETE FROM schema_version", [])?;
        connection.execute("INSERT INTO schema_version VALUES ($1, $2)", params![known(), views])
    })();
    connection.execute_batch(if done.is_ok() { "COMMIT; CHECKPOINT" } else { "ROLLBACK" })?;
    done.map(drop)
}

fn views_hash() -> String {
    let all: String = VIEWS.iter().map(|(_, script)| *script).collect();
    Hash::of(all.as_bytes()).short()
}
