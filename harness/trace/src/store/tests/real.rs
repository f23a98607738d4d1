//! Real traces of three instrumentations, as their senders sent them.

use super::{home, rows};
use crate::inbox::{Body, Entry, Inbox};
use crate::otlp::decode_json;
use crate::store::Store;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The recorded OTLP bodies of one instrumentation, one a line; `None`, told aloud, where the data is absent.
fn bodies(name: &str) -> Option<Vec<String>> {
    let data = std::env::var_os("LOOPDECK_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = data.join("otlp").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().map(str::to_owned).collect()),
        Err(_) => {
            // Past the capture of the test runner, or nobody would hear it.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("skipped: no real data at {}\n", path.display()),
            );
            assert!(std::env::var("CI").is_err(), "the real data must be there in CI");
            None
        }
    }
}

fn receive(inbox: &Inbox, body: &str) {
    let spans = decode_json(body.as_bytes()).unwrap().spans;
    inbox.append(&Entry { at_ns: 1, body: Body::Otlp { spans } }).unwrap();
}

const FILES: [&str; 3] = ["openinference.jsonl", "openllmetry.jsonl", "pydantic-ai-agents.jsonl"];

#[test]
fn real_traces_sent_twice_have_their_known_counts_and_tokens_counted_once() {
    let (_folder, home) = home();
    let inbox = Inbox::new(&home);
    let Some(all) = FILES.iter().map(|name| bodies(name)).collect::<Option<Vec<_>>>() else { return };
    let send = || all.iter().flatten().for_each(|body| receive(&inbox, body));
    send();
    let store = Store::open(&home).unwrap();
    store.catch_up().unwrap();
    let once = store.checksum().unwrap();
    send();
    assert_eq!(store.catch_up().unwrap().spans, 0);
    assert_eq!(store.checksum().unwrap(), once);

    assert_eq!(rows(&store, "select count(distinct trace_id), count(*) from spans"), json!([[775, 2604]]));
    let errors = "select resource->>'replay.instrumentation', count(*) from spans where status = 'error' group by 1 order by 1 nulls last";
    assert_eq!(rows(&store, errors), json!([["openinference", 11], ["openllmetry", 11], [null, 28]]));
    // The SDK of Anthropic tells 320,186 of the 762,918 input tokens a second time.
    let tokens = "select sum(input_tokens) from runs where source_dialect = 'openinference'";
    assert_eq!(rows(&store, tokens), json!([[442_732]]));
    let echoes = "select count(*) from call_live where is_model and echo";
    assert_eq!(rows(&store, echoes), json!([[0]]));
    let agents = "select count(*), count(agent), sum(turns), sum(tool_calls) from runs where source_dialect = 'pydantic_ai'";
    assert_eq!(rows(&store, agents), json!([[51, 51, 125, 81]]));
}
