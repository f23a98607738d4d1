//! A request as the loopback provider received it.

use serde_json::Value;
use std::collections::BTreeMap;

/// One captured request.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSeen {
    /// The wire it came on, one of [`harness::model::NAMES`].
    pub wire: &'static str,
    /// Path and query.
    pub endpoint: String,
    /// Request headers, lower case.
    pub headers: BTreeMap<String, String>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The body, or null where it is not JSON; its list of messages begins with what the provider stored before.
    pub json: Value,
    /// How many requests for this model came before.
    pub nth: usize,
}

impl RequestSeen {
    /// The model asked for; empty where none is named.
    #[must_use]
    pub fn model(&self) -> &str {
        match self.method() {
            Some((model, _)) => model,
            None => self.json["model"].as_str().unwrap_or_default(),
        }
    }

    /// Whether a stream is asked for.
    #[must_use]
    pub fn stream(&self) -> bool {
        match self.method() {
            Some((_, method)) => method == "streamGenerateContent?alt=sse",
            None => self.json["stream"] == true,
        }
    }

    /// Model and method, where the endpoint and not the body tells them.
    fn method(&self) -> Option<(&str, &str)> {
        let (_, call) = self.endpoint.rsplit_once("models/").filter(|_| self.wire == "gemini")?;
        call.split_once(':')
    }

    /// The messages; none where the body has no list of them.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        let list = harness::model::wire(self.wire).map_or("messages", |wire| wire.list());
        self.json[list].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// How often the model has spoken in this conversation: the turn, whatever was retried.
    #[must_use]
    pub fn answers(&self) -> usize {
        // One answer is several items where the wire lists items: they stand together.
        let joins = self.wire == "responses";
        let messages = self.messages();
        messages
            .chunk_by(|a, b| joins && is_models(a) && is_models(b))
            .filter(|run| is_models(&run[0]))
            .count()
    }
}

/// Whether a message or item is the model's.
pub(crate) fn is_models(message: &Value) -> bool {
    match message["role"].as_str() {
        Some(role) => role == "assistant" || role == "model",
        None => message["type"] != "function_call_output",
    }
}
