//! An answer: named columns and rows of JSON values. The same in the process and over HTTP.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number; as text where it is beyond 64 bits.
    Integer,
    /// A number.
    Number,
    /// An instant in UTC as ISO 8601 text.
    Timestamp,
    /// A list, struct or map.
    Json,
    /// Text; everything else is shown as text too.
    Text,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The rows, each with one value a column.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows than the limit.
    pub truncated: bool,
}

/// A table does not have the shape that the caller reads it in.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of the answer cannot be read: {source}")]
pub struct TableError {
    row: usize,
    source: serde_json::Error,
}

impl Table {
    /// The rows as objects, each with its columns by name.
    pub fn objects(&self) -> impl Iterator<Item = Map<String, Value>> {
        let names = || self.columns.iter().map(|column| column.name.clone());
        self.rows.iter().map(move |row| names().zip(row.iter().cloned()).collect())
    }

    /// The rows as structs with a field for each column they read.
    ///
    /// # Errors
    /// When a row lacks a field or has it in another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, TableError> {
        self.objects()
            .enumerate()
            .map(|(row, object)| {
                serde_json::from_value(Value::Object(object))
                    .map_err(|source| TableError { row: row + 1, source })
            })
            .collect()
    }

    /// The table with these columns only, in this order; names it does not have are left out.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        let at = |name: &&str| self.columns.iter().position(|column| column.name == **name);
        let kept: Vec<usize> = names.iter().filter_map(at).collect();
        let pick = |row: &Vec<Value>| kept.iter().filter_map(|index| row.get(*index).cloned()).collect();
        Self {
            columns: kept.iter().map(|index| self.columns[*index].clone()).collect(),
            rows: self.rows.iter().map(pick).collect(),
            truncated: self.truncated,
        }
    }

    /// The values of one column; empty where there is no such column.
    pub fn column(&self, name: &str) -> impl Iterator<Item = &Value> {
        let index = self.columns.iter().position(|column| column.name == name);
        self.rows.iter().filter_map(move |row| row.get(index?))
    }
}
