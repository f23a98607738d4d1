//! The report as JUnit XML: FAIL is a failure, ERROR an error, SKIPPED skipped, and the gate a test of its own.
//!
//! Place in the flow: `-o junit.xml`, read by CI systems. The gate's own test makes a missed threshold or a
//! regression visible where every single trial is green.

use super::{CaseReport, Report, TrialReport};
use crate::gate::Decision;
use crate::scorer::Verdict;
use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// The report as an XML document.
pub(super) fn render(report: &Report) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new(report.suite.as_str());
    for case in &report.cases {
        suite.add_test_cases(case.trials.iter().map(|trial| test(report, case, trial)));
    }
    suite.add_test_case(gate(report));
    let mut document = quick_junit::Report::new("loopdeck eval");
    document.add_test_suite(suite);
    document.to_string()
}

fn test(report: &Report, case: &CaseReport, trial: &TrialReport) -> TestCase {
    let status = match trial.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::Fail => non_success(NonSuccessKind::Failure, "FAIL", &trial.told(report)),
        Verdict::Error => non_success(NonSuccessKind::Error, "ERROR", &trial.told(report)),
        Verdict::Skipped => TestCaseStatus::skipped(),
    };
    let name = match case.trials.len() {
        1 => case.case_id.clone(),
        _ => format!("{} [repeat {}]", case.case_id, trial.repeat),
    };
    let mut test = TestCase::new(name, status);
    test.set_classname(report.suite.as_str());
    if let Some(run_id) = &trial.run_id {
        test.add_property(("run_id", run_id.as_str()));
    }
    if let Some(time) = trial.figures.latency_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok())
    {
        test.set_time(time);
    }
    test
}

fn gate(report: &Report) -> TestCase {
    let told = report.reasons.join("; ");
    let status = match report.decision {
        Decision::Pass => TestCaseStatus::success(),
        // Whether the data suffice is no red cross: the exit code tells it apart.
        Decision::Inconclusive => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message(format!("INCONCLUSIVE: {told}"));
            skipped
        }
        Decision::Fail => non_success(NonSuccessKind::Failure, "FAIL", &told),
        Decision::NotComparable
        | Decision::NothingToEvaluate
        | Decision::CouldNotFinish
        | Decision::Interrupted => non_success(NonSuccessKind::Error, report.decision.as_str(), &told),
    };
    let mut test = TestCase::new("gate", status);
    test.set_classname(report.suite.as_str());
    test
}

fn non_success(kind: NonSuccessKind, word: &str, message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(word);
    status.set_message(message);
    status
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn every_verdict_has_its_element_and_hostile_text_stays_text() {
        let report = super::super::sample::report().await;
        insta::assert_snapshot!(super::render(&report).unwrap(), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="loopdeck eval" tests="9" skipped="0" failures="3" errors="3">
            <testsuite name="desk" tests="9" skipped="0" errors="3" failures="3">
                <testcase name="passes [repeat 0]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-passes-0"/>
                    </properties>
                </testcase>
                <testcase name="passes [repeat 1]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-passes-1"/>
                    </properties>
                </testcase>
                <testcase name="flickers [repeat 0]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-flickers-0"/>
                    </properties>
                </testcase>
                <testcase name="flickers [repeat 1]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-flickers-1"/>
                    </properties>
                    <failure message="answer FAIL: expected `yes`, got `no &lt;/testcase&gt; ````" type="FAIL"/>
                </testcase>
                <testcase name="limit [repeat 0]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-limit-0"/>
                    </properties>
                    <failure message="answer FAIL: no final answer: the run stopped with `max_turns`" type="FAIL"/>
                </testcase>
                <testcase name="limit [repeat 1]" classname="desk" time="0.250">
                    <properties>
                        <property name="run_id" value="run-limit-1"/>
                    </properties>
                    <failure message="answer FAIL: no final answer: the run stopped with `max_turns`" type="FAIL"/>
                </testcase>
                <testcase name="unreachable [repeat 0]" classname="desk">
                    <error message="no route to 127.0.0.1:9" type="ERROR"/>
                </testcase>
                <testcase name="unreachable [repeat 1]" classname="desk">
                    <error message="no route to 127.0.0.1:9" type="ERROR"/>
                </testcase>
                <testcase name="gate" classname="desk">
                    <error message="2 of 8 trials could not be judged; `gate.max_error_rate` allows a share of 0" type="COULD NOT FINISH"/>
                </testcase>
            </testsuite>
        </testsuites>
        "#);
    }
}
