//! `search_files`: lines that match a regular expression.

use super::walk::{Entry, Kind, walk};
use super::{Root, inside};
use crate::tool::typed::Typed;
use crate::tool::{Effect, Risk};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Most lines that one call gives.
const MAX_MATCHES: u32 = 200;
/// Larger files are left out, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Most that one call reads, in bytes.
const MAX_READ_BYTES: u64 = 512 * 1024 * 1024;
/// Most characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// Most memory that a compiled expression may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Most folders deep.
const MAX_DEPTH: u32 = 64;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression, matched line by line; `(?i)` in front ignores case.
    pattern: String,
    /// File or folder to search, relative to the root; all of it where absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose name ends in this, such as `.rs`; all where absent.
    #[serde(default)]
    suffix: Option<String>,
}

pub(super) fn tool(root: Arc<Root>) -> Typed {
    let description = "Searches text files for lines that match a regular expression; gives `path:line: text`. \
                       Binary and very large files, links and `.git` are left out.";
    Typed::new("search_files", description, Risk::Read, Effect::Pure, move |arguments: Arguments, _| {
        root.clone().work(move |root| search(root, &arguments))
    })
}

fn search(root: &Root, arguments: &Arguments) -> Result<String, Fault> {
    let path = inside(arguments.path.as_deref().unwrap_or("."))?;
    let pattern = RegexBuilder::new(&arguments.pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|why| Fault::new(FaultClass::Permanent, format!("the pattern cannot be used: {why}")))?;
    let mut found =
        Found { pattern, text: String::new(), matches: 0, left_bytes: MAX_READ_BYTES, left_out: 0 };
    let suffix = arguments.suffix.as_deref().unwrap_or("");
    let mut visit = |entry: &Entry| match entry.kind {
        Kind::File { bytes } if entry.path.to_string_lossy().ends_with(suffix) => {
            found.look(root, &entry.path, bytes)
        }
        _ => ControlFlow::Continue(()),
    };
    let file = root.dir.symlink_metadata(&path).ok().filter(cap_std::fs::Metadata::is_file);
    let whole = match file {
        Some(file) => visit(&Entry { path, kind: Kind::File { bytes: file.len() } }).is_continue(),
        None => walk(root, &path, MAX_DEPTH, &mut visit)?,
    };
    Ok(found.told(whole))
}

struct Found {
    pattern: Regex,
    text: String,
    matches: u32,
    left_bytes: u64,
    left_out: u32,
}

impl Found {
    fn look(&mut self, root: &Root, path: &Path, bytes: u64) -> ControlFlow<()> {
        if bytes > self.left_bytes {
            return ControlFlow::Break(());
        }
        // A file that grows meanwhile is read to its cap; one that cannot be read is counted.
        let mut content = Vec::new();
        let read =
            root.dir.open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content));
        self.left_bytes = self.left_bytes.saturating_sub(content.len() as u64);
        let too_large = content.len() as u64 > MAX_FILE_BYTES;
        let text = match (read, String::from_utf8(content)) {
            (Ok(_), Ok(text)) if !too_large && !text.contains('\0') => text,
            _ => {
                self.left_out += 1;
                return ControlFlow::Continue(());
            }
        };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| self.pattern.is_match(line)) {
            if self.matches == MAX_MATCHES {
                return ControlFlow::Break(());
            }
            self.matches += 1;
            let shown: String = line.chars().take(MAX_LINE_CHARS).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "{}:{}: {shown}", path.display(), index + 1);
        }
        ControlFlow::Continue(())
    }

    fn told(mut self, whole: bool) -> String {
        if self.matches == 0 {
            self.text.push_str("[no line matches]\n");
        }
        if self.left_out > 0 {
            let _ = writeln!(
                self.text,
                "[{} files were left out: binary, too large or unreadable]",
                self.left_out
            );
        }
        if !whole {
            self.text.push_str("[the search was cut short: narrow the pattern, the path or the suffix]\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{house, tool, ways_out};
    use crate::config::Builtin;
    use crate::tool::sample::ran;
    use serde_json::json;

    #[tokio::test]
    async fn lines_are_found_with_their_place() {
        let house = house();
        std::fs::write(house.path().join("root/bytes.bin"), b"secret\0").unwrap();
        let search = tool(&house, Builtin::SearchFiles, &[]);
        for (arguments, wanted) in [
            (
                json!({"pattern": "(?i)secret"}),
                "notes/plan.md:2: no Secret here\n[1 files were left out: binary, too large or unreadable]\n",
            ),
            (json!({"pattern": "^second$", "path": "hello.txt"}), "hello.txt:2: second\n"),
            (json!({"pattern": "plan", "suffix": ".txt"}), "[no line matches]\n"),
        ] {
            assert_eq!(ran(&search, &arguments.to_string()).await.unwrap(), wanted, "{arguments}");
        }
    }

    #[tokio::test]
    async fn no_path_and_no_link_leads_out_of_the_root() {
        let house = house();
        let search = tool(&house, Builtin::SearchFiles, &[]);
        for path in ways_out(&house) {
            let answer = ran(&search, &json!({"pattern": ".", "path": path}).to_string()).await;
            assert!(answer.is_err(), "{path}: {answer:?}");
        }
        let all = ran(&search, r#"{"pattern":"the secret"}"#).await.unwrap();
        assert!(all.starts_with("[no line matches]"), "{all}");
    }

    #[tokio::test]
    async fn too_many_matches_and_bad_patterns_are_said() {
        let house = house();
        std::fs::write(house.path().join("root/many.txt"), "same\n".repeat(500)).unwrap();
        let search = tool(&house, Builtin::SearchFiles, &[]);
        let answer = ran(&search, r#"{"pattern":"same"}"#).await.unwrap();
        assert!(
            answer.contains("many.txt:200: same")
                && !answer.contains(":201:")
                && answer.contains("cut short")
        );
        for pattern in ["(", "(a{1000}){1000}"] {
            let fault = ran(&search, &json!({"pattern": pattern}).to_string()).await.unwrap_err();
            assert!(fault.message.contains("the pattern cannot be used"), "{}", fault.message);
        }
    }
}
