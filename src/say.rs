//! Data goes to stdout, talk to stderr. Colour is only an accent: no meaning is in it alone.

use crate::exit::Failure;
use comfy_table::{ContentArrangement, Table as Drawn, TableComponent, presets};
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

/// Writes one JSON object as a line. Nobody is left to read it if stdout is closed.
pub(crate) fn event(value: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Whether a person sees stdout.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
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
    if is_colourful() { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Whether stderr is a terminal that wants colours.
pub(crate) fn is_colourful() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// An answer as a table for people; unknown values show as `-`.
pub(crate) fn draw(table: &Table) -> String {
    let mut drawn = Drawn::new();
    // One line a row, so that a screen holds many and `grep` finds whole ones: only the header is underlined.
    drawn.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    for rule in [TableComponent::HorizontalLines, TableComponent::MiddleIntersections] {
        drawn.remove_style(rule);
    }
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
        // Sums of prices carry the noise of binary fractions: people read ten digits.
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|float| format!("{float:.10}"));
            rounded.map_or_else(|| number.to_string(), |text| trimmed(&text).to_owned())
        }
        other => other.to_string(),
    }
}

/// A decimal number without the zeros at its end.
fn trimmed(text: &str) -> &str {
    text.trim_end_matches('0').trim_end_matches('.')
}

/// One line of at most 160 characters, without characters that would move the cursor.
pub(crate) fn clip(text: &str) -> String {
    clip_to(text, 160)
}

/// One line of at most so many characters, without characters that would move the cursor.
pub(crate) fn clip_to(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    harness::machine::finish::clip(&line, most)
}

/// A number with its thing, in the plural where there is not exactly one.
pub(crate) fn counted(number: u32, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// An answer as CSV. Source: RFC 4180.
pub(crate) fn csv(table: &Table) -> String {
    let field = |text: String| match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    // CSV is read by programs: numbers stay as they are.
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => field(text.clone()),
        other => field(other.to_string()),
    };
    let mut lines =
        vec![table.columns.iter().map(|column| field(column.name.clone())).collect::<Vec<_>>().join(",")];
    lines.extend(table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",")));
    lines.join("\r\n") + "\r\n"
}
