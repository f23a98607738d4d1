//! How much is shown, to the token: when it is too much, what is small enough, and what was shown before.

use super::context::{LONG, small};
use super::*;
use crate::context::tokens;

fn compaction(told: &Told) -> Option<trace::fact::Compacted> {
    if let Step::Compact(compacted) = told.run.next() { Some(*compacted) } else { None }
}

/// The text of what is shown next.
fn shown(told: &Told) -> String {
    told.run.state().prompt().into_iter().map(Message::joined_text).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_conversation_is_too_long_from_the_first_token_over_its_limit_on() {
    let looked = |limit: u64| {
        let mut told = Told::new(&format!(
            "[context]\nstrategy = \"prune\"\nkeep_turns = 1\nmax_tokens = {limit}\n[loop]\nmax_identical_calls = 0"
        ));
        (0..3).for_each(|_| told.looks(LONG));
        told
    };
    let all = tokens(&looked(1000).run.state().messages);
    assert_eq!(compaction(&looked(all)), None);
    let compacted = compaction(&looked(all - 1)).unwrap();
    assert_eq!((compacted.turn, compacted.before_tokens, compacted.messages), (4, all, 7));
    assert_eq!((compacted.trigger.as_str(), compacted.strategy.as_str()), ("max_tokens", "prune"));
    let mut told = looked(all - 1);
    let events = told.feed(Fact::Compacted(Box::new(compacted.clone())));
    let after = tokens(told.run.state().prompt());
    assert_eq!(events, [Event::Compacted { turn: 4, before: all, after }]);
    assert_eq!(compacted.after_tokens, after);
}

#[test]
fn what_shrinks_to_exactly_the_share_is_small_enough() {
    let mut exactly = 0;
    for length in 1..200 {
        let mut told = Told::new("[context]\nstrategy = \"prune\"\nkeep_turns = 1\n");
        told.looks(&"x".repeat(length));
        told.looks(&"y".repeat(200));
        told.failed(FaultClass::Overflow);
        match told.run.next() {
            Step::Compact(one) => exactly += u32::from(one.after_tokens == one.before_tokens * 4 / 5),
            Step::Done(outcome) => assert!(outcome.evidence.observed > outcome.evidence.threshold),
            other => panic!("full, and {other:?}"),
        }
    }
    assert!(exactly > 0, "none was exactly the share");
}

#[test]
fn the_next_request_is_the_last_count_and_what_was_said_since() {
    let mut told = Told::new("max_output_tokens = 20");
    let task = tokens(&told.run.state().messages);
    assert_eq!(told.run.next_tokens(), task, "estimated, before anything was counted");
    told.looks(LONG);
    let result = told.run.state().messages.last().unwrap().clone();
    assert_eq!(told.run.next_tokens(), 15 + tokens([&result]));
}

#[test]
fn what_was_shown_last_is_known_when_less_is_shown_next() {
    let mut told = Told::new(&small("prune"));
    (0..3).for_each(|_| told.looks(LONG));
    let asked = tokens(&told.run.state().messages[..5]);
    assert!(!told.run.state().is_shown_anew());
    assert_eq!(tokens(told.run.state().prompt_sent()), asked, "the third answer and its result are new");
    told.make_room(None);
    assert!(told.run.state().is_shown_anew());
    assert_eq!(tokens(told.run.state().prompt_sent()), asked);
    let less = shown(&told);
    told.asked();
    assert!(!told.run.state().is_shown_anew());
    let sent: Vec<String> = told.run.state().prompt_sent().into_iter().map(Message::joined_text).collect();
    assert_eq!(sent.join("\n"), less);
}

#[test]
fn a_second_compaction_in_a_row_prunes_whatever_the_strategy_is() {
    for strategy in ["summarise", "selective"] {
        let mut told = Told::new(&format!(
            "[context]\nstrategy = \"{strategy}\"\nmax_tokens = 170\nkeep_turns = 2\nmax_share = 0.9"
        ));
        (0..3).for_each(|_| told.looks(&LONG.repeat(2)));
        told.looks(&LONG.repeat(4));
        if strategy == "summarise" {
            told.make_room(Some("so far"));
        }
        let first = compaction(&told).unwrap();
        told.feed(Fact::Compacted(Box::new(first.clone())));
        let second = compaction(&told).unwrap();
        assert_eq!((first.strategy.as_str(), second.strategy.as_str()), (strategy, "prune"));
    }
}

#[test]
fn a_summary_that_is_longer_than_what_it_stands_for_is_not_shown() {
    for (summary, strategy) in
        [("so far".to_owned(), "summarise"), (LONG.repeat(9), "prune"), (" ".to_owned(), "prune")]
    {
        let mut told = Told::new(&small("summarise"));
        (0..3).for_each(|_| told.looks(LONG));
        told.make_room(Some(&summary));
        assert_eq!(compaction(&told).unwrap().strategy, strategy, "{summary:?}");
        assert_eq!(told.run.state().last_tokens, Some(15), "those of the last answer");
    }
}

#[test]
fn what_has_to_do_with_the_task_stays_up_to_half_of_what_there_is_room_for() {
    // What is remembered is in the first turn; the others are as long and about something else.
    let stays = |limit: u64| {
        let mut told = Told::new(&format!(
            "[context]\nstrategy = \"selective\"\nkeep_turns = 1\nmax_tokens = {limit}\nmemory = \"foxes and hounds\""
        ));
        told.looks(&format!("foxes and hounds {}", "x".repeat(383)));
        (0..3).for_each(|_| told.looks(&"y".repeat(400)));
        told.looks(&"z".repeat(800));
        if compaction(&told).is_none() {
            told.failed(FaultClass::Overflow);
        }
        told.make_room(None);
        let is_it = |part: &Part| matches!(part, Part::ToolResult(one) if one.content.starts_with("foxes"));
        told.run.state().prompt().iter().any(|message| message.parts.iter().any(is_it))
    };
    let stayed: Vec<bool> = (450..860).map(stays).collect();
    assert!(!stayed[0] && stayed[409], "little room, and enough");
    assert!(stayed.is_sorted(), "more room shows no less");
}
