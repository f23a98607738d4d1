//! What the model is shown of a goal on every turn, whatever is left out.

use super::*;

const LONG: &str =
    "a result of some length: it says this and that, and then it says it once more, word for word";

/// A goal that is checked every second turn, under a strategy that shows the newest turn alone.
fn settings(strategy: &str) -> String {
    format!(
        "[context]\nstrategy = \"{strategy}\"\nevery_turns = 1\nkeep_turns = 1\nmax_share = 0.95\nmemory = \"The shop opens at 9.\"\n\
         [loop]\nmax_identical_calls = 0\n[goal]\nobjective = \"The shelf is full\"\n\
         done_condition = \"look says so\"\nplan = [\"look\", \"pay\"]\ncheckpoint_every = 2"
    )
}

/// What the model is shown next, a line a message, the loop's own long words cut.
fn shown(told: &Told) -> String {
    let line = |message: &&Message| {
        let text = message.joined_text().replace('\n', " / ");
        let text = match (text.strip_prefix("Checkpoint."), text.find("{\"turn\"")) {
            (Some(_), Some(at)) => format!("Checkpoint. (...) {}", &text[at..]),
            _ => text.chars().take(130).collect(),
        };
        let calls: Vec<&str> = message.tool_calls().map(|call| call.arguments.as_str()).collect();
        format!("{}: {text}{}", message.role.as_str(), calls.join(" ")).trim_end().to_owned()
    };
    told.run.state().prompt().iter().map(line).collect::<Vec<_>>().join("\n")
}

/// So many turns that look something up; what is shown before each further one.
fn looked(strategy: &str, turns: usize) -> (Told, Vec<String>) {
    let (mut told, mut prompts) = (Told::new(&settings(strategy)), Vec::new());
    for round in 0..turns {
        told.answered("", &[("look", &format!("{{\"n\":{round}}}"))], Finish::ToolUse);
        told.work(ToolStatus::Ok, &LONG.repeat(3));
        while !matches!(told.run.next(), Step::Ask { .. }) {
            told.make_room(Some("It was looked at."));
        }
        prompts.push(shown(&told));
    }
    (told, prompts)
}

#[test]
fn goal_memory_and_the_newest_check_are_shown_on_every_turn_whatever_the_strategy() {
    for strategy in ["none", "prune", "summarise", "selective"] {
        let (told, prompts) = looked(strategy, 7);
        let compacted = told.facts.iter().filter(|(_, fact)| fact.kind() == "compacted").count();
        assert_eq!(compacted > 1, strategy != "none", "{strategy}: {compacted} times");
        let mut checked = 0;
        for (prompt, turn) in prompts.iter().zip(1..) {
            let what = format!("{strategy}, turn {turn}:\n{prompt}");
            checked = if turn % 2 == 0 { turn } else { checked };
            let newest = format!("{{\"turn\":{checked},");
            assert!(checked == 0 || prompt.contains(&newest), "{what}");
            for always in [
                "Objective: The shelf is full / Done when: look says so",
                "user: do it",
                "The shop opens at 9.",
            ] {
                assert!(prompt.contains(always), "{what}");
            }
        }
    }
}

#[test]
fn the_newest_check_stays_where_it_was_said_and_older_ones_go_with_their_turns() {
    let third = ["prune", "summarise", "selective"].map(|strategy| looked(strategy, 3).1.remove(2));
    insta::assert_snapshot!(third.join("\n--\n"), @r#"
    system: Objective: The shelf is full / Done when: look says so / Plan: / - look / - pay
    user: do it
    user: What is known from before: / The shop opens at 9.
    user: Checkpoint. (...) {"turn":2,"is_valid":true,"evidence":["look at turn 1 call 0","look at turn 2 call 0"],"is_within_budget":true,"is_done":false,"wants_approval":false,"wants_handoff":false}
    user: [4 earlier messages of this conversation are not shown any more, to save room. Repeat a call only if you need its result again.]
    assistant: {"n":2}
    tool:
    --
    system: Objective: The shelf is full / Done when: look says so / Plan: / - look / - pay
    user: do it
    user: What is known from before: / The shop opens at 9.
    user: Checkpoint. (...) {"turn":2,"is_valid":true,"evidence":["look at turn 1 call 0","look at turn 2 call 0"],"is_within_budget":true,"is_done":false,"wants_approval":false,"wants_handoff":false}
    user: [4 earlier messages of this conversation are not shown any more. What happened in them: / It was looked at.]
    assistant: {"n":2}
    tool:
    --
    system: Objective: The shelf is full / Done when: look says so / Plan: / - look / - pay
    user: do it
    user: What is known from before: / The shop opens at 9.
    user: Checkpoint. (...) {"turn":2,"is_valid":true,"evidence":["look at turn 1 call 0","look at turn 2 call 0"],"is_within_budget":true,"is_done":false,"wants_approval":false,"wants_handoff":false}
    user: [4 earlier messages of this conversation are not shown any more, to save room. What was done in them: / - look 0: result not shown
    assistant: {"n":2}
    tool:
    "#);
    let fifth = looked("prune", 5).1.remove(4);
    assert!(!fifth.contains("{\"turn\":2,"), "{fifth}");
}
