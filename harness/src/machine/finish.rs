//! What a model's answer means: one table, every row a test.
//!
//! The provider's word counts, but never alone: servers say `stop` beside tool calls and `tool_calls` beside
//! arguments that were cut off. Source of the rows: harness requirements R5-R7 and the finish reconciliation of
//! the peers named in ARCHITECTURE.md.

use trace::message::Finish;
use trace::outcome::StopReason;

/// Said to a model that ended without an answer and without a call.
pub const NUDGE: &str = include_str!("../../prompt/nudge.txt");
/// Said to a model that announced tool calls and made none.
pub const NO_CALLS: &str = include_str!("../../prompt/no_calls.txt");
/// Said to a model whose text was cut off.
pub const SHORTER: &str = include_str!("../../prompt/shorter.txt");

/// An answer, as far as its meaning depends on it.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The provider's word.
    pub finish: &'a Finish,
    /// How many complete tool calls it holds.
    pub calls: usize,
    /// Its text.
    pub text: String,
    /// Whether it used exactly as many output tokens as it was allowed: then it was cut, whatever it says.
    pub hit_output_cap: bool,
    /// How many answers before it were cut off in a row.
    pub truncated_in_a_row: u32,
    /// How many reminders are left.
    pub nudges_left: u32,
}

/// What to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is the answer.
    Complete {
        /// The condition that held.
        trigger: String,
    },
    /// Run its calls.
    RunTools {
        /// Whether the provider's word said otherwise.
        reconciled: bool,
    },
    /// Run none of its calls: the last may be cut off. Tell the model so.
    RefuseTruncated,
    /// The text was cut off: ask for a shorter one.
    Truncated,
    /// Remind the model, with these words.
    Nudge(&'static str),
    /// Send the same conversation again.
    Resend,
    /// The run ends.
    Stop {
        /// Why.
        reason: StopReason,
        /// The condition that held.
        trigger: String,
    },
}

/// Decides; total over all inputs.
#[must_use]
pub fn decide(seen: &Seen<'_>) -> Decision {
    let has_text = !seen.text.trim().is_empty();
    let finish = if seen.hit_output_cap { &Finish::Length } else { seen.finish };
    match (finish, seen.calls > 0) {
        (Finish::Length, _) if seen.truncated_in_a_row > 0 => stop(StopReason::OutputTruncated, "length"),
        (Finish::Length, true) => Decision::RefuseTruncated,
        (Finish::Length, false) => Decision::Truncated,
        (Finish::Refusal, _) => stop(StopReason::Refused, "refusal"),
        (Finish::ContextFull, _) => stop(StopReason::ContextExhausted, "context_full"),
        (Finish::ToolUse, true) => Decision::RunTools { reconciled: false },
        (Finish::EndTurn | Finish::StopSequence | Finish::Other(_) | Finish::PauseTurn, true) => {
            Decision::RunTools { reconciled: true }
        }
        (Finish::PauseTurn, false) => Decision::Resend,
        (Finish::ToolUse, false) if seen.nudges_left > 0 => Decision::Nudge(NO_CALLS),
        (Finish::ToolUse, false) => stop(StopReason::ModelError, "tool_use_without_calls"),
        (Finish::EndTurn, false) if has_text => Decision::Complete { trigger: "end_turn".to_owned() },
        (Finish::StopSequence, false) if has_text => {
            Decision::Complete { trigger: "stop_sequence".to_owned() }
        }
        (Finish::Other(word), false) if has_text => Decision::Complete {
            trigger: if word.is_empty() { "unnamed".to_owned() } else { clip(word, 40) },
        },
        (Finish::EndTurn | Finish::StopSequence | Finish::Other(_), false) if seen.nudges_left > 0 => {
            Decision::Nudge(NUDGE)
        }
        (Finish::EndTurn | Finish::StopSequence | Finish::Other(_), false) => {
            stop(StopReason::NoFinalAnswer, "no_final_answer_or_tool_call")
        }
    }
}

/// What an answer means that ended because the context was full, where the context is about to be made smaller.
#[must_use]
pub const fn cut_off(calls: usize) -> Decision {
    if calls > 0 { Decision::RefuseTruncated } else { Decision::Truncated }
}

fn stop(reason: StopReason, trigger: &str) -> Decision {
    Decision::Stop { reason, trigger: trigger.to_owned() }
}

/// At most `most` characters, with a mark where something is left out.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>(finish: &'a Finish, calls: usize, text: &str) -> Seen<'a> {
        Seen {
            finish,
            calls,
            text: text.to_owned(),
            hit_output_cap: false,
            truncated_in_a_row: 0,
            nudges_left: 1,
        }
    }

    #[test]
    fn every_row_of_the_table() {
        use Decision::*;
        let complete = |trigger: &str| Complete { trigger: trigger.to_owned() };
        let other = Finish::Other("eos".to_owned());
        let (unnamed, long) = (Finish::Other(String::new()), Finish::Other("x".repeat(41)));
        let rows = [
            ("end with text completes", &Finish::EndTurn, 0, "hi", complete("end_turn")),
            ("end with nothing is reminded", &Finish::EndTurn, 0, " ", Nudge(NUDGE)),
            ("tools with calls run", &Finish::ToolUse, 2, "", RunTools { reconciled: false }),
            ("end with calls runs them", &Finish::EndTurn, 1, "hi", RunTools { reconciled: true }),
            (
                "a stop sequence with calls runs them",
                &Finish::StopSequence,
                1,
                "",
                RunTools { reconciled: true },
            ),
            ("an unknown word with calls runs them", &other, 1, "", RunTools { reconciled: true }),
            ("an unknown word with text completes", &other, 0, "hi", complete("eos")),
            ("tools without calls is reminded", &Finish::ToolUse, 0, "hi", Nudge(NO_CALLS)),
            ("a cut answer runs none of its calls", &Finish::Length, 1, "hi", RefuseTruncated),
            ("a cut text is asked for again", &Finish::Length, 0, "hi", Truncated),
            ("a pause is sent again", &Finish::PauseTurn, 0, "hi", Resend),
            ("a pause with calls runs them", &Finish::PauseTurn, 1, "", RunTools { reconciled: true }),
            ("a stop sequence with nothing is reminded", &Finish::StopSequence, 0, "", Nudge(NUDGE)),
            ("an unknown word with nothing is reminded", &other, 0, "\n", Nudge(NUDGE)),
            ("no word at all with text completes", &unnamed, 0, "hi", complete("unnamed")),
            ("a long word is cut", &long, 0, "hi", complete(&format!("{}…", "x".repeat(40)))),
            (
                "a full context stops, whatever calls it had room for",
                &Finish::ContextFull,
                1,
                "",
                stop(StopReason::ContextExhausted, "context_full"),
            ),
            ("a refusal stops", &Finish::Refusal, 0, "no", stop(StopReason::Refused, "refusal")),
            ("a refusal with calls stops", &Finish::Refusal, 1, "no", stop(StopReason::Refused, "refusal")),
            (
                "a full context stops",
                &Finish::ContextFull,
                0,
                "",
                stop(StopReason::ContextExhausted, "context_full"),
            ),
            ("a stop sequence with text completes", &Finish::StopSequence, 0, "x", complete("stop_sequence")),
        ];
        for (name, finish, calls, text, wanted) in rows {
            assert_eq!(decide(&seen(finish, calls, text)), wanted, "{name}");
        }
    }

    #[test]
    fn a_second_cut_answer_stops_and_a_used_up_cap_is_a_cut() {
        let twice = Seen { truncated_in_a_row: 1, ..seen(&Finish::Length, 1, "") };
        assert_eq!(decide(&twice), stop(StopReason::OutputTruncated, "length"));
        let lying = Seen { hit_output_cap: true, ..seen(&Finish::ToolUse, 1, "") };
        assert_eq!(decide(&lying), Decision::RefuseTruncated);
    }

    #[test]
    fn what_a_full_context_cut_off_is_not_carried_out() {
        assert_eq!((cut_off(0), cut_off(1)), (Decision::Truncated, Decision::RefuseTruncated));
    }

    #[test]
    fn a_text_is_cut_at_characters_and_only_where_it_is_too_long() {
        assert_eq!((clip("grün", 4), clip("grün", 3)), ("grün".to_owned(), "grü…".to_owned()));
    }

    #[test]
    fn reminders_run_out() {
        let last = Seen { nudges_left: 0, ..seen(&Finish::EndTurn, 0, "") };
        assert_eq!(decide(&last), stop(StopReason::NoFinalAnswer, "no_final_answer_or_tool_call"));
        let last = Seen { nudges_left: 0, ..seen(&Finish::ToolUse, 0, "") };
        assert_eq!(decide(&last), stop(StopReason::ModelError, "tool_use_without_calls"));
    }
}
