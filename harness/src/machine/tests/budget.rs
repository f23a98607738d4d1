//! Budgets under any script: nothing begins over one, and what was reserved is enough.

use super::*;
use crate::context::tokens;
use crate::machine::limit;
use trace::fact::Child;

/// What the world draws from, one number a decision.
#[derive(Debug)]
struct Draws(std::vec::IntoIter<u16>);

impl Draws {
    /// A number below `most`; 0 when nothing is left to draw.
    fn below(&mut self, most: u64) -> u64 {
        u64::from(self.0.next().unwrap_or(0)) % most.max(1)
    }

    /// Tokens of an answer that keeps to what was estimated and allowed.
    fn usage(&mut self, input: u64, output: u64) -> Usage {
        let (input, output) = (self.below(input + 1), self.below(output + 1));
        Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
    }
}

/// The longest answer that the model of these scripts may give.
const LONGEST: u64 = 20;

/// A random agent.toml: every budget may be nothing, little, or enough.
fn settings() -> impl Strategy<Value = String> {
    let counts = (0..5_u32, 0..9_u32, 0..4_u32, 0..4_u32, 0..40_u64, 0..4_u32, 0..4_u32);
    let limit = || prop::option::of(0..260_u64);
    let rest = (
        limit(),
        limit(),
        limit(),
        any::<bool>(),
        prop::sample::select(vec!["none", "prune", "summarise"]),
        10..90_u64,
    );
    (counts, rest).prop_map(|(counts, (input, output, total, reserves, strategy, max_tokens))| {
        let (turns, calls, per_tool, parallel, wall, retries, errors) = counts;
        let longest = if reserves { format!("max_output_tokens = {LONGEST}\n") } else { String::new() };
        let set = |name: &str, limit: Option<u64>| {
            limit.map_or_else(String::new, |limit| format!("{name} = {limit}\n"))
        };
        // A token costs 10 cents, so that dollars are as scarce as tokens.
        let cost = total.map_or_else(String::new, |limit| format!("max_total_cost = {}.0\n", limit / 9));
        format!(
            "{longest}price = {{ input = 100000.0, output = 100000.0 }}\n\
             [budget]\nmax_model_turns = {turns}\nmax_tool_calls = {calls}\nmax_calls_per_tool = {per_tool}\n\
             max_parallel_tool_calls = {parallel}\nmax_wall_time_seconds = {wall}\n\
             max_retries_per_model_call = {retries}\nmax_errors = {errors}\n{}{}{}{cost}\
             [loop]\nmax_unknown_tools = 1\n\
             [context]\nstrategy = \"{strategy}\"\nmax_tokens = {max_tokens}\nkeep_turns = 1\n",
            set("max_input_tokens", input),
            set("max_output_tokens", output),
            set("max_total_tokens", total),
        )
    })
}

impl Told {
    fn ran(&self) -> u32 {
        self.run.state().ran.values().sum::<u32>() + self.run.state().children.tool_calls
    }

    /// What is used up of each budget of tokens and dollars, with its limit.
    fn accounts(&self) -> [(&'static str, f64, Option<f64>); 4] {
        let (budget, state) = (&self.run.config.budget, self.run.state());
        let mut used = state.usage;
        used.add(&state.children.usage);
        let known = |tokens: Option<u64>| tokens.unwrap_or(0) as f64;
        let set = |limit: Option<u64>| limit.map(|limit| limit as f64);
        [
            ("input", known(used.input_tokens), set(budget.max_input_tokens)),
            ("output", known(used.output_tokens), set(budget.max_output_tokens)),
            ("total", known(used.total()), set(budget.max_total_tokens)),
            ("cost", state.cost_usd.unwrap_or(0.0) + state.children.cost_usd, budget.max_total_cost),
        ]
    }

    /// What must hold whenever a model is asked, for an answer or for a summary.
    fn assert_within_before_asking(&self, input: u64) {
        let state = self.run.state();
        let longest = self.run.config.model.max_output_tokens;
        let cents = |tokens: u64| tokens as f64 / 10.0;
        for (name, used, limit) in self.accounts() {
            let Some(limit) = limit else { continue };
            assert!(used < limit, "{name}: {used} of {limit} used, and one more call");
            let Some(output) = longest else { continue };
            let need = match name {
                "input" => input as f64,
                "output" => output as f64,
                "total" => (input + output) as f64,
                _ => cents(input + output),
            };
            assert!(
                used + need <= limit + 1e-6,
                "{name}: {used} of {limit} used, and {need} are not reserved"
            );
        }
        let budget = &self.run.config.budget;
        assert!(limit::elapsed_ms(state) < budget.max_wall_time_seconds * 1000, "out of time");
        assert!(state.errors <= budget.max_errors && state.unknown_tools <= 1, "too many errors");
    }

    fn assert_within_before_running(&self, planned: &[Planned]) {
        let (budget, state) = (&self.run.config.budget, self.run.state());
        let most = |limit: u32| limit as usize;
        assert!(planned.len() <= most(budget.max_parallel_tool_calls.max(1)), "too many at once");
        assert!(most(self.ran()) + planned.len() <= most(budget.max_tool_calls), "too many calls");
        for one in planned {
            let name = &one.call.tool_name;
            let now = planned.iter().filter(|other| other.call.tool_name == *name).count();
            let ran = state.ran.get(name).copied().unwrap_or(0);
            assert!(most(ran) + now <= most(budget.max_calls_per_tool), "too many calls of {name}");
        }
    }

    /// One step of a world that draws what happens.
    fn play(&mut self, draws: &mut Draws) {
        match self.run.next() {
            Step::Ask { turn, attempt } => {
                let input = self.run.next_tokens();
                self.assert_within_before_asking(input);
                let budget = &self.run.config.budget;
                assert!(turn <= budget.max_model_turns && attempt <= 2 + budget.max_retries_per_model_call);
                self.hears(input, draws);
            }
            Step::Wait { turn, attempt, ms } => {
                let budget = &self.run.config.budget;
                let then = limit::elapsed_ms(self.run.state()) + ms;
                assert!(attempt <= budget.max_retries_per_model_call, "one retry too many");
                assert!(then < budget.max_wall_time_seconds * 1000, "waits beyond its time");
                self.feed(Fact::Waited(Waited { turn, attempt, ms }));
            }
            Step::Summarise { turn, messages } => {
                let input = tokens(&messages);
                self.assert_within_before_asking(input);
                let usage = draws.usage(input, LONGEST);
                let cost = self.run.config.model.price.unwrap().cost_usd(&usage);
                self.summarised(turn, (draws.below(3) > 0).then_some(("so far", usage)), cost);
            }
            Step::Compact(compacted) => {
                self.feed(Fact::Compacted(compacted));
            }
            Step::Run(planned) => {
                self.assert_within_before_running(&planned);
                let allowance = self.run.allowance(length(&planned), length(&planned));
                for one in planned {
                    self.ends(&one, allowance, draws);
                }
            }
            Step::Refuse(refused) => {
                for one in refused {
                    self.finished_at(one.key, &one.call, one.status, one.stage, None, &one.message);
                }
            }
            Step::Done(_) | Step::Person { .. } => {}
        }
    }

    /// An answer, or a failure, at its price.
    fn hears(&mut self, input: u64, draws: &mut Draws) {
        let usage = draws.usage(input, LONGEST);
        let classes = [FaultClass::Transient, FaultClass::Timeout, FaultClass::Overflow];
        if draws.below(4) == 0 {
            self.failed(classes[usize::try_from(draws.below(3)).unwrap()]);
            return;
        }
        let names = ["look", "peek", "write", "nope"];
        let mut parts =
            vec![Part::Text { text: "let me see ".repeat(1 + usize::try_from(draws.below(9)).unwrap()) }];
        parts.extend((0..1 + draws.below(4)).map(|index| {
            Part::ToolCall(ToolCall {
                call_id: format!("c{index}"),
                tool_name: names[usize::try_from(draws.below(4)).unwrap()].to_owned(),
                arguments: draws.below(100).to_string(),
            })
        }));
        let response = Response { usage, ..answer(parts) };
        let price = self.run.config.model.price.unwrap();
        self.heard_for(Some(response), None, price.cost_usd(&usage));
    }

    /// A call ends, as an agent of its own that used up no more than it was allowed, or as a tool that fails.
    fn ends(&mut self, one: &Planned, allowance: Allowance, draws: &mut Draws) {
        let mut fact = Self::result_of(one.key, &one.call, ToolStatus::Ok, None, None, "r");
        let fails = |stage| (ToolStatus::Error, Some(stage));
        (fact.status, fact.failure_stage) = match (one.call.tool_name.as_str(), draws.below(5)) {
            ("nope", _) => fails(FailureStage::UnknownTool),
            (_, 0) => fails(FailureStage::Execution),
            (_, 1..=2) => {
                fact.child = Some(Box::new(part(allowance, draws)));
                (ToolStatus::Ok, None)
            }
            _ => (ToolStatus::Ok, None),
        };
        self.feed(Fact::ToolFinished(Box::new(fact)));
    }
}

fn length(planned: &[Planned]) -> u32 {
    u32::try_from(planned.len()).unwrap()
}

/// A run within this allowance; where nothing limits it, it uses up a little.
fn part(allowance: Allowance, draws: &mut Draws) -> Child {
    let total = allowance.total_tokens.unwrap_or(30);
    let pays = |tokens: &u64| allowance.cost_usd.is_none_or(|dollars| *tokens as f64 / 10.0 <= dollars);
    let most = (0..=total).rev().find(pays).unwrap_or(0);
    let input = draws.below(allowance.input_tokens.unwrap_or(30).min(most) + 1);
    let output = draws.below(allowance.output_tokens.unwrap_or(30).min(most - input) + 1);
    Child {
        run_id: RunId::from_draw(2),
        agent: "part".to_owned(),
        stop_reason: StopReason::Completed,
        usage: Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() },
        cost_usd: Some((input + output) as f64 / 10.0),
        tool_calls: u32::try_from(draws.below(u64::from(allowance.tool_calls) + 1)).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_begins_over_a_budget_and_what_is_reserved_is_never_exceeded(
        settings in settings(), draws in prop::collection::vec(any::<u16>(), 0..240),
    ) {
        let mut told = Told::new(&settings);
        let mut draws = Draws(draws.into_iter());
        let mut steps = 0;
        while !matches!(told.run.next(), Step::Done(_)) {
            told.play(&mut draws);
            steps += 1;
            prop_assert!(steps < 200, "it does not end");
        }
        let (budget, state) = (&told.run.config.budget, told.run.state());
        prop_assert!(state.turns <= budget.max_model_turns);
        prop_assert!(told.ran() <= budget.max_tool_calls);
        prop_assert!(state.ran.values().all(|ran| *ran <= budget.max_calls_per_tool));
        if told.run.config.model.max_output_tokens.is_some() {
            for (name, used, limit) in told.accounts() {
                prop_assert!(limit.is_none_or(|limit| used <= limit + 1e-6), "{name}: {used} of {limit:?}");
            }
        }
        prop_assert_eq!(told.refolded().next(), told.run.next());
    }
}

/// A run that used up some of each budget, itself and through a part of it.
fn used(limits: &str) -> Told {
    let mut told = Told::new(&format!("[budget]\n{limits}"));
    let call = ToolCall { call_id: "c0".to_owned(), tool_name: "look".to_owned(), arguments: "1".to_owned() };
    told.heard_for(Some(answer(vec![Part::ToolCall(call.clone())])), None, Some(1.0));
    let mut fact =
        Told::result_of(CallKey { turn: 1, index: 0 }, &call, ToolStatus::Ok, None, None, "it is there");
    fact.child = Some(Box::new(Child {
        run_id: RunId::from_draw(2),
        agent: "part".to_owned(),
        stop_reason: StopReason::Completed,
        usage: Usage { input_tokens: Some(20), output_tokens: Some(10), ..Usage::default() },
        cost_usd: Some(0.5),
        tool_calls: 3,
    }));
    told.feed(Fact::ToolFinished(Box::new(fact)));
    told
}

#[test]
fn a_part_may_use_up_its_share_of_what_is_left_and_its_own_budget_where_that_is_less() {
    let told = used(
        "max_tool_calls = 20\nmax_wall_time_seconds = 60\nmax_input_tokens = 100\nmax_output_tokens = 50\n\
         max_total_tokens = 130\nmax_total_cost = 3.0",
    );
    // Four calls ran, three are about to, and two of these are runs; three seconds are over.
    let allowance = told.run.allowance(2, 3);
    let limits = [
        ("tool_calls", 6.0),
        ("wall_ms", 57_000.0),
        ("input_tokens", 35.0),
        ("output_tokens", 17.0),
        ("tokens", 42.0),
        ("cost_usd", 0.75),
    ];
    assert_eq!(allowance.limits(), limits.map(|(name, limit)| (name.to_owned(), limit)).into());
    assert_eq!(told.run.allowance(0, 3), told.run.allowance(1, 3));

    let wide = crate::config::Budget { max_tool_calls: 50, ..crate::config::Budget::default() };
    let cut = allowance.within(&wide);
    assert_eq!((cut.max_tool_calls, cut.max_wall_time_seconds, cut.max_total_tokens), (6, 57, Some(42)));
    assert_eq!(
        (cut.max_input_tokens, cut.max_output_tokens, cut.max_total_cost),
        (Some(35), Some(17), Some(0.75))
    );
    let narrow = crate::config::Budget {
        max_tool_calls: 2,
        max_wall_time_seconds: 5,
        max_input_tokens: Some(3),
        max_output_tokens: Some(2),
        max_total_tokens: Some(4),
        max_total_cost: Some(0.1),
        ..wide
    };
    assert_eq!(allowance.within(&narrow), narrow);
}

#[test]
fn what_is_not_limited_stays_so_and_what_is_used_up_leaves_nothing() {
    let free = used("").run.allowance(1, 1);
    assert_eq!((free.input_tokens, free.output_tokens, free.cost_usd), (None, None, None));
    assert!(!free.limits().contains_key("cost_usd"));
    let spent = used("max_total_cost = 1.0\nmax_input_tokens = 7\nmax_tool_calls = 2").run.allowance(1, 1);
    assert_eq!((spent.cost_usd, spent.input_tokens, spent.tool_calls), (Some(0.0), Some(0), 0));
}
