//! Rule `tool_overuse`: one tool is called too often in one run, whatever its arguments.
//!
//! Place in the flow: the loop asks [`crossed`] after each call and warns; stored runs go through [`scan`].

use super::{CallSeen, Finding, figure, spans, tokens};
use crate::outcome::Evidence;
use serde::{Deserialize, Serialize};

/// The rule's name.
pub const RULE: &str = "tool_overuse";

/// Settings of the rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOveruse {
    /// Calls of one tool that are still fine; the next one fires.
    pub max_calls: usize,
    /// Tools that may be called as often as they like.
    pub exempt: Vec<String>,
}

impl Default for ToolOveruse {
    /// Five calls: the sixth fires.
    fn default() -> Self {
        Self { max_calls: 5, exempt: Vec::new() }
    }
}

/// The finding of the call that has just been added, if it is the one that crosses the limit: once a tool.
#[must_use]
pub fn crossed(calls: &[CallSeen], settings: &ToolOveruse) -> Option<Finding> {
    let tool_name = &calls.last()?.tool_name;
    let found = of_tool(calls, tool_name, settings)?;
    (found.evidence.observed == Some(figure(settings.max_calls as u64 + 1))).then_some(found)
}

/// One finding for each tool that a run called too often, in the order of their first calls.
#[must_use]
pub fn scan(calls: &[CallSeen], settings: &ToolOveruse) -> Vec<Finding> {
    let mut seen: Vec<&str> = Vec::new();
    for call in calls {
        if !seen.contains(&call.tool_name.as_str()) {
            seen.push(&call.tool_name);
        }
    }
    seen.into_iter().filter_map(|tool_name| of_tool(calls, tool_name, settings)).collect()
}

fn of_tool(calls: &[CallSeen], tool_name: &str, settings: &ToolOveruse) -> Option<Finding> {
    if settings.exempt.iter().any(|name| name == tool_name) {
        return None;
    }
    let count = calls.iter().filter(|call| call.tool_name == tool_name).count();
    if count <= settings.max_calls {
        return None;
    }
    let beyond = || calls.iter().filter(|call| call.tool_name == tool_name).skip(settings.max_calls);
    Some(Finding {
        rule: RULE,
        tool_name: Some(tool_name.to_owned()),
        args_hash: None,
        evidence: Evidence {
            rule: RULE.to_owned(),
            detail: format!(
                "`{tool_name}` was called {count} times in one run; more than {} is unusual",
                settings.max_calls
            ),
            threshold: Some(figure(settings.max_calls as u64)),
            observed: Some(figure(count as u64)),
            spans: spans(beyond()),
            tokens_wasted: tokens(beyond()),
            next_safe_action: Some(format!(
                "compare the arguments of the `{tool_name}` calls: near-equal ones mean that its results do not help the model"
            )),
            resumable: true,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::example::calls;

    #[test]
    fn the_sixth_call_fires_and_the_fifth_does_not() {
        for (line, tools) in [
            ("a a a a a", vec![]),
            ("a a a a a a", vec!["a"]),
            ("a b a b a b a b a b", vec![]),
            ("b a a a a a a b b b b b", vec!["b", "a"]),
            ("", vec![]),
        ] {
            let found = scan(&calls(line), &ToolOveruse::default());
            let names: Vec<_> = found.iter().filter_map(|one| one.tool_name.as_deref()).collect();
            assert_eq!(names, tools, "{line}");
        }
    }

    #[test]
    fn a_growing_run_crosses_the_limit_once_a_tool() {
        let all = calls("a a a a a a a a b");
        let crossings: Vec<usize> =
            (0..=all.len()).filter(|n| crossed(&all[..*n], &ToolOveruse::default()).is_some()).collect();
        assert_eq!(crossings, [6]);
    }

    #[test]
    fn an_exempt_tool_may_be_called_for_ever() {
        let settings = ToolOveruse { exempt: vec!["a".into()], ..ToolOveruse::default() };
        assert_eq!(scan(&calls("a a a a a a a"), &settings), []);
    }

    #[test]
    fn the_evidence_names_the_calls_beyond_the_limit_and_their_tokens() {
        let all = calls("a a a a a a a");
        let evidence = &scan(&all, &ToolOveruse::default())[0].evidence;
        assert_eq!(evidence.spans, [all[5].span, all[6].span]);
        assert_eq!(
            (evidence.observed, evidence.threshold, evidence.tokens_wasted),
            (Some(7.0), Some(5.0), Some(20))
        );
        insta::assert_snapshot!(evidence.detail, @"`a` was called 7 times in one run; more than 5 is unusual");
    }
}
