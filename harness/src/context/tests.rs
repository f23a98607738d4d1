//! What each strategy shows of a conversation, and that none of them parts a call from its result.

use super::sample::{conversation, items, told};
use super::*;
use proptest::prelude::*;

const FIVE: [&[(&str, &str, &str)]; 5] = [
    &[("search", r#"{"q":"red fox"}"#, "a red fox in the park"), ("search", r#"{"q":"blue fox"}"#, "[]")],
    &[(
        "search",
        r#"{"q":"cats"}"#,
        "many cats of every kind and size, in every street of the town, all day long",
    )],
    &[("search", r#"{"q":"dogs"}"#, r#"{"results":[],"count":0}"#)],
    &[("look", r#"{"n":4}"#, "four")],
    &[("look", r#"{"n":5}"#, "five")],
];

#[test]
fn pruning_keeps_the_newest_tool_turns_and_the_first_user_message() {
    let messages = conversation(&FIVE);
    let view = prune::prune(&items(&messages), 3, &(1..2), messages.len());
    insta::assert_snapshot!(told(&view, &messages), @r#"
    system: Be brief.
    user: Find the red fox.
    user: [4 earlier messages of this conversation are not shown any more, to save room. Repeat a call only if you need its result again.]
    assistant: search {"q":"dogs"}
    tool: -> {"results":[],"count":0}
    assistant: look {"n":4}
    tool: -> four
    assistant: look {"n":5}
    tool: -> five
    "#);
}

#[test]
fn selecting_keeps_what_has_to_do_with_the_task_and_tells_empty_results_in_a_line() {
    let messages = conversation(&FIVE);
    let score = |turn: &[Item<'_>]| selective::relevance("Find the red fox.", turn);
    let view = selective::select(&items(&messages), 2, 40, &(1..2), messages.len(), score);
    insta::assert_snapshot!(told(&view, &messages), @r#"
    system: Be brief.
    user: Find the red fox.
    assistant: search {"q":"red fox"} | search {"q":"blue fox"}
    tool: -> a red fox in the park | -> []
    user: [4 earlier messages of this conversation are not shown any more, to save room. What was done in them:
    - search cats: result not shown any more
    - search: searched for dogs, no results]
    assistant: look {"n":4}
    tool: -> four
    assistant: look {"n":5}
    tool: -> five
    "#);
    // Another scorer, another choice.
    let cats = |turn: &[Item<'_>]| {
        let mut calls = turn.iter().flat_map(|item| item.message.tool_calls());
        f64::from(u8::from(calls.any(|call| call.arguments.contains("cats"))))
    };
    let view = selective::select(&items(&messages), 2, 40, &(1..2), messages.len(), cats);
    assert!(told(&view, &messages).contains("-> many cats"));
}

#[test]
fn what_was_left_out_before_is_carried_on() {
    let mut messages = conversation(&FIVE);
    let score = |_: &[Item<'_>]| 0.0;
    let first = selective::select(&items(&messages), 2, 0, &(1..2), messages.len(), score);
    messages.extend(conversation(&[&[("look", r#"{"n":6}"#, "six")]]).split_off(2));
    let second = selective::select(&first.items(&messages), 1, 0, &(1..2), messages.len(), score);
    let text = told(&second, &messages);
    assert!(text.contains("- search: searched for dogs, no results"), "{text}");
    assert!(text.contains("- look 5: result not shown any more"), "{text}");
    assert!(text.contains("[10 earlier messages"), "{text}");
}

#[test]
fn a_summary_stands_in_place_of_the_older_turns() {
    let messages = conversation(&FIVE);
    let request = summarise::request(&items(&messages), 2, &(1..2)).unwrap();
    insta::assert_snapshot!(request[1].joined_text(), @r#"
    assistant calls search with {"q":"red fox"}
    assistant calls search with {"q":"blue fox"}
    search answers: a red fox in the park
    search answers: []
    assistant calls search with {"q":"cats"}
    search answers: many cats of every kind and size, in every street of the town, all day long
    assistant calls search with {"q":"dogs"}
    search answers: {"results":[],"count":0}
    "#);
    let view = summarise::summarised(&items(&messages), 2, "A fox is in the park.", &(1..2), messages.len());
    insta::assert_snapshot!(told(&view, &messages), @r#"
    system: Be brief.
    user: Find the red fox.
    user: [6 earlier messages of this conversation are not shown any more. What happened in them:
    A fox is in the park.]
    assistant: look {"n":4}
    tool: -> four
    assistant: look {"n":5}
    tool: -> five
    "#);
    assert_eq!(summarise::request(&items(&messages), 9, &(1..2)), None, "nothing is old");
}

#[test]
fn results_that_say_nothing_are_known() {
    for (content, empty) in [
        ("", true),
        ("  ", true),
        ("[]", true),
        ("{}", true),
        ("null", true),
        (r#"{"results":[],"total":0,"more":false}"#, true),
        ("No results", true),
        ("0", false),
        ("false", false),
        ("[0,1]", false),
        (r#"{"found":true}"#, false),
        ("here it is", false),
    ] {
        assert_eq!(selective::is_empty(content), empty, "{content}");
    }
}

#[test]
fn a_call_without_its_result_and_a_result_without_its_call_are_found() {
    let whole = conversation(&FIVE);
    assert_eq!(unpaired(&items(&whole)), None);
    for (lost, told) in [
        (2, "answers the calls [\"c0.0\", \"c0.1\"], open are []"),
        (3, "answers the calls [], open are [\"c0.0\", \"c0.1\"]"),
    ] {
        let mut messages = whole.clone();
        messages.remove(lost);
        let why = unpaired(&items(&messages)).unwrap();
        assert!(why.contains(told), "{why}");
    }
    assert!(unpaired(&items(&whole[..3])).unwrap().contains("unanswered"));
}

/// Conversations of any shape: plain answers, tool turns of one to three calls, words of a person in between.
fn shapes() -> impl Strategy<Value = Vec<Message>> {
    let turn = prop_oneof![
        Just(vec![Message::text(Role::Assistant, "so it is")]),
        Just(vec![Message::text(Role::Assistant, "hm"), Message::text(Role::User, "go on")]),
        (1..4_usize).prop_map(
            |calls| conversation(&[&[("t", r#"{"n":1}"#, "some result")].repeat(calls)]).split_off(2)
        ),
    ];
    prop::collection::vec(turn, 0..9).prop_map(|turns| {
        let mut messages = conversation(&[]);
        messages.extend(turns.into_iter().flatten());
        messages
    })
}

proptest! {
    #[test]
    fn no_strategy_parts_a_call_from_its_result_or_leaves_the_task_out(
        messages in shapes(), keep in 0..5_u32, room in 0..80_u64, again in 0..3_u32,
    ) {
        let whole = items(&messages);
        prop_assert_eq!(unpaired(&whole), None);
        let score = |turn: &[Item<'_>]| tokens(turn.iter().map(|item| item.message)) as f64;
        for view in [
            prune::prune(&whole, keep, &(1..2), messages.len()),
            selective::select(&whole, keep, room, &(1..2), messages.len(), score),
            summarise::summarised(&whole, keep, "so far", &(1..2), messages.len()),
        ] {
            let first = view.items(&messages);
            for view in [view.clone(), prune::prune(&first, again, &(1..2), messages.len())] {
                let items = view.items(&messages);
                prop_assert_eq!(unpaired(&items), None);
                prop_assert_eq!(items[0].message, &messages[0]);
                prop_assert_eq!(items[1].message, &messages[1]);
                prop_assert!(items.iter().filter(|item| item.place.is_none()).count() <= 1, "one note at most");
                // What is shown is in order, and everything said later follows.
                let places: Vec<usize> = items.iter().filter_map(|item| item.place).collect();
                prop_assert!(places.is_sorted());
                let mut longer = messages.clone();
                longer.push(Message::text(Role::User, "and now?"));
                prop_assert_eq!(view.items(&longer).last().and_then(|item| item.place), Some(messages.len()));
            }
        }
    }
}
