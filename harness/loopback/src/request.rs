//! A request as the loopback provider received it.

use serde_json::Value;
use std::collections::BTreeMap;

/// One captured request.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSeen {
    /// The wire it came on: `chat` or `messages`.
    pub wire: &'static str,
    /// Request headers, lower case.
    pub headers: BTreeMap<String, String>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The body, or null where it is not JSON.
    pub json: Value,
    /// How many requests for this model came before.
    pub nth: usize,
}

impl RequestSeen {
    /// The model asked for; empty where none is named.
    #[must_use]
    pub fn model(&self) -> &str {
        self.json["model"].as_str().unwrap_or_default()
    }

    /// Whether a stream is asked for.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.json["stream"] == true
    }

    /// The messages; none where the body has no list of them.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.json["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// How often the model has spoken in this conversation: the turn, whatever was retried.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.messages().iter().filter(|message| message["role"] == "assistant").count()
    }
}
