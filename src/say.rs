//! Data goes to stdout, talk to stderr. Colour is only an accent: no meaning is in it alone.

use crate::exit::Failure;
use comfy_table::{ContentArrangement, Table as Drawn, presets};
use serde::Serialize;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use trace::store::Table;

/// Writes data. A reader that has gone away is not an error of ours.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut write = || -> std::io::Result<()> {
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    match write() {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::infrastructure(format!("cannot write to stdout: {why}")))
        }
        _ => Ok(()),
    }
}

/// Writes data as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    data(&serde_json::to_string_pretty(value).map_err(Failure::infrastructure)?)
}

/// Says something to the person at the terminal.
pub(crate) fn talk(text: &str) {
    // Nobody is left to hear it if stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says that something is not as it should be, though the command goes on.
pub(crate) fn warn(text: &str) {
    talk(&format!("{} {text}", accent("warning:", "33")));
}

/// Says why a command failed.
pub(crate) fn error(text: &str) {
    talk(&format!("{} {text}", accent("error:", "31")));
}

/// The text in a colour, where stderr is a terminal that wants one.
pub(crate) fn accent(text: &str, colour: &str) -> String {
    let wanted = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// An answer as a table for people; unknown values show as `-`.
pub(crate) fn draw(table: &Table) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    drawn.set_header(table.columns.iter().map(|column| column.name.clone()));
    for row in &table.rows {
        drawn.add_row(row.iter().map(|value| clip(&plain(value))));
    }
    drawn.to_string()
}

/// A value as people read it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One line of at most 160 characters, without characters that would move the cursor.
pub(crate) fn clip(text: &str) -> String {
    let line: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    harness::machine::finish::clip(&line, 160)
}

/// An answer as CSV. Source: RFC 4180.
pub(crate) fn csv(table: &Table) -> String {
    let field = |text: String| match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let cell = |value: &Value| field(if value.is_null() { String::new() } else { plain(value) });
    let mut lines = vec![table.columns.iter().map(|column| field(column.name.clone())).collect::<Vec<_>>().join(",")];
    lines.extend(table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",")));
    lines.join("\r\n") + "\r\n"
}
