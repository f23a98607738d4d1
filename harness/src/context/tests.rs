//! What each strategy shows of a conversation, and that none of them parts a call from its result.

use super::sample::{conversation, items, told};
use super::*;
use proptest::prelude::*;
use trace::message::{ToolCall, ToolResult};

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
    let view = prune::prune(&items(&messages), 3, &[1], messages.len());
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
    let view = selective::select(&items(&messages), 2, 40, &[1], messages.len(), score);
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
    let view = selective::select(&items(&messages), 2, 40, &[1], messages.len(), cats);
    assert!(told(&view, &messages).contains("-> many cats"));
}

#[test]
fn what_stands_side_by_side_is_one_range() {
    use trace::fact::Shown::{Said, Stay};
    let messages = conversation(&FIVE);
    let view = prune::prune(&items(&messages), 2, &[1], messages.len());
    assert!(matches!(view.shown[..], [Stay(0, 2), Said(_), Stay(8, 12)]), "{:?}", view.shown);
}

#[test]
fn what_was_left_out_before_is_carried_on() {
    let mut messages = conversation(&FIVE);
    let score = |_: &[Item<'_>]| 0.0;
    let first = selective::select(&items(&messages), 2, 0, &[1], messages.len(), score);
    messages.extend(conversation(&[&[("look", r#"{"n":6}"#, "six")]]).split_off(2));
    let second = selective::select(&first.items(&messages), 1, 0, &[1], messages.len(), score);
    let text = told(&second, &messages);
    assert!(text.contains("- search: searched for dogs, no results"), "{text}");
    assert!(text.contains("- look 5: result not shown any more"), "{text}");
    assert!(text.contains("[10 earlier messages"), "{text}");
}

#[test]
fn a_summary_stands_in_place_of_the_older_turns() {
    let messages = conversation(&FIVE);
    let request = summarise::request(&items(&messages), 2, &[1]).unwrap();
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
    let view = summarise::summarised(&items(&messages), 2, "A fox is in the park.", &[1], messages.len());
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
    assert_eq!(summarise::request(&items(&messages), 9, &[1]), None, "nothing is old");
}

#[test]
fn results_that_say_nothing_are_known() {
    for (content, empty) in [
        ("", true),
        ("  ", true),
        ("[]", true),
        ("{}", true),
        ("null", true),
        (r#""""#, true),
        (r#"" ""#, true),
        (r#""here""#, false),
        ("NO RESULTS", true),
        (r#"{"a":[{"b":" "}]}"#, true),
        ("[true]", false),
        (r#"{"n":0.5}"#, false),
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

/// What stands in place of everything, where nothing of it stays.
fn left_out(messages: &[Message]) -> String {
    let view = selective::select(&items(messages), 0, 0, &[1], messages.len(), |_| 0.0);
    told(&view, messages)
}

#[test]
fn what_was_done_is_told_by_the_values_it_was_done_with_and_by_how_it_ended() {
    let long = format!("{{\"q\":\"{}\"}}", "x".repeat(121));
    let mut messages = conversation(&[&[
        ("search", r#"{"deep":{"a":[1]},"n":3,"q":"red"}"#, "found"),
        ("search", "not json", "{\"hits\":[]}"),
        ("search", r#"{"q":"two\nlines"}"#, "found"),
        ("search", &long, "found"),
        ("pay", r#"{"n":9}"#, "no money"),
    ]]);
    let Part::ToolResult(last) = messages[3].parts.last_mut().unwrap() else { panic!("a result") };
    last.is_error = true;
    let text = left_out(&messages);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
    let cut = format!("- search {}…: result not shown any more", "x".repeat(120));
    assert_eq!(
        lines,
        [
            r#"- search {"a":[1]}, 3, red: result not shown any more"#.to_owned(),
            "- search: searched for not json, no results".to_owned(),
            "- search two lines: result not shown any more".to_owned(),
            cut,
            "- pay 9: failed]".to_owned(),
        ]
    );
}

#[test]
fn of_many_lines_the_newest_sixty_are_told() {
    let calls: Vec<String> = (0..65).map(|n| format!("{{\"n\":{n}}}")).collect();
    let turns: Vec<Vec<(&str, &str, &str)>> =
        calls.iter().map(|call| vec![("look", call.as_str(), "seen")]).collect();
    let turns: Vec<&[(&str, &str, &str)]> = turns.iter().map(Vec::as_slice).collect();
    let text = left_out(&conversation(&turns));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!((lines.len(), lines[0]), (60, "- look 5: result not shown any more"));
}

#[test]
fn relevance_is_the_share_of_the_tasks_words_that_a_turn_has() {
    let mut messages = conversation(&[&[("search", r#"{"q":"FOX in it"}"#, "the end")]]);
    messages[2].parts.push(Part::Text { text: "Red?".to_owned() });
    let whole = items(&messages);
    let turn = &whole[2..];
    assert_eq!(selective::relevance("Find the red fox.", turn), 0.75);
    assert_eq!(selective::relevance("Is it in?", turn), 0.0, "short words say nothing");
    assert_eq!(selective::relevance("", turn), 0.0);
}

#[test]
fn of_older_turns_the_best_stay_that_fit_and_of_equals_the_newer() {
    let messages = conversation(&[
        &[("look", "1", "same size")],
        &[("look", "2", "same size")],
        &[("look", "3", "same size")],
        &[("look", "4", "same size")],
    ]);
    let whole = items(&messages);
    let size = tokens(&messages[2..4]);
    let stay = |room: u64, best: &str| {
        let score = |turn: &[Item<'_>]| {
            f64::from(u8::from(turn[0].message.tool_calls().any(|call| call.arguments == best)))
        };
        let view = selective::select(&whole, 1, room, &[1], messages.len(), score);
        let shown =
            view.items(&messages).into_iter().flat_map(|item| item.message.tool_calls().collect::<Vec<_>>());
        shown.map(|call| call.arguments.clone()).collect::<String>()
    };
    assert_eq!(stay(size - 1, ""), "4");
    assert_eq!(stay(size, ""), "34", "of equals the newer");
    assert_eq!(stay(size, "1"), "14", "the best");
    assert_eq!(stay(2 * size - 1, "1"), "14");
    assert_eq!(stay(2 * size, "1"), "134");
}

#[test]
fn the_size_of_a_conversation_counts_all_that_is_sent_of_it() {
    let raw = serde_json::json!({ "a": 1 });
    let call = ToolCall {
        call_id: "c12".to_owned(),
        tool_name: "look".to_owned(),
        arguments: "[1,2,3,4]".to_owned(),
    };
    let result = ToolResult {
        call_id: "c12".to_owned(),
        tool_name: "look".to_owned(),
        content: "what I saw".to_owned(),
        is_error: false,
    };
    for (part, wanted) in [
        (Part::Text { text: "x".repeat(8) }, 2),
        (Part::Text { text: "x".repeat(9) }, 3),
        (Part::ToolCall(call), 4),
        (Part::ToolResult(result), 4),
        (Part::Reasoning { text: "x".repeat(100), raw: Some(raw.clone()) }, 2),
        (Part::Reasoning { text: "x".repeat(100), raw: None }, 25),
        (Part::Opaque { wire: "messages".to_owned(), raw }, 2),
    ] {
        let message = Message { role: Role::Assistant, parts: vec![part] };
        assert_eq!(tokens([&message]), wanted, "{message:?}");
    }
}

#[test]
fn where_few_tools_were_called_the_newest_turns_of_any_kind_stay() {
    let said = |text: &str| vec![Message::text(Role::Assistant, text), Message::text(Role::User, "go on")];
    let mut messages = conversation(&[&[("look", "1", "seen")]]);
    ["one", "two", "three"].iter().for_each(|text| messages.extend(said(text)));
    let first = |keep: u32| {
        let whole = items(&messages);
        turn::recent(&turn::turns(&whole), keep, whole.len())
    };
    let all = messages.len();
    assert_eq!([first(0), first(1), first(2), first(3), first(9)], [all, 2, 2, 2, 2]);
    let plain: Vec<Message> = messages.iter().take(2).chain(&messages[4..]).cloned().collect();
    let first = |keep: u32| {
        let whole = items(&plain);
        turn::recent(&turn::turns(&whole), keep, whole.len())
    };
    assert_eq!([first(0), first(1), first(2), first(3), first(9)], [8, 6, 4, 2, 2]);
}

#[test]
fn instructions_the_task_and_the_first_words_of_a_person_never_go() {
    let mut messages = vec![
        Message::text(Role::User, "Who are you?"),
        Message::text(Role::Assistant, "A finder."),
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "Find the fox."),
        Message::text(Role::User, "It is red."),
        Message::text(Role::User, "And now?"),
    ];
    let whole = items(&messages);
    let pinned: Vec<bool> = (0..6).map(|index| turn::is_pinned(&whole, index, &[3, 4])).collect();
    assert_eq!(pinned, [true, false, true, true, true, false]);
    // A note is of the loop, and can be put anew.
    let note = Message::text(Role::User, "[not shown]");
    messages.remove(0);
    let mut shown = vec![Item { place: None, message: &note }];
    shown.extend(items(&messages));
    let pinned: Vec<bool> = (0..6).map(|index| turn::is_pinned(&shown, index, &[])).collect();
    assert_eq!(pinned, [false, false, true, true, false, false]);
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
            prune::prune(&whole, keep, &[1], messages.len()),
            selective::select(&whole, keep, room, &[1], messages.len(), score),
            summarise::summarised(&whole, keep, "so far", &[1], messages.len()),
        ] {
            let first = view.items(&messages);
            for view in [view.clone(), prune::prune(&first, again, &[1], messages.len())] {
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
