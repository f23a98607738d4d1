//! Running a reading statement and turning its answer into a [`Table`].
//!
//! A query is asked for its columns first, then run inside an outer query that names them by place, casts what
//! JSON cannot say, and limits the rows. So columns of one name stay apart and no type can surprise the decoder.

use super::guard::{self, Allowed};
use super::table::{Column, Kind, Table};
use duckdb::types::{ToSqlOutput, Value as Cell};
use duckdb::{Connection, ToSql, params_from_iter};
use serde_json::{Number, Value};
use std::sync::mpsc;
use std::time::Duration;

/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A query that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The statement may not run.
    #[error("this statement cannot be asked: {0}")]
    Refused(String),
    /// It took too long.
    #[error("the query took more than {} seconds and was stopped: narrow it by run or by time", PATIENCE.as_secs())]
    TooSlow,
    /// DuckDB refused it.
    #[error("{0}")]
    Database(#[from] duckdb::Error),
}

/// A parameter of a statement.
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> duckdb::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Owned(Cell::Null),
            Value::Bool(flag) => ToSqlOutput::Owned(Cell::Boolean(*flag)),
            Value::Number(number) => ToSqlOutput::Owned(number_cell(number)),
            Value::String(text) => text.as_str().into(),
            list => ToSqlOutput::Owned(Cell::Text(list.to_string())),
        })
    }
}

fn number_cell(number: &Number) -> Cell {
    number
        .as_i64()
        .map(Cell::BigInt)
        .or_else(|| number.as_u64().map(Cell::UBigInt))
        .unwrap_or_else(|| Cell::Double(number.as_f64().unwrap_or(f64::NAN)))
}

/// Runs a statement on a connection that nobody else uses meanwhile.
pub(super) fn run(
    connection: &Connection,
    sql: &str,
    params: &[Value],
    limit: usize,
) -> Result<Table, QueryError> {
    let allowed = guard::check(connection, sql)?;
    connection.execute_batch("BEGIN TRANSACTION READ ONLY")?;
    let answer = patiently(connection, || match allowed {
        Allowed::Select(sql) => select(connection, sql, params, limit),
        Allowed::Explain(sql) => explain(connection, sql, params, limit),
    });
    connection.execute_batch("ROLLBACK")?;
    answer
}

/// Interrupts the connection when the work takes too long.
fn patiently<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let handle = connection.interrupt_handle();
    let (done, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let late = wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                handle.interrupt();
            }
            late
        });
        let answer = work();
        drop(done);
        match (watch.join(), answer) {
            (Ok(true), Err(_)) => Err(QueryError::TooSlow),
            (_, answer) => answer,
        }
    })
}

fn select(connection: &Connection, sql: &str, params: &[Value], limit: usize) -> Result<Table, QueryError> {
    let described = described(connection, sql, params)?;
    let names: Vec<String> = (0..described.len()).map(|place| format!("c{place}")).collect();
    let columns: Vec<Column> =
        described.iter().map(|(name, kind)| Column { name: name.clone(), kind: kind_of(kind) }).collect();
    let shown: Vec<String> = names
        .iter()
        .zip(&described)
        .zip(&columns)
        .map(|((name, (_, kind)), column)| cast(name, kind, column.kind))
        .collect();
    let more = limit.saturating_add(1);
    let outer =
        format!("SELECT {} FROM (\n{sql}\n) AS answer({}) LIMIT {more}", shown.join(", "), names.join(", "));
    read(connection, &outer, params, columns, limit)
}

fn explain(connection: &Connection, sql: &str, params: &[Value], limit: usize) -> Result<Table, QueryError> {
    let columns =
        ["explain_key", "explain_value"].map(|name| Column { name: name.to_owned(), kind: Kind::Text });
    read(connection, sql, params, columns.into(), limit)
}

/// Names and types of a query's columns.
fn described(
    connection: &Connection,
    sql: &str,
    params: &[Value],
) -> Result<Vec<(String, String)>, QueryError> {
    let mut statement = connection.prepare(&format!("DESCRIBE (\n{sql}\n)"))?;
    let mut rows = statement.query(params_from_iter(params.iter().map(Param)))?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next()? {
        columns.push((row.get(0)?, row.get(1)?));
    }
    Ok(columns)
}

fn kind_of(duckdb_type: &str) -> Kind {
    match duckdb_type {
        "BOOLEAN" => Kind::Boolean,
        "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT" | "UTINYINT" | "USMALLINT" | "UINTEGER" | "UBIGINT"
        | "HUGEINT" | "UHUGEINT" => Kind::Integer,
        "FLOAT" | "DOUBLE" => Kind::Number,
        "JSON" => Kind::Json,
        other if other.starts_with("DECIMAL") => Kind::Number,
        other if other.ends_with(']') || other.starts_with("STRUCT") || other.starts_with("MAP") => {
            Kind::Json
        }
        other if other.starts_with("TIMESTAMP") => Kind::Timestamp,
        _ => Kind::Text,
    }
}

fn cast(name: &str, duckdb_type: &str, kind: Kind) -> String {
    match kind {
        Kind::Boolean | Kind::Integer => name.to_owned(),
        Kind::Number => format!("{name}::DOUBLE"),
        Kind::Json => format!("to_json({name})::VARCHAR"),
        Kind::Timestamp => format!("{name}::TIMESTAMP::VARCHAR"),
        Kind::Text if duckdb_type == "VARCHAR" => name.to_owned(),
        Kind::Text => format!("{name}::VARCHAR"),
    }
}

fn read(
    connection: &Connection,
    sql: &str,
    params: &[Value],
    columns: Vec<Column>,
    limit: usize,
) -> Result<Table, QueryError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params_from_iter(params.iter().map(Param)))?;
    let mut table = Table { columns, ..Table::default() };
    while let Some(row) = rows.next()? {
        if table.rows.len() == limit {
            table.truncated = true;
            break;
        }
        let cells = table.columns.iter().enumerate();
        let values = cells.map(|(place, column)| Ok(value(row.get(place)?, column.kind)));
        let values: duckdb::Result<Vec<Value>> = values.collect();
        table.rows.push(values?);
    }
    Ok(table)
}

/// A cell of one of the types that [`cast`] leaves.
fn value(cell: Cell, kind: Kind) -> Value {
    match cell {
        Cell::Boolean(flag) => flag.into(),
        Cell::TinyInt(number) => number.into(),
        Cell::SmallInt(number) => number.into(),
        Cell::Int(number) => number.into(),
        Cell::BigInt(number) => number.into(),
        Cell::UTinyInt(number) => number.into(),
        Cell::USmallInt(number) => number.into(),
        Cell::UInt(number) => number.into(),
        Cell::UBigInt(number) => number.into(),
        Cell::HugeInt(number) => {
            i64::try_from(number).map_or_else(|_| number.to_string().into(), Value::from)
        }
        Cell::UHugeInt(number) => {
            u64::try_from(number).map_or_else(|_| number.to_string().into(), Value::from)
        }
        Cell::Double(number) => number.into(),
        Cell::Text(text) => match kind {
            Kind::Json => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Kind::Timestamp if text.len() > 10 && text.is_char_boundary(10) => {
                format!("{}T{}Z", &text[..10], text[10..].trim_start()).into()
            }
            _ => Value::String(text),
        },
        _ => Value::Null,
    }
}
