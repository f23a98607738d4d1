//! The two tools of the loop itself: `final_answer` and `cannot_complete`.
//!
//! Place in the flow: where `[loop] finish` asks for them they are offered to the model beside the agent's own; the
//! machine answers them (see [`crate::machine`]), so they have no body and need no permit. Their names are refused
//! for every other tool, whatever `finish` says.

use crate::model::ToolOffer;
use serde_json::json;

/// Ends a run with an answer.
pub const FINAL_ANSWER: &str = "final_answer";
/// Ends a run without one.
pub const CANNOT_COMPLETE: &str = "cannot_complete";
/// Names that no tool of a user may have.
pub const NAMES: [&str; 2] = [FINAL_ANSWER, CANNOT_COMPLETE];

/// Both as the model sees them.
#[must_use]
pub fn offers() -> [ToolOffer; 2] {
    let answer = json!({
        "type": "object",
        "properties": {
            "answer": { "type": "string", "description": "The whole answer, as the user is to read it." },
            "confidence": {
                "type": "number", "minimum": 0, "maximum": 100,
                "description": "How sure you are that it is right, from 0 to 100. Leave it out if you cannot tell."
            }
        },
        "required": ["answer"]
    });
    let reason = json!({
        "type": "object",
        "properties": {
            "reason": { "type": "string", "description": "What is missing or in the way, so that a person can act on it." }
        },
        "required": ["reason"]
    });
    [
        offer(FINAL_ANSWER, include_str!("../../prompt/final_answer.txt"), answer),
        offer(CANNOT_COMPLETE, include_str!("../../prompt/cannot_complete.txt"), reason),
    ]
}

fn offer(name: &str, description: &str, input_schema: serde_json::Value) -> ToolOffer {
    ToolOffer { name: name.to_owned(), description: description.trim().to_owned(), input_schema }
}
