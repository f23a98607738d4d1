//! A request body without its messages.
//!
//! Place in the flow: a wire lists its members, this puts those of the configuration over them and cuts the
//! text open where the messages go.

use super::{CallSpec, Frame};
use serde_json::{Map, Value};

/// The frame of these members.
///
/// What the configuration gives in `extra` wins over what the wire wrote, but `messages` and `stream` belong to
/// the loop: the one is what the frame surrounds, the other decides how the answer is read.
pub(super) fn around_messages(mut members: Map<String, Value>, spec: &CallSpec) -> Frame {
    members.extend(spec.extra.clone());
    members.remove("messages");
    if spec.stream {
        members.insert("stream".to_owned(), Value::Bool(true));
    } else {
        members.remove("stream");
        members.remove("stream_options");
    }
    let mut head = Value::Object(members).to_string();
    head.pop();
    if !head.ends_with('{') {
        head.push(',');
    }
    head.push_str("\"messages\":[");
    Frame { head, tail: "]}".to_owned() }
}
