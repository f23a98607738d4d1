//! When the model is shown less, what that costs, and what is reserved before it is asked.

use super::*;
use crate::context::unpaired;
use trace::redact::Redactor;

impl Told {
    fn model_asked(turn: u32, attempt: u32) -> ModelAsked {
        ModelAsked {
            turn,
            attempt,
            endpoint: String::new(),
            stream: false,
            said: Vec::new(),
            parent: None,
            fragments: Vec::new(),
            head: NO_HASH,
            depth: 0,
            frame: NO_HASH,
            body_bytes: 0,
            previous_response_id: None,
            body_hash: NO_HASH,
            heard: Vec::new(),
        }
    }

    /// Does what the machine wants done about the context; a summary that is asked for says this.
    pub(super) fn make_room(&mut self, summary: Option<&str>) {
        match self.run.next() {
            Step::Compact(compacted) => {
                self.feed(Fact::Compacted(compacted));
            }
            Step::Summarise { turn, .. } => {
                let usage = Usage { input_tokens: Some(10), output_tokens: Some(5), ..Usage::default() };
                self.summarised(turn, summary.map(|text| (text, usage)), None);
            }
            other => panic!("makes no room: {other:?}"),
        }
    }

    /// A summary is asked for and comes, or fails.
    pub(super) fn summarised(&mut self, turn: u32, said: Option<(&str, Usage)>, cost_usd: Option<f64>) {
        self.feed(Fact::SummaryAsked(Box::new(Self::model_asked(turn, 1))));
        let response = said.map(|(text, usage)| Response {
            usage,
            finish: Finish::EndTurn,
            ..answer(vec![Part::Text { text: text.to_owned() }])
        });
        let fault = response.is_none().then(|| Fault::new(FaultClass::Transient, "no"));
        self.feed(Fact::SummaryAnswered(Box::new(ModelAnswered {
            turn,
            attempt: 1,
            status: Some(200),
            headers: BTreeMap::new(),
            body: None,
            recut: false,
            cut: false,
            chunks: Vec::new(),
            response,
            fault,
            latency_ns: 0,
            cost_usd,
        })));
    }

    /// A turn that looks something up, with this result.
    pub(super) fn looks(&mut self, result: &str) {
        self.answered("let me see", &[("look", &format!("{{\"n\":{}}}", self.facts.len()))], Finish::ToolUse);
        self.work(ToolStatus::Ok, result);
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.facts.iter().map(|(_, fact)| fact.kind()).collect()
    }

    fn compactions(&self) -> Vec<&trace::fact::Compacted> {
        let facts = self.facts.iter().map(|(_, fact)| fact);
        facts.filter_map(|fact| if let Fact::Compacted(fact) = fact { Some(&**fact) } else { None }).collect()
    }

    fn stopped(&self) -> Outcome {
        let Step::Done(outcome) = self.run.next() else { panic!("ends, not {:?}", self.run.next()) };
        *outcome
    }
}

pub(super) const LONG: &str =
    "a result of some length: it says this and that, and then it says it once more, word for word";

pub(super) fn small(strategy: &str) -> String {
    format!(
        "[context]\nstrategy = \"{strategy}\"\nmax_tokens = 70\nkeep_turns = 1\n[loop]\nmax_identical_calls = 0"
    )
}

#[test]
fn the_order_of_a_step_is_budget_compaction_reserve_answer_tools() {
    let mut told = Told::new(&small("summarise"));
    for _ in 0..3 {
        told.looks(LONG);
    }
    told.make_room(Some("it was looked up"));
    told.make_room(None);
    told.answered("Done.", &[], Finish::EndTurn);
    assert_eq!(told.stopped().stop_reason, StopReason::Completed);
    insta::assert_snapshot!(told.kinds().join("\n"), @r"
    run_started
    model_asked
    model_answered
    tool_finished
    model_asked
    model_answered
    tool_finished
    model_asked
    model_answered
    tool_finished
    summary_asked
    summary_answered
    compacted
    model_asked
    model_answered
    ");
}

#[test]
fn the_stored_history_stays_whole_and_only_what_is_shown_shrinks() {
    let mut told = Told::new(&small("prune"));
    for _ in 0..4 {
        if matches!(told.run.next(), Step::Compact(_)) {
            told.make_room(None);
        }
        told.looks(LONG);
    }
    told.make_room(None);
    let state = told.run.state();
    assert_eq!(state.messages.len(), 1 + 4 * 2);
    assert_eq!(state.prompt().len(), 1 + 1 + 2, "task, note, newest turn");
    assert_eq!(unpaired(&state.view.items(&state.messages)), None);
    assert_eq!(told.refolded().state(), state);
    for one in told.compactions() {
        assert!(one.after_tokens as f64 <= 0.8 * one.before_tokens as f64, "{one:?}");
    }
}

#[test]
fn a_summary_is_paid_for_and_one_that_fails_is_no_end() {
    let mut told = Told::new(&small("summarise"));
    told.looks(LONG);
    told.looks(LONG);
    told.looks(LONG);
    assert!(matches!(told.run.next(), Step::Summarise { turn: 4, .. }), "{:?}", told.run.next());
    let before = told.run.state().usage.total();
    told.make_room(Some("it was looked up"));
    assert_eq!(told.run.state().usage.total(), before.map(|tokens| tokens + 15));
    assert_eq!(told.run.state().turns, 3, "a summary is no turn");
    let Step::Compact(compacted) = told.run.next() else { panic!("shows less") };
    assert_eq!((compacted.strategy.as_str(), compacted.trigger.as_str()), ("summarise", "max_tokens"));
    assert!(serde_json::to_string(&compacted.view).unwrap().contains("it was looked up"));

    let mut told = Told::new(&small("summarise"));
    told.looks(LONG);
    told.looks(LONG);
    told.looks(LONG);
    told.make_room(None);
    let Step::Compact(compacted) = told.run.next() else { panic!("shows less") };
    assert_eq!(compacted.strategy, "prune");
}

#[test]
fn a_summary_that_has_no_room_in_a_budget_is_not_asked_for() {
    for (limit, step) in [(1000, "summarise"), (200, "prune")] {
        let budget = format!("[budget]\nmax_total_tokens = {limit}");
        let mut told = Told::new(&format!("max_output_tokens = 20\n{}\n{budget}", small("summarise")));
        (0..3).for_each(|_| told.looks(LONG));
        let next = match told.run.next() {
            Step::Summarise { .. } => "summarise".to_owned(),
            Step::Compact(compacted) => compacted.strategy,
            other => panic!("makes room, not {other:?}"),
        };
        assert_eq!(next, step, "with {limit} tokens");
    }
}

#[test]
fn what_cannot_be_made_smaller_stops_the_run() {
    let mut told = Told::new("[context]\nstrategy = \"prune\"\nmax_tokens = 40");
    told.looks(&LONG.repeat(3));
    let outcome = told.stopped();
    assert_eq!(
        (outcome.stop_reason, outcome.trigger.as_str()),
        (StopReason::ContextExhausted, "context_not_smaller")
    );
    assert!(outcome.evidence.observed > outcome.evidence.threshold, "{:?}", outcome.evidence);
    assert!(outcome.evidence.detail.contains("could only be brought to"), "{:?}", outcome.evidence);
    let mut told = Told::new("[context]\nmax_tokens = 40");
    told.looks(&LONG.repeat(3));
    assert!(matches!(told.run.next(), Step::Ask { .. }), "without a strategy nothing is made smaller");
}

#[test]
fn no_more_than_two_compactions_follow_each_other() {
    // Each is a gain, and none brings it down to the limit.
    let mut told =
        Told::new("[context]\nstrategy = \"prune\"\nmax_tokens = 100\nkeep_turns = 2\nmax_share = 0.95");
    told.looks(LONG);
    told.looks(LONG);
    told.looks(LONG);
    told.looks(&LONG.repeat(4));
    told.make_room(None);
    told.make_room(None);
    let outcome = told.stopped();
    assert_eq!(outcome.stop_reason, StopReason::ContextExhausted, "{outcome:?}");
    assert!(outcome.evidence.detail.starts_with("after 2 compactions in a row"), "{outcome:?}");
    assert_eq!(told.compactions().len(), 2);
}

#[test]
fn every_so_many_tool_turns_it_shrinks_whatever_its_size_and_never_stops_for_that() {
    let mut told = Told::new(
        "[context]\nstrategy = \"prune\"\nevery_turns = 3\nkeep_turns = 1\n[loop]\nmax_identical_calls = 0",
    );
    let mut compacted = Vec::new();
    for turn in 1..9 {
        if matches!(told.run.next(), Step::Compact(_)) {
            told.make_room(None);
            compacted.push(turn);
        }
        told.looks(LONG);
    }
    assert_eq!(compacted, [4, 7]);
    assert!(told.compactions().iter().all(|one| one.trigger == "every_turns"));
    // Too little to gain: it goes on as it is.
    let mut told = Told::new("[context]\nstrategy = \"prune\"\nevery_turns = 1\nkeep_turns = 1");
    told.looks(LONG);
    assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }), "{:?}", told.run.next());
}

#[test]
fn a_full_context_is_compacted_once_between_two_answers_and_then_it_stops() {
    for by_fault in [true, false] {
        let full = |told: &mut Told| match by_fault {
            true => told.failed(FaultClass::Overflow),
            false => told.answered("I was", &[], Finish::ContextFull),
        };
        let mut told = Told::new("[context]\nstrategy = \"prune\"\nkeep_turns = 1");
        told.looks(LONG);
        told.looks(LONG);
        told.looks(LONG);
        full(&mut told);
        let Step::Compact(compacted) = told.run.next() else {
            panic!("shows less, not {:?}", told.run.next())
        };
        assert_eq!(compacted.trigger, "context_full");
        told.make_room(None);
        assert_eq!(told.refolded().state(), told.run.state());
        let Step::Ask { turn, attempt } = told.run.next() else { panic!("asks") };
        assert_eq!((turn, attempt), if by_fault { (4, 2) } else { (5, 1) });
        let mut again = told.run.clone();
        full(&mut told);
        assert_eq!(told.stopped().stop_reason, StopReason::ContextExhausted);

        // An answer in between, and it may be made smaller once more.
        std::mem::swap(&mut told.run, &mut again);
        (0..3).for_each(|_| told.looks(LONG));
        full(&mut told);
        assert!(matches!(told.run.next(), Step::Compact(_)), "{:?}", told.run.next());

        let mut told = Told::new("");
        full(&mut told);
        assert_eq!(told.stopped().stop_reason, StopReason::ContextExhausted, "without a strategy at once");
    }
}

#[test]
fn calls_of_an_answer_that_the_context_cut_off_are_not_run() {
    let mut told = Told::new("[context]\nstrategy = \"prune\"\nkeep_turns = 1");
    told.looks(LONG);
    told.looks(LONG);
    told.looks(LONG);
    told.answered("", &[("write", "{\"half")], Finish::ContextFull);
    assert!(matches!(told.run.next(), Step::Refuse(_)), "{:?}", told.run.next());
}

#[test]
fn a_conversation_that_is_not_paired_is_never_sent() {
    let mut told = Told::new("");
    told.looks(LONG);
    told.run.state.messages.pop();
    let outcome = told.stopped();
    assert_eq!(outcome.trigger, "unpaired_calls");
    assert!(outcome.evidence.detail.contains("turn 2 was not asked"), "{}", outcome.evidence.detail);
    assert!(outcome.evidence.next_safe_action.unwrap().contains("fault of loopdeck"));
}

#[test]
fn a_call_that_may_not_fit_is_not_started() {
    let budget = "max_output_tokens = 20\n[budget]\n";
    for (limits, wanted) in [
        // 15 tokens are used; the next call has about 20 of input, and 20 of output at most.
        ("max_total_tokens = 50", Some("max_total_tokens")),
        ("max_total_tokens = 500", None),
        ("max_output_tokens = 24", Some("max_output_tokens")),
        ("max_output_tokens = 25", None),
        ("max_input_tokens = 25", Some("max_input_tokens")),
        ("max_total_tokens = 50\nreserve = false", None),
    ] {
        let mut told = Told::new(&format!("{budget}{limits}"));
        told.looks("r");
        match told.run.next() {
            Step::Done(outcome) => {
                assert_eq!(Some(outcome.trigger.as_str()), wanted, "{limits}");
                assert!(outcome.evidence.detail.contains("was not started"), "{}", outcome.evidence.detail);
            }
            step => assert!(wanted.is_none(), "{limits}: {step:?}"),
        }
    }
    // A limit that is not known to be overstepped does not stop: without the longest answer nothing is reserved.
    let mut told = Told::new("[budget]\nmax_total_tokens = 16");
    told.looks("r");
    assert!(matches!(told.run.next(), Step::Ask { .. }));
}

#[test]
fn dollars_are_reserved_to_the_last_one() {
    // A token is a dollar.
    let priced = |limit: &str| {
        let mut told = Told::new(&format!(
            "max_output_tokens = 20\nprice = {{ input = 1000000.0, output = 1000000.0 }}\n[budget]\n{limit}"
        ));
        told.looks("r");
        told
    };
    let need = priced("").run.next_tokens() + 20;
    assert!(matches!(priced(&format!("max_total_cost = {need}.0")).run.next(), Step::Ask { .. }));
    let outcome = priced(&format!("max_total_cost = {}.0", need - 1)).stopped();
    assert_eq!(
        (outcome.stop_reason, outcome.trigger.as_str()),
        (StopReason::BudgetExceeded, "max_total_cost")
    );
}

/// Every kind of part, each with this word in it.
fn parts(word: &str) -> Vec<Part> {
    let text = |before: &str| format!("{before} {word}");
    let raw = |before: &str| serde_json::json!({ "said": text(before) });
    vec![
        Part::Text { text: text("text") },
        Part::Reasoning { text: text("thought"), raw: Some(raw("thought")) },
        Part::Reasoning { text: text("thought"), raw: None },
        Part::Opaque { wire: "messages".to_owned(), raw: raw("opaque") },
        Part::ToolCall(ToolCall {
            call_id: "c0".to_owned(),
            tool_name: "look".to_owned(),
            arguments: raw("call").to_string(),
        }),
    ]
}

#[test]
fn what_is_decided_of_the_context_hangs_on_no_secret() {
    let redactor = Redactor::new([7; 32]).unwrap();
    let secret = format!("sk-{}", "a".repeat(400));
    let clean = redactor.text(&secret).into_owned();
    let tell = |settings: &str, word: &str| {
        let mut told = Told::new(settings);
        told.heard(Some(answer(parts(word))), None);
        told.work(ToolStatus::Ok, &format!("result {word}"));
        told.run.keep(&redactor);
        told
    };
    for settings in ["[context]\nstrategy = \"prune\"", "max_output_tokens = 20"] {
        let (told, replayed) = (tell(settings, &secret), tell(settings, &clean));
        assert_eq!(told.run.kept, replayed.run.state().messages, "{settings}");
        assert_eq!(told.run.next_tokens(), replayed.run.next_tokens());
        assert_ne!(told.run.state().messages, replayed.run.state().messages, "the model is shown the secret");
    }
    assert_eq!(tell("", &secret).run.kept, [], "where nothing is decided nothing is kept twice");

    // The summary too.
    let summarised = |word: &str| {
        let mut told = Told::new(&small("summarise"));
        (0..3).for_each(|_| told.looks(LONG));
        told.make_room(Some(&format!("it was {word}")));
        told.run.keep(&redactor);
        told.run.next()
    };
    assert_eq!(summarised(&secret), summarised(&clean));
    assert!(matches!(summarised(&secret), Step::Compact(one) if one.strategy == "summarise"));
}

#[test]
fn what_is_said_after_the_last_look_at_secrets_is_kept_with_the_next() {
    let redactor = Redactor::new([7; 32]).unwrap();
    let mut told = Told::new("[context]\nstrategy = \"prune\"");
    told.run.keep(&redactor);
    let before = told.run.next_tokens();
    told.looks(LONG);
    assert!(told.run.next_tokens() > before, "as it is, until it is kept");
    told.run.keep(&redactor);
    assert_eq!(told.run.kept, told.run.state().messages);
}

#[test]
fn memory_and_what_was_said_before_are_shown_on_every_turn() {
    let mut told = Told::begun(
        "[context]\nstrategy = \"prune\"\nkeep_turns = 1\nmax_tokens = 100\nmemory = \"The fox is red.\"\n[agent]\nprompt = \"Be brief.\"",
        vec![Message::text(Role::User, "Who are you?"), Message::text(Role::Assistant, "A finder.")],
    );
    let shown = |told: &Told| {
        let lines = told
            .run
            .state()
            .prompt()
            .into_iter()
            .map(|one| format!("{}: {}", one.role.as_str(), one.joined_text()));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown(&told), @r"
    system: Be brief.
    user: Who are you?
    assistant: A finder.
    user: do it
    user: What is known from before:
    The fox is red.
    ");
    told.looks(LONG);
    told.looks(LONG);
    told.looks(LONG);
    told.make_room(None);
    insta::assert_snapshot!(shown(&told), @r"
    system: Be brief.
    user: Who are you?
    user: do it
    user: What is known from before:
    The fox is red.
    user: [5 earlier messages of this conversation are not shown any more, to save room. Repeat a call only if you need its result again.]
    assistant: let me see
    tool:
    ");
}
