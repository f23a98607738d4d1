//! `suite.toml`: what is judged, by which scorers, and what must hold for a pass.
//!
//! Place in the flow: the command line loads it, the runner works it off, the gate reads its thresholds. Everything
//! that could make a suite pass or fail for the wrong reason is refused here, before anything is run.

use crate::case::{self, Case, CaseError, Override};
use crate::scorer::{self, Score, Scorer};
use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::canonical::canonical;
use trace::id::Hash;

/// The most repeats of a case, and the most trials at a time.
pub const MAX_REPEATS: u32 = 1000;
/// The most trials that run at the same time.
pub const MAX_CONCURRENCY: usize = 256;

/// A suite, checked and with its scorers built.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// The file it came from.
    pub file: PathBuf,
    /// Where the runs come from.
    pub source: Source,
    /// The cases; empty where the stored runs themselves say which tasks there are.
    pub cases: Vec<Case>,
    /// How often each case is run.
    pub repeats: u32,
    /// How many trials run at the same time.
    pub concurrency: usize,
    /// The scorers, in the order of the file.
    pub scorers: Vec<SuiteScorer>,
    /// The least weighted mean of the scorers' values with which a trial passes; without it, every scorer must pass.
    pub pass_threshold: Option<f64>,
    /// What must hold for the whole.
    pub gate: GateRule,
    overrides: BTreeMap<(String, String), Option<Arc<dyn Scorer>>>,
}

/// Where the runs of a suite come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// New runs of the agent that this file describes.
    Agent(PathBuf),
    /// Stored runs that meet this SQL condition on the view `runs`.
    Recorded(String),
}

/// A scorer of a suite.
#[derive(Debug, Clone)]
pub struct SuiteScorer {
    /// Its name in this suite.
    pub name: String,
    /// Its kind, a word of the registry.
    pub kind: String,
    /// Its share in a trial's mean value; 0 means that it only informs.
    pub weight: f64,
    /// Whether its verdict alone is the trial's.
    pub primary: bool,
    options: Map<String, Value>,
    scorer: Arc<dyn Scorer>,
}

/// `[gate]`: what must hold for the whole suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRule {
    /// Least mean over cases of the share of trials passed; 1 if absent and no baseline is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<f64>,
    /// Least share of its trials that every single case must pass, so that no mean hides a broken case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_pass_rate: Option<f64>,
    /// Greatest share of trials that may end as ERROR; beyond it the suite could not be judged.
    #[serde(default)]
    pub max_error_rate: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    name: String,
    agent: Option<PathBuf>,
    recorded: Option<RecordedFile>,
    cases: Option<PathBuf>,
    #[serde(default = "one")]
    repeats: u32,
    #[serde(default = "default_concurrency")]
    concurrency: usize,
    pass_threshold: Option<f64>,
    #[serde(default)]
    scorer: Vec<ScorerFile>,
    #[serde(default)]
    gate: GateRule,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedFile {
    #[serde(rename = "where")]
    condition: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScorerFile {
    name: String,
    kind: String,
    #[serde(default = "one_weight")]
    weight: f64,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    options: Map<String, Value>,
}

const fn one() -> u32 {
    1
}

const fn default_concurrency() -> usize {
    4
}

const fn one_weight() -> f64 {
    1.0
}

/// Why a suite cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}; name a suite.toml that exists", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML, or a key is unknown, missing or of the wrong type.
    #[error("{}: {message}", file.display())]
    Toml {
        /// The file.
        file: PathBuf,
        /// What, and in which line and column.
        message: String,
    },
    /// A key has a value that cannot work.
    #[error("{}: `{key}`: {problem}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The cases cannot be used.
    #[error(transparent)]
    Case(#[from] CaseError),
}

impl Suite {
    /// Reads a suite and its cases, and builds its scorers.
    ///
    /// # Errors
    /// Where a file is unreadable, a key or case is wrong, or a scorer could not judge a case.
    pub fn load(file: &Path) -> Result<Self, SuiteError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| SuiteError::Read { file: file.to_owned(), source })?;
        Self::parse(file, &text)
    }

    /// As [`Self::load`], with the text of the suite given; paths in it are relative to `file`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(file: &Path, text: &str) -> Result<Self, SuiteError> {
        let read = read(file, text)?;
        let cases = match read.cases.as_deref() {
            Some(cases) => case::load(&beside(file, cases))?,
            None => Vec::new(),
        };
        Self::of(file, read, cases)
    }

    /// As [`Self::parse`], with the cases given too; nothing is read from disk.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn with_cases(file: &Path, text: &str, cases: Vec<Case>) -> Result<Self, SuiteError> {
        Self::of(file, read(file, text)?, cases)
    }

    fn of(file: &Path, read: SuiteFile, cases: Vec<Case>) -> Result<Self, SuiteError> {
        check_numbers(&read).map_err(|(key, problem)| key_error(file, key, problem))?;
        let source = source(file, &read)?;
        let cases_file = read.cases.as_deref().map(|cases| beside(file, cases));
        let scorers = scorers(file, read.scorer)?;
        let overrides = overrides(&cases, &scorers).and_then(|overrides| {
            check_cases(&cases, &scorers, &overrides)?;
            Ok(overrides)
        });
        let overrides = overrides.map_err(|(line, problem)| {
            let file = cases_file.clone().unwrap_or_else(|| file.to_owned());
            CaseError::Line { file, line, problem }
        })?;
        Ok(Self {
            name: read.name,
            file: file.to_owned(),
            source,
            cases,
            repeats: read.repeats,
            concurrency: read.concurrency,
            scorers,
            pass_threshold: read.pass_threshold,
            gate: read.gate,
            overrides,
        })
    }

    /// What each scorer says about one run of a case, in the order of the scorers.
    #[must_use]
    pub fn score(&self, case: &Case, subject: &Subject) -> Vec<Score> {
        self.scorers.iter().map(|own| self.score_by(own, case, subject)).collect()
    }

    fn score_by(&self, own: &SuiteScorer, case: &Case, subject: &Subject) -> Score {
        match self.overrides.get(&(case.id.clone(), own.name.clone())) {
            Some(None) => Score::skipped("the case leaves this scorer out"),
            Some(Some(scorer)) => scorer.score(case, subject),
            None => own.scorer.score(case, subject),
        }
    }

    /// Identifies how trials are judged: reports with equal hashes were judged alike.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let scorers: Vec<Value> = self
            .scorers
            .iter()
            .map(|one| json!([one.name, one.kind, one.weight, one.primary, one.options]))
            .collect();
        Hash::of(canonical(&json!([self.name, scorers, self.pass_threshold])).as_bytes())
    }
}

fn key_error(file: &Path, key: impl Into<String>, problem: impl Into<String>) -> SuiteError {
    SuiteError::Key { file: file.to_owned(), key: key.into(), problem: problem.into() }
}

fn read(file: &Path, text: &str) -> Result<SuiteFile, SuiteError> {
    toml::from_str(text).map_err(|error| SuiteError::Toml {
        file: file.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })
}

fn beside(file: &Path, other: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(other)
}

fn check_numbers(read: &SuiteFile) -> Result<(), (&'static str, String)> {
    if read.name.trim().is_empty() {
        return Err(("name", "is empty; give the suite a name".to_owned()));
    }
    if !(1..=MAX_REPEATS).contains(&read.repeats) {
        return Err(("repeats", format!("is {}; it must be 1 to {MAX_REPEATS}", read.repeats)));
    }
    if !(1..=MAX_CONCURRENCY).contains(&read.concurrency) {
        return Err(("concurrency", format!("is {}; it must be 1 to {MAX_CONCURRENCY}", read.concurrency)));
    }
    // A threshold of 0 passes everything, one above 1 nothing; both are mistakes.
    for (key, share) in [
        ("pass_threshold", read.pass_threshold),
        ("gate.pass_rate", read.gate.pass_rate),
        ("gate.case_pass_rate", read.gate.case_pass_rate),
    ] {
        if let Some(share) = share.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            return Err((key, format!("is {share}; it must be above 0 and at most 1")));
        }
    }
    match (0.0..=1.0).contains(&read.gate.max_error_rate) {
        true => Ok(()),
        false => Err(("gate.max_error_rate", format!("is {}; it must be 0 to 1", read.gate.max_error_rate))),
    }
}

fn source(file: &Path, read: &SuiteFile) -> Result<Source, SuiteError> {
    match (&read.agent, &read.recorded) {
        (Some(_), Some(_)) => Err(key_error(file, "agent", "stands beside `[recorded]`; keep one of them")),
        (None, None) => Err(key_error(
            file,
            "agent",
            "is missing; write agent = \"agent.toml\", or [recorded] for stored runs",
        )),
        (Some(_), None) if read.cases.is_none() => {
            Err(key_error(file, "cases", "is missing; write cases = \"cases.jsonl\""))
        }
        (Some(agent), None) => Ok(Source::Agent(beside(file, agent))),
        (None, Some(recorded)) if recorded.condition.trim().is_empty() => Err(key_error(
            file,
            "recorded.where",
            "is empty; write a condition on the view `runs`, or `true`",
        )),
        (None, Some(_)) if read.repeats != 1 => Err(key_error(
            file,
            "repeats",
            "has no meaning for stored runs: each stored run is one trial; remove it",
        )),
        (None, Some(recorded)) => Ok(Source::Recorded(recorded.condition.clone())),
    }
}

fn scorers(file: &Path, read: Vec<ScorerFile>) -> Result<Vec<SuiteScorer>, SuiteError> {
    if read.is_empty() {
        return Err(key_error(file, "scorer", "is missing; write at least one [[scorer]] table"));
    }
    let mut names = BTreeSet::new();
    let mut scorers = Vec::new();
    for one in read {
        let problem = |problem: String| key_error(file, format!("scorer {}", one.name), problem);
        if one.name.trim().is_empty() || !names.insert(one.name.clone()) {
            return Err(problem("the name is empty or used twice; give each scorer its own".to_owned()));
        }
        if !one.weight.is_finite() || one.weight < 0.0 {
            return Err(problem(format!("`weight` is {}; it must be 0 or more", one.weight)));
        }
        let scorer = scorer::build(&one.kind, one.options.clone()).map_err(problem)?;
        let ScorerFile { name, kind, weight, primary, options } = one;
        scorers.push(SuiteScorer { name, kind, weight, primary, options, scorer });
    }
    match scorers.iter().filter(|one| one.primary).count() {
        0 if scorers.iter().all(|one| one.weight == 0.0) => {
            Err(key_error(file, "scorer", "every weight is 0, so nothing would be judged"))
        }
        0 | 1 => Ok(scorers),
        _ => Err(key_error(file, "scorer", "more than one is `primary`; the verdict can follow only one")),
    }
}

type Overrides = BTreeMap<(String, String), Option<Arc<dyn Scorer>>>;
type Located<T> = Result<T, (usize, String)>;

/// The scorers that single cases change or leave out; errors carry the case's line.
fn overrides(cases: &[Case], scorers: &[SuiteScorer]) -> Located<Overrides> {
    let mut overrides = Overrides::new();
    for case in cases {
        for (name, one) in &case.scorers {
            let problem = |problem| (case.line, format!("scorer `{name}`: {problem}"));
            let own = scorers
                .iter()
                .find(|own| own.name == *name)
                .ok_or_else(|| problem("the suite has no scorer of this name".to_owned()))?;
            let scorer = match one {
                Override::Off => None,
                Override::Options(changed) => Some(overlaid(own, changed).map_err(problem)?),
            };
            overrides.insert((case.id.clone(), name.clone()), scorer);
        }
    }
    Ok(overrides)
}

fn overlaid(own: &SuiteScorer, changed: &Map<String, Value>) -> Result<Arc<dyn Scorer>, String> {
    let mut options = own.options.clone();
    // The two sources of an expected value exclude each other, so naming one drops the other.
    if changed.contains_key("value") || changed.contains_key("expected") {
        options.remove("value");
        options.remove("expected");
    }
    options.extend(changed.clone());
    scorer::build(&own.kind, options)
}

fn check_cases(cases: &[Case], scorers: &[SuiteScorer], overrides: &Overrides) -> Located<()> {
    for case in cases {
        for own in scorers {
            let scorer = match overrides.get(&(case.id.clone(), own.name.clone())) {
                Some(None) => continue,
                Some(Some(scorer)) => scorer,
                None => &own.scorer,
            };
            scorer.check(case).map_err(|problem| (case.line, format!("scorer `{}`: {problem}", own.name)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scorer::Verdict;
    use crate::subject::sample;

    const HEAD: &str = "name = \"desk\"\nagent = \"agent.toml\"\ncases = \"cases.jsonl\"\n";
    const ANSWER: &str = "[[scorer]]\nname = \"answer\"\nkind = \"exact\"\n";

    fn load(suite: &str, cases: &str) -> Result<Suite, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cases.jsonl"), cases).unwrap();
        let file = folder.path().join("suite.toml");
        std::fs::write(&file, suite).unwrap();
        let place = format!("{}/", folder.path().display());
        Suite::load(&file).map_err(|error| error.to_string().replace(&place, ""))
    }

    fn problem(suite: &str, cases: &str) -> String {
        load(suite, cases).unwrap_err()
    }

    const CASE: &str = "{\"id\":\"a\",\"input\":\"hi\",\"expected\":\"42\"}";

    #[test]
    fn a_suite_loads_with_its_cases_and_paths_beside_it() {
        let suite = load(&format!("{HEAD}{ANSWER}"), CASE).unwrap();
        assert_eq!((suite.repeats, suite.concurrency, suite.cases.len()), (1, 4, 1));
        assert!(matches!(&suite.source, Source::Agent(agent) if agent.is_absolute()));
        assert_eq!(suite.score(&suite.cases[0], &sample::answering("42"))[0].verdict, Verdict::Pass);
    }

    #[test]
    fn the_suite_of_the_demo_loads() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/demo/suite.toml");
        let suite = Suite::load(&file).unwrap();
        assert!(suite.cases.iter().any(|case| case.id == "wrong_prompt"));
    }

    #[test]
    fn what_is_wrong_in_a_suite_is_named_with_file_and_key() {
        insta::assert_snapshot!(problem(HEAD, CASE), @"suite.toml: `scorer`: is missing; write at least one [[scorer]] table");
        insta::assert_snapshot!(problem(&format!("{HEAD}repeat = 3\n{ANSWER}"), CASE), @r"
        suite.toml: TOML parse error at line 4, column 1
          |
        4 | repeat = 3
          | ^^^^^^
        unknown field `repeat`, expected one of `name`, `agent`, `recorded`, `cases`, `repeats`, `concurrency`, `pass_threshold`, `scorer`, `gate`
        ");
        insta::assert_snapshot!(problem(&format!("{HEAD}repeats = 0\n{ANSWER}"), CASE), @"suite.toml: `repeats`: is 0; it must be 1 to 1000");
        insta::assert_snapshot!(problem(&format!("{HEAD}{ANSWER}{ANSWER}"), CASE), @"suite.toml: `scorer answer`: the name is empty or used twice; give each scorer its own");
        insta::assert_snapshot!(problem(&format!("{HEAD}{ANSWER}[scorer.options]\ntrim = true\n"), CASE), @"suite.toml: `scorer answer`: unknown field `trim`, expected one of `value`, `expected`, `ignore_case`");
        insta::assert_snapshot!(problem(&format!("{HEAD}{ANSWER}[gate]\npass_rate = 1.2\n"), CASE), @"suite.toml: `gate.pass_rate`: is 1.2; it must be above 0 and at most 1");
        insta::assert_snapshot!(problem(&format!("name = \"x\"\n{ANSWER}"), CASE), @r#"suite.toml: `agent`: is missing; write agent = "agent.toml", or [recorded] for stored runs"#);
        insta::assert_snapshot!(problem(&format!("name = \"x\"\nrepeats = 2\n{ANSWER}[recorded]\nwhere = \"true\"\n"), CASE), @"suite.toml: `repeats`: has no meaning for stored runs: each stored run is one trial; remove it");
    }

    #[test]
    fn what_a_scorer_cannot_judge_is_refused_with_the_line_of_the_case() {
        let suite = format!("{HEAD}{ANSWER}");
        insta::assert_snapshot!(problem(&suite, "\n{\"id\":\"a\"}"), @"cases.jsonl:2: scorer `answer`: case `a` has no `expected` to compare with");
        insta::assert_snapshot!(problem(&suite, "{\"id\":\"a\",\"scorers\":{\"anser\":false}}"), @"cases.jsonl:1: scorer `anser`: the suite has no scorer of this name");
    }

    #[test]
    fn a_case_may_leave_a_scorer_out_or_change_its_options() {
        let suite = load(
            &format!("{HEAD}{ANSWER}"),
            "{\"id\":\"a\",\"scorers\":{\"answer\":false}}\n{\"id\":\"b\",\"scorers\":{\"answer\":{\"value\":\"7\"}}}",
        )
        .unwrap();
        let verdict = |case: usize| suite.score(&suite.cases[case], &sample::answering("7"))[0].verdict;
        assert_eq!((verdict(0), verdict(1)), (Verdict::Skipped, Verdict::Pass));
    }

    #[test]
    fn reports_are_judged_alike_only_if_nothing_about_the_scorers_changed() {
        let suite = |more: &str| load(&format!("{HEAD}{ANSWER}{more}"), CASE).unwrap().hash();
        assert_eq!(suite(""), suite("weight = 1.0\n"));
        assert_ne!(suite(""), suite("weight = 2.0\n"));
        assert_ne!(suite(""), suite("[scorer.options]\nignore_case = true\n"));
    }
}
