//! What people may ask in SQL: one statement that reads, checked by DuckDB's own parser.
//!
//! The check is one of several locks: the transaction is read-only, access to files and network is off, and the
//! configuration cannot be changed.

use super::QueryError;
use duckdb::Connection;
use serde_json::Value;

/// Functions that may stand where a table does. Others can reach outside the tables or change the server.
const TABLE_FUNCTIONS: [&str; 14] = [
    "range",
    "generate_series",
    "unnest",
    "repeat",
    "json_each",
    "json_tree",
    "regexp_split_to_table",
    "string_split",
    "duckdb_columns",
    "duckdb_functions",
    "duckdb_tables",
    "duckdb_views",
    "pragma_table_info",
    "summary",
];

/// A statement that may run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Allowed<'a> {
    /// A query, which can stand in parentheses.
    Select(&'a str),
    /// An explanation of a query, whole.
    Explain(&'a str),
}

/// Checks a statement; returns it without what follows its end.
pub(super) fn check<'a>(connection: &Connection, sql: &'a str) -> Result<Allowed<'a>, QueryError> {
    let sql = without_end(connection, sql.trim())?;
    match explained(sql) {
        Some(query) => {
            select(connection, query)?;
            Ok(Allowed::Explain(sql))
        }
        None => {
            select(connection, sql)?;
            Ok(Allowed::Select(sql))
        }
    }
}

/// Cuts a closing `;` and comments after it; a `;` inside a text is none, as the parser says.
fn without_end<'a>(connection: &Connection, mut sql: &'a str) -> Result<&'a str, QueryError> {
    while let Some(end) = sql.rfind(';') {
        let rest = parse(connection, &sql[end + 1..])?;
        if statements(&rest).is_none_or(|rest| !rest.is_empty()) {
            break;
        }
        sql = sql[..end].trim_end();
    }
    Ok(sql)
}

fn explained(sql: &str) -> Option<&str> {
    let rest = after_word(sql, "explain")?;
    Some(after_word(rest, "analyze").unwrap_or(rest))
}

fn after_word<'a>(sql: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = sql.split_at_checked(word.len())?;
    (head.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

fn select(connection: &Connection, sql: &str) -> Result<(), QueryError> {
    let parsed = parse(connection, sql)?;
    let Some(found) = statements(&parsed) else { return Err(refusal(&parsed)) };
    match found.len() {
        1 => {}
        0 => return Err(QueryError::Refused("there is no statement".to_owned())),
        many => return Err(QueryError::Refused(format!("there are {many} statements; ask one at a time"))),
    }
    match forbidden(&parsed) {
        None => Ok(()),
        Some(function) => {
            Err(QueryError::Refused(format!("the table function `{function}` is not allowed here")))
        }
    }
}

fn parse(connection: &Connection, sql: &str) -> Result<Value, QueryError> {
    let text: String =
        connection.query_row(include_str!("../../sql/store/parse.sql"), [sql], |row| row.get(0))?;
    serde_json::from_str(&text).map_err(|why| QueryError::Refused(format!("its parse cannot be read: {why}")))
}

fn statements(parsed: &Value) -> Option<&Vec<Value>> {
    parsed.get("statements")?.as_array()
}

fn refusal(parsed: &Value) -> QueryError {
    let message = parsed.get("error_message").and_then(Value::as_str).unwrap_or("it is not understood");
    if message.starts_with("Only SELECT") {
        let what = "only a statement that reads is allowed: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN";
        return QueryError::Refused(what.to_owned());
    }
    QueryError::Refused(message.to_owned())
}

/// The first table function anywhere in the tree that is not on the list.
fn forbidden(tree: &Value) -> Option<&str> {
    match tree {
        Value::Array(items) => items.iter().find_map(forbidden),
        Value::Object(map) => {
            if map.get("type").is_some_and(|kind| kind == "TABLE_FUNCTION") {
                let name = map.get("function").and_then(|function| function.get("function_name")?.as_str());
                let name = name.unwrap_or("?");
                if !TABLE_FUNCTIONS.contains(&name.to_ascii_lowercase().as_str()) {
                    return Some(name);
                }
            }
            map.values().find_map(forbidden)
        }
        _ => None,
    }
}
