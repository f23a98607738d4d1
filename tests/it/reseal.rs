//! Forges tapes: changes a recorded value and seals the tape again, from the documented format alone.
//!
//! A line is `{"seq":N,"at":NS,...,"chain":"..."}`; `chain` is the first 16 hexadecimal digits of BLAKE3 over the
//! chain before and the line up to its own `,"chain"`. A blob is named by the BLAKE3 of its content and bears the
//! time of the fact before it. `heard` is a fact as any other: what the run itself wrote down, so a forger who
//! leaves it alone has forged nothing but its line. It is changed here too, but never made to fit.

use std::ops::Range;
use std::path::Path;
use trace::id::Hash;

/// The lines of a tape, each without its chain and closing brace.
#[derive(Debug, Clone)]
pub(crate) struct OpenLines(pub(crate) Vec<String>);

/// A string, number, boolean or null in a line.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) pointer: String,
    pub(crate) place: Range<usize>,
}

impl OpenLines {
    pub(crate) fn read(path: &Path) -> Self {
        let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
        let text = String::from_utf8(text).unwrap();
        Self(text.lines().map(|line| line[..line.rfind(",\"chain\":").unwrap()].to_owned()).collect())
    }

    /// The whole tape with a chain that fits.
    pub(crate) fn sealed(&self) -> String {
        let (mut text, mut chain) = (String::new(), String::new());
        for line in &self.0 {
            chain = Hash::of(format!("{chain}{line}").as_bytes()).short();
            text.push_str(&format!("{line},\"chain\":\"{chain}\"}}\n"));
        }
        text
    }

    /// The kind of a line.
    pub(crate) fn kind(&self, index: usize) -> String {
        self.value(index)["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn value(&self, index: usize) -> serde_json::Value {
        serde_json::from_str(&format!("{}}}", self.0[index])).unwrap()
    }

    /// The values of a line.
    pub(crate) fn leaves(&self, index: usize) -> Vec<Leaf> {
        let text = format!("{}}}", self.0[index]);
        let mut found = Vec::new();
        scan(text.as_bytes(), 0, &mut String::new(), &mut found);
        found
    }

    /// The same with one value changed. The time of a fact is changed in the blobs after it too.
    pub(crate) fn changed(&self, index: usize, leaf: &Leaf, value: &str) -> Self {
        let mut lines = self.clone();
        lines.0[index].replace_range(leaf.place.clone(), value);
        if leaf.pointer == "/at" {
            for next in index + 1..self.0.len() {
                if self.kind(next) != "blob" {
                    break;
                }
                let old = self.value(next)["at"].to_string();
                lines.0[next] =
                    lines.0[next].replacen(&format!("\"at\":{old}"), &format!("\"at\":{value}"), 1);
            }
        }
        lines
    }

    /// The same with another content of a blob, which is renamed wherever it is named.
    pub(crate) fn with_content(&self, index: usize, content: &str) -> Self {
        let blob = self.value(index);
        let (old, new) = (blob["hash"].as_str().unwrap(), Hash::of(content.as_bytes()).to_string());
        let mut lines = Self(self.0.iter().map(|line| line.replace(old, &new)).collect());
        let text = serde_json::to_string(content).unwrap();
        lines.0[index] = format!(
            "{{\"seq\":{},\"at\":{},\"type\":\"blob\",\"hash\":\"{new}\",\"text\":{text}",
            blob["seq"], blob["at"]
        );
        lines
    }
}

/// Finds the leaves of the value at `at`; returns where it ends. The text is known to be JSON without white space.
fn scan(text: &[u8], at: usize, pointer: &mut String, found: &mut Vec<Leaf>) -> usize {
    match text[at] {
        open @ (b'{' | b'[') => {
            let mut at = at + 1;
            let mut index = 0;
            while text[at] != b'}' && text[at] != b']' {
                let length = pointer.len();
                pointer.push('/');
                if open == b'{' {
                    let end = string_end(text, at);
                    pointer.push_str(std::str::from_utf8(&text[at + 1..end - 1]).unwrap());
                    at = end + 1;
                } else {
                    pointer.push_str(&index.to_string());
                }
                at = scan(text, at, pointer, found);
                pointer.truncate(length);
                index += 1;
                at += usize::from(text[at] == b',');
            }
            at + 1
        }
        first => {
            let end = match first {
                b'"' => string_end(text, at),
                _ => at + text[at..].iter().position(|byte| b",]}".contains(byte)).unwrap(),
            };
            found.push(Leaf { pointer: pointer.clone(), place: at..end });
            end
        }
    }
}

fn string_end(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while text[end] != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    end + 1
}
