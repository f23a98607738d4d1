//! Prices of well-known models, from the shipped table.
//!
//! Place in the flow: an agent without its own `[model.price]` is given one here when it is made ready, so that
//! the tape holds the price the run was counted with. A model that the table does not know stays unpriced.

use crate::config::Price;
use serde::Deserialize;

/// The shipped table: public list prices with source and date.
const TABLE: &str = include_str!("../../datasets/price.toml");

#[derive(Deserialize)]
struct Table {
    #[serde(rename = "price")]
    prices: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    model: String,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// The price of a model: the row whose `model` is its name, or is the longest beginning of it that ends where a
/// dated variant begins (`gpt-4o` also prices `gpt-4o-2024-08-06`).
#[must_use]
pub fn of_model(name: &str) -> Option<Price> {
    let table: Table = toml::from_str(TABLE).ok()?;
    let row =
        table.prices.into_iter().filter(|row| covers(&row.model, name)).max_by_key(|row| row.model.len())?;
    Some(Price {
        input: row.input,
        output: row.output,
        cache_read: row.cache_read,
        cache_write: row.cache_write,
    })
}

fn covers(row: &str, name: &str) -> bool {
    match name.strip_prefix(row) {
        Some("") => true,
        Some(rest) => {
            rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_can_be_read_and_prices_dated_variants_only() {
        let table: Table = toml::from_str(TABLE).unwrap();
        assert!(table.prices.iter().all(|row| row.input >= 0.0 && row.output >= 0.0));
        assert_eq!(of_model("gpt-4o-2024-08-06"), of_model("gpt-4o"));
        assert!(of_model("gpt-4o").is_some());
        assert_eq!(of_model("some-model-nobody-knows"), None);
    }
}
