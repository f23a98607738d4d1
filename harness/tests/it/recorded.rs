//! Reads recorded provider traffic: VCR YAML, go-vcr YAML, JSON fixtures and `.chunks.txt` streams.
//!
//! Place in the flow: files of the real data set -> [`Interaction`]s -> the cassette tests. Only answers with a
//! 2xx status on the known wires are taken.

use base64::Engine as _;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// One request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Interaction {
    /// File within the data set and position within the file.
    pub(crate) key: String,
    /// One of [`harness::model::NAMES`].
    pub(crate) wire: &'static str,
    /// The request's body; null where the file has none.
    pub(crate) request: Value,
    /// The answer's body.
    pub(crate) body: Vec<u8>,
    /// Whether the file kept the body's bytes; otherwise they are written anew from its parsed form.
    pub(crate) has_bytes: bool,
}

impl Interaction {
    /// Whether the answer is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        let text = self.body.trim_ascii_start();
        [&b"data:"[..], b"event:", b":"].iter().any(|start| text.starts_with(start))
    }

    /// The file, without the position.
    pub(crate) fn file(&self) -> &str {
        self.key.split('#').next().unwrap_or_default()
    }
}

/// The folder of the real data set; says aloud that there is none, which is a failure in CI.
pub(crate) fn real_data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("LOOPDECK_REAL_DATA").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    // Past the capture of the test runner, or nobody would hear it.
    let _ = std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!("skipped: no real data at {}\n", folder.display()),
    );
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs the real data; set LOOPDECK_REAL_DATA");
    None
}

/// All VCR and go-vcr interactions under a folder, by key.
pub(crate) fn cassettes(root: &Path) -> Vec<Interaction> {
    let mut found: Vec<Interaction> =
        files(root, ".yaml").iter().flat_map(|path| cassette(root, path)).collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// Streams kept as one JSON text a line, and answers and streams kept as JSON, of fixtures of three wires.
pub(crate) fn fixtures(root: &Path) -> Vec<Interaction> {
    let mut found = Vec::new();
    for (folder, wire) in FIXTURES {
        for path in files(&root.join(folder), "").into_iter().filter(|path| is_answer(path)) {
            let text = std::fs::read_to_string(&path).expect("a text file");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let body = if name.ends_with(".chunks.txt") {
                text.lines().map(|line| format!("data: {line}\n\n")).collect()
            } else {
                // A cassette of the JavaScript instrumentations keeps the body as a string.
                let value: Value = serde_json::from_str(&text).expect("JSON");
                value["body"].as_str().map(str::to_owned).unwrap_or(text)
            };
            found.push(Interaction {
                key: format!("{folder}/{name}#0"),
                wire,
                request: Value::Null,
                body: body.into_bytes(),
                has_bytes: true,
            });
        }
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// Transcriptions lie between the fixtures; they are another interface.
fn is_answer(path: &Path) -> bool {
    !path.to_string_lossy().contains("transcription")
}

const FIXTURES: [(&str, &str); 9] = [
    ("openinference/js/packages/openinference-instrumentation-anthropic/test/cassettes", "messages"),
    ("vercel-ai/packages/anthropic/src/__fixtures__", "messages"),
    ("vercel-ai/packages/deepseek/src/chat/__fixtures__", "chat"),
    ("vercel-ai/packages/groq/src/__fixtures__", "chat"),
    ("vercel-ai/packages/mistral/src/__fixtures__", "chat"),
    ("vercel-ai/packages/openai-compatible/src/chat/__fixtures__", "chat"),
    ("vercel-ai/packages/openai/src/chat/__fixtures__", "chat"),
    ("vercel-ai/packages/openai/src/responses/__fixtures__", "responses"),
    ("vercel-ai/packages/xai/src/responses/__fixtures__", "responses"),
];

fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder entry").path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found
}

fn cassette(root: &Path, path: &Path) -> Vec<Interaction> {
    let text = std::fs::read_to_string(path).expect("a text file");
    let recorded: Value =
        yaml_serde::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.strip_prefix(root).expect("under the root").to_string_lossy();
    let list = recorded["interactions"].as_array().cloned().unwrap_or_default();
    list.iter().enumerate().filter_map(|(at, one)| interaction(format!("{name}#{at}"), one)).collect()
}

fn interaction(key: String, one: &Value) -> Option<Interaction> {
    let (request, response) = (&one["request"], &one["response"]);
    let url = request["uri"].as_str().or_else(|| request["url"].as_str())?;
    let wire = wire_of(url)?;
    let status = response["status"]["code"].as_u64().or_else(|| response["code"].as_u64())?;
    if !(200..300).contains(&status) {
        return None;
    }
    let sent = text_of(&request["body"]);
    Some(Interaction {
        key,
        wire,
        request: sent.map_or_else(
            || request["parsed_body"].clone(),
            |bytes| serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        ),
        has_bytes: !response["body"].is_null(),
        body: text_of(&response["body"]).unwrap_or_else(|| response["parsed_body"].to_string().into_bytes()),
    })
}

fn wire_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    if path.ends_with("/chat/completions") {
        return Some("chat");
    }
    if path.ends_with("/responses") {
        return Some("responses");
    }
    if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
        return Some("gemini");
    }
    // The Assistants interface has `/threads/ID/messages`, which is another wire.
    (path.ends_with("/messages") && !path.contains("/threads/")).then_some("messages")
}

/// A body: a string, a `string` member, or gzip in base64, which the recorders write for compressed answers.
fn text_of(body: &Value) -> Option<Vec<u8>> {
    let text = body.as_str().or_else(|| body["string"].as_str())?;
    if !text.starts_with("H4sI") {
        return Some(text.as_bytes().to_vec());
    }
    let packed: String = text.split_whitespace().collect();
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).expect("base64");
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut body).expect("gzip");
    Some(body)
}
