//! `read_file`: the lines of a text file.

use super::{Root, failed, inside};
use crate::tool::typed::Typed;
use crate::tool::{Effect, Risk};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Most of a file that one call gives, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// How far into a file lines are counted, in bytes.
const MAX_SCANNED_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the root.
    path: String,
    /// First line to give, counted from 1; the first of the file where absent.
    #[serde(default)]
    from_line: Option<u64>,
    /// How many lines to give at most; all where absent.
    #[serde(default)]
    lines: Option<u64>,
}

pub(super) fn tool(root: Arc<Root>) -> Typed {
    let description =
        "Reads a text file, whole or from one line on. A long file is cut, and says where to go on.";
    Typed::new("read_file", description, Risk::Read, Effect::Pure, move |arguments: Arguments, _| {
        root.clone().work(move |root| read(root, &arguments))
    })
}

fn read(root: &Root, arguments: &Arguments) -> Result<String, Fault> {
    let path = inside(&arguments.path)?;
    let metadata = root.dir.metadata(&path).map_err(|why| failed("read", &path, &why))?;
    if !metadata.is_file() {
        // A pipe or a device could be read for ever.
        return Err(Fault::new(FaultClass::Permanent, format!("`{}` is no file", path.display())));
    }
    let file = root.dir.open(&path).map_err(|why| failed("read", &path, &why))?;
    let mut file = BufReader::new(file.take(MAX_SCANNED_BYTES));
    let (first, wanted) = (arguments.from_line.unwrap_or(1).max(1), arguments.lines.unwrap_or(u64::MAX));
    let (mut kept, mut line, mut number) = (Vec::new(), Vec::new(), 0_u64);
    while number < first.saturating_add(wanted).saturating_sub(1) {
        line.clear();
        // One byte more than fits tells a line that is too long from one that just fits.
        let limit = (MAX_BYTES - kept.len()) as u64 + 1;
        let length = file
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(|why| failed("read", &path, &why))?;
        if length == 0 {
            break;
        }
        number += 1;
        if number < first {
            skip_rest(&mut file, &line).map_err(|why| failed("read", &path, &why))?;
            continue;
        }
        if kept.len() + line.len() > MAX_BYTES {
            return cut(&path.display().to_string(), kept, &line, number);
        }
        kept.append(&mut line);
    }
    text(&path.display().to_string(), kept)
}

/// Reads on to the end of a line of which only the head is wanted.
fn skip_rest(file: &mut impl std::io::BufRead, head: &[u8]) -> std::io::Result<()> {
    if head.last() == Some(&b'\n') {
        return Ok(());
    }
    loop {
        let buffer = file.fill_buf()?;
        let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        file.consume(used);
        if done {
            return Ok(());
        }
    }
}

fn cut(path: &str, kept: Vec<u8>, line: &[u8], number: u64) -> Result<String, Fault> {
    if kept.is_empty() {
        let head = String::from_utf8_lossy(&line[..line.len().min(MAX_BYTES)]);
        return Ok(format!("{head}\n[line {number} is longer than {MAX_BYTES} bytes and was cut]"));
    }
    Ok(format!("{}[cut here: go on with from_line = {number}]", text(path, kept)?))
}

fn text(path: &str, bytes: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        Fault::new(
            FaultClass::Permanent,
            format!("`{path}` is no UTF-8 text (from byte {at} of what was asked for)"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{house, tool, ways_out};
    use super::*;
    use crate::config::Builtin;
    use crate::tool::sample::ran;
    use serde_json::json;

    #[tokio::test]
    async fn a_file_is_read_whole_or_in_part() {
        let house = house();
        let read = tool(&house, Builtin::ReadFile, &[]);
        for (arguments, wanted) in [
            (json!({"path": "hello.txt"}), "first\nsecond\nthird\n"),
            (json!({"path": "hello.txt", "from_line": 2}), "second\nthird\n"),
            (json!({"path": "hello.txt", "from_line": 2, "lines": 1}), "second\n"),
            (json!({"path": "hello.txt", "lines": 0}), ""),
            (json!({"path": "hello.txt", "from_line": 9}), ""),
            (json!({"path": "./notes/plan.md", "lines": 1}), "a plan\n"),
        ] {
            assert_eq!(ran(&read, &arguments.to_string()).await.unwrap(), wanted, "{arguments}");
        }
    }

    #[tokio::test]
    async fn no_path_and_no_link_leads_out_of_the_root() {
        let house = house();
        let read = tool(&house, Builtin::ReadFile, &[]);
        for path in ways_out(&house) {
            let fault = ran(&read, &json!({"path": path}).to_string()).await.unwrap_err();
            assert!(!fault.message.contains("the secret"), "{path}");
            assert_eq!(fault.class, FaultClass::Permanent, "{path}");
        }
        #[cfg(unix)]
        assert!(ran(&read, r#"{"path":"inner.txt"}"#).await.is_ok(), "a link that stays inside is followed");
    }

    #[tokio::test]
    async fn a_long_file_is_cut_at_a_line_and_says_where_to_go_on() {
        let house = house();
        let line = format!("{}\n", "x".repeat(99));
        std::fs::write(house.path().join("root/long.txt"), line.repeat(20_000)).unwrap();
        let read = tool(&house, Builtin::ReadFile, &[]);
        let answer = ran(&read, r#"{"path":"long.txt"}"#).await.unwrap();
        let kept = MAX_BYTES / line.len();
        assert!(answer.len() <= MAX_BYTES + 64);
        assert!(answer.ends_with(&format!("[cut here: go on with from_line = {}]", kept + 1)));
        let rest = json!({"path": "long.txt", "from_line": 19_999}).to_string();
        assert_eq!(ran(&read, &rest).await.unwrap(), line.repeat(2));
    }

    #[tokio::test]
    async fn one_endless_line_is_cut_too() {
        let house = house();
        let text = format!("{}\nlast\n", "x".repeat(3 * MAX_BYTES));
        std::fs::write(house.path().join("root/line.txt"), text).unwrap();
        let read = tool(&house, Builtin::ReadFile, &[]);
        let answer = ran(&read, r#"{"path":"line.txt"}"#).await.unwrap();
        assert!(
            answer.ends_with("[line 1 is longer than 1048576 bytes and was cut]")
                && answer.len() < MAX_BYTES + 99
        );
        assert_eq!(ran(&read, r#"{"path":"line.txt","from_line":2}"#).await.unwrap(), "last\n");
    }

    #[tokio::test]
    async fn folders_bytes_and_missing_files_are_faults_with_words() {
        let house = house();
        std::fs::write(house.path().join("root/bytes.bin"), [b'a', 0xff, 0xfe]).unwrap();
        let read = tool(&house, Builtin::ReadFile, &[]);
        for (path, wanted) in
            [("notes", "no file"), ("bytes.bin", "no UTF-8 text"), ("gone.txt", "cannot read `gone.txt`")]
        {
            let fault = ran(&read, &json!({"path": path}).to_string()).await.unwrap_err();
            assert!(fault.message.contains(wanted), "{}", fault.message);
        }
    }
}
