//! How a run may end: `finish`, `confidence_threshold` and `[expect]` of agent.toml.
//!
//! Place in the flow: [`super::AgentConfig`] holds them, [`crate::machine`] decides by them.

use super::AgentConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `loop.finish`: what counts as an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishBy {
    /// Text without a tool call.
    #[default]
    Text,
    /// A call of `final_answer` or `cannot_complete`; a model that only writes text is reminded.
    Tool,
    /// Both.
    Either,
}

/// `[expect]`: the answer that the run must come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectTable {
    /// What the answer must be.
    pub value: Value,
    /// How the two are compared.
    #[serde(default)]
    pub compare: Compare,
    /// Further answers after a wrong one.
    #[serde(default = "retries")]
    pub retries: u32,
}

/// How an answer is compared with the expected value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// The same text, white space around it left out.
    #[default]
    Exact,
    /// The same JSON value, however it is written.
    Json,
}

const fn retries() -> u32 {
    3
}

impl ExpectTable {
    /// Whether this answer is the expected one.
    #[must_use]
    pub fn is_met_by(&self, answer: &str) -> bool {
        match (self.compare, &self.value) {
            (Compare::Exact, Value::String(text)) => answer.trim() == text.trim(),
            (Compare::Exact, value) => answer.trim() == trace::canonical::canonical(value),
            // Figures are compared as figures: 4 is 4.0.
            (Compare::Json, value) => {
                serde_json::from_str::<Value>(answer).is_ok_and(|is| is_same(&is, value))
            }
        }
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, one)| b.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => left == right,
    }
}

impl AgentConfig {
    /// What counts as an answer in this run.
    #[must_use]
    pub fn finish(&self) -> FinishBy {
        // A planner has no text, and a goal is reached by more than a text.
        let by_tool = self.loop_.planner || self.goal.is_some();
        self.loop_.finish.unwrap_or(if by_tool { FinishBy::Tool } else { FinishBy::Text })
    }

    /// The system prompt: the agent's own, and what the loop adds to it.
    #[must_use]
    pub fn system_prompt(&self) -> String {
        let own = Some(self.agent.prompt.clone()).filter(|own| !own.is_empty());
        let goal = self.goal.as_ref().map(super::GoalTable::told);
        let references = self.loop_.references.then(|| crate::driver::reference::PROMPT.trim().to_owned());
        let planner = self.loop_.planner.then(|| crate::model::planner::PROMPT.trim().to_owned());
        let all: Vec<String> = [own, goal, references, planner].into_iter().flatten().collect();
        all.join("\n\n")
    }

    /// What is wrong with these settings: the key and the reason.
    pub(super) fn check_finish(&self) -> Result<(), (&'static str, String)> {
        let key = "loop.confidence_threshold";
        if let Some(goal) = &self.goal {
            goal.check()?;
        }
        if self.loop_.planner && self.finish() != FinishBy::Tool {
            return Err((
                "loop.finish",
                "a planner ends through final_answer; leave `finish` out or set \"tool\"".to_owned(),
            ));
        }
        match self.loop_.confidence_threshold {
            Some(threshold) if threshold > 100 => {
                Err((key, format!("{threshold} is above 100; use 0 to 100")))
            }
            Some(_) if self.finish() == FinishBy::Text => Err((
                key,
                "confidence is told through final_answer; set loop.finish to \"tool\" or \"either\""
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_compared_as_the_table_says() {
        let expect = |value, compare| ExpectTable { value, compare, retries: 3 };
        for (value, compare, answer, met) in [
            (json!("42"), Compare::Exact, " 42\n", true),
            (json!("42"), Compare::Exact, "It is 42", false),
            (json!(42), Compare::Exact, "42", true),
            (json!({"a": 1, "b": [2]}), Compare::Json, r#"{"b":[2.0],"a":1}"#, true),
            (json!({"a": 1}), Compare::Json, r#"{"a":1,"b":2}"#, false),
            (json!({"a": 1}), Compare::Json, "a is 1", false),
            (json!("x"), Compare::Json, "\"x\"", true),
        ] {
            assert_eq!(expect(value.clone(), compare).is_met_by(answer), met, "{value} {compare:?} {answer}");
        }
    }
}
