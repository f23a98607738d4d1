//! A request body without its messages.
//!
//! Place in the flow: a wire lists its members, this puts those of the configuration over them and cuts the
//! text open where the messages go.

use super::{CallSpec, Frame};
use serde_json::{Map, Value};

/// The frame of these members, for a wire whose body says whether the answer is streamed.
///
/// What the configuration gives in `extra` wins over what the wire wrote, but the list of messages and `stream`
/// belong to the loop: the one is what the frame surrounds, the other decides how the answer is read.
pub(super) fn around(list: &str, mut members: Map<String, Value>, spec: &CallSpec) -> Frame {
    overlay(&mut members, &spec.extra);
    if spec.stream {
        members.insert("stream".to_owned(), Value::Bool(true));
    } else {
        members.remove("stream");
        members.remove("stream_options");
    }
    cut_open(list, members)
}

/// Puts the configuration's members over the wire's; where both are objects, member by member, so that
/// `generationConfig` of the one does not wipe out that of the other.
pub(super) fn overlay(members: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (name, value) in extra {
        match (members.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(more)) => own.extend(more.clone()),
            _ => {
                members.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The text of these members, open where the elements of `list` go.
pub(super) fn cut_open(list: &str, mut members: Map<String, Value>) -> Frame {
    members.remove(list);
    let mut head = Value::Object(members).to_string();
    head.pop();
    if !head.ends_with('{') {
        head.push(',');
    }
    head.push_str(&format!("\"{list}\":["));
    Frame { head, tail: "]}".to_owned() }
}
