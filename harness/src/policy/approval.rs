//! What people decided about calls: approvals bound to the exact action, and denials that are remembered.
//!
//! Place in the flow: the machine keeps these as it hears them; [`super::decide`] looks at them again before a call
//! runs. An approval names its question by a token, and the token is made of everything that the person was shown, so a
//! changed byte is another question.

use crate::tool::ToolSpec;
use std::collections::BTreeMap;
use trace::canonical::canonical_text;
use trace::fact::{PersonAnswered, PersonAsked};
use trace::id::{CallKey, Hash, RunId};

/// Leave that a person gave to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The token of the question.
    pub token: Hash,
    /// When it is no longer worth anything, in nanoseconds since 1970.
    pub expires_at_ns: i64,
    /// Who gave it and how, such as `ada (terminal)`.
    pub by: String,
}

/// A person's no to an action; it holds for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Who said it and how.
    pub by: String,
    /// Why, for the model.
    pub reason: String,
}

/// What people decided in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    given: BTreeMap<CallKey, Approval>,
    denied: BTreeMap<Hash, Denial>,
}

impl Approvals {
    /// Takes leave for one call in.
    pub(crate) fn give(&mut self, asked: &PersonAsked, answered: &PersonAnswered) {
        let by = by(answered);
        let approval = Approval { token: asked.token, expires_at_ns: asked.expires_at_ns, by };
        self.given.insert(asked.key, approval);
    }

    /// Takes a no in; gives it back.
    pub(crate) fn deny(&mut self, asked: &PersonAsked, answered: &PersonAnswered) -> Denial {
        let by = by(answered);
        let reason = match answered.reason.as_deref().unwrap_or_default().trim() {
            "" => format!("{by} does not allow this call of `{}`", asked.tool_name),
            why => format!("{by} does not allow this call of `{}`: {why}", asked.tool_name),
        };
        let denial = Denial { by, reason };
        self.denied.insert(asked.args_hash, denial.clone());
        denial
    }

    /// Forgets the leave for a call: it has its result.
    pub(crate) fn spend(&mut self, key: CallKey) {
        self.given.remove(&key);
    }

    /// The leave for a call, if a person gave one.
    #[must_use]
    pub fn of_call(&self, key: CallKey) -> Option<&Approval> {
        self.given.get(&key)
    }

    /// The no to an action, if a person said one in this run.
    #[must_use]
    pub fn denial(&self, args_hash: &Hash) -> Option<&Denial> {
        self.denied.get(args_hash)
    }
}

/// Who answered and how, in one word of the audit.
#[must_use]
pub(crate) fn by(answered: &PersonAnswered) -> String {
    format!("{} ({})", answered.by, answered.way)
}

/// Names a question: other for another run, call, tool, schema, argument or expiry.
#[must_use]
pub fn token(run: &RunId, key: CallKey, spec: &ToolSpec, arguments: &str, expires_at_ns: i64) -> Hash {
    let schema = Hash::of(canonical_text(&spec.input_schema.to_string()).as_bytes());
    let parts = serde_json::json!([run, key.turn, key.index, spec.name, schema, arguments, expires_at_ns]);
    Hash::of(parts.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Effect, Risk};
    use serde_json::json;

    fn spec(name: &str, schema: serde_json::Value) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: schema,
            risk: Risk::Write,
            effect: Effect::AtMostOnce,
            timeout_ms: 1,
            output_schema: None,
        }
    }

    #[test]
    fn another_run_call_tool_schema_argument_or_expiry_is_another_question() {
        let (run, key) = (RunId::from_draw(1), CallKey { turn: 1, index: 0 });
        let pay = spec("pay", json!({"type": "object"}));
        let all = [
            token(&run, key, &pay, "{\"n\":1}", 9),
            token(&RunId::from_draw(2), key, &pay, "{\"n\":1}", 9),
            token(&run, CallKey { turn: 2, index: 0 }, &pay, "{\"n\":1}", 9),
            token(&run, CallKey { turn: 1, index: 1 }, &pay, "{\"n\":1}", 9),
            token(&run, key, &spec("pax", json!({"type": "object"})), "{\"n\":1}", 9),
            token(&run, key, &spec("pay", json!({"type": "array"})), "{\"n\":1}", 9),
            token(&run, key, &pay, "{\"n\":2}", 9),
            token(&run, key, &pay, "{\"n\":1}", 10),
        ];
        let different: std::collections::BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[0], token(&run, key, &pay, "{\"n\":1}", 9));
    }
}
