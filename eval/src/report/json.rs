//! The report as JSON: a stable form with a version, which a later eval reads as its baseline.
//!
//! Place in the flow: `-o report.json` writes it, `--baseline report.json` reads it.

use super::{Report, SCHEMA_VERSION};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Why a file is no report to compare with.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("{}: cannot be read: {source}; write one with `loopdeck eval SUITE -o {}`", file.display(), file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no report.
    #[error("{}: is no report of an eval: {source}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What and where.
        source: serde_json::Error,
    },
    /// It is of another version.
    #[error("{}: has schema version {found}, this program reads {SCHEMA_VERSION}; record a new baseline", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
}

#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

/// The report as a JSON document.
pub(super) fn render(report: &Report) -> serde_json::Result<String> {
    serde_json::to_string_pretty(report).map(|text| text + "\n")
}

/// Reads a report that an earlier eval wrote.
///
/// # Errors
/// Where the file is unreadable, no report, or of another version.
pub fn read(file: &Path) -> Result<Report, ReadError> {
    let text =
        std::fs::read_to_string(file).map_err(|source| ReadError::Read { file: file.to_owned(), source })?;
    let malformed = |source| ReadError::Malformed { file: file.to_owned(), source };
    let version: Versioned = serde_json::from_str(&text).map_err(malformed)?;
    match version.schema_version {
        SCHEMA_VERSION => serde_json::from_str(&text).map_err(malformed),
        found => Err(ReadError::Version { file: file.to_owned(), found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_report_reads_back_as_itself_and_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let report = super::super::sample::report().await;
        report.write(&file).unwrap();
        assert_eq!(read(&file).unwrap(), report);
        let newer = std::fs::read_to_string(&file).unwrap().replacen(": 1,", ": 99,", 1);
        std::fs::write(&file, newer).unwrap();
        assert!(matches!(read(&file), Err(ReadError::Version { found: 99, .. })));
        std::fs::write(&file, "{}").unwrap();
        assert!(matches!(read(&file), Err(ReadError::Malformed { .. })));
    }

    #[tokio::test]
    async fn the_top_of_the_document_is_stable() {
        let mut report = super::super::sample::report().await;
        report.cases.truncate(1);
        report.cases[0].trials.truncate(1);
        insta::assert_snapshot!(render(&report).unwrap(), @r#"
        {
          "schema_version": 1,
          "eval_id": "eval-1",
          "at_ns": 7,
          "suite": "desk",
          "suite_hash": "a6579d7ca9889bab5850bb253579a30b069d599ccebcb4539a1ad0ab57682e32",
          "decision": "COULD NOT FINISH",
          "reasons": [
            "2 of 8 trials could not be judged; `gate.max_error_rate` allows a share of 0"
          ],
          "trials": {
            "planned": 8,
            "passed": 3,
            "failed": 3,
            "errors": 2,
            "skipped": 0,
            "not_run": 0
          },
          "pass_rate": {
            "mean_of_cases": 0.5,
            "passed": 3,
            "judged": 6,
            "cases": 3,
            "interval": {
              "low": 0.1253344719102632,
              "high": 0.8746655280897369
            },
            "effective_trials": 3.0
          },
          "pass_k": [
            {
              "k": 1,
              "pass_at_k": 0.5,
              "pass_hat_k": 0.5,
              "cases": 3
            },
            {
              "k": 2,
              "pass_at_k": 0.6666666666666666,
              "pass_hat_k": 0.3333333333333333,
              "cases": 3
            }
          ],
          "scorers": [
            {
              "scorer": "answer",
              "kind": "exact",
              "passed": 3,
              "failed": 3,
              "errors": 0,
              "skipped": 0,
              "mean_value": 0.5,
              "values": 6
            }
          ],
          "used": {
            "tokens": {
              "total": -0.0,
              "known": 0,
              "of": 6
            },
            "cost_usd": {
              "total": -0.0,
              "known": 0,
              "of": 6
            },
            "latency_ms": {
              "total": 1500.0,
              "known": 6,
              "of": 6
            }
          },
          "comparison": null,
          "notes": [],
          "cases": [
            {
              "case_id": "passes",
              "case_hash": "0b3526afe9ccb27dd165c71f1fc7119a79e2a8390c7007fc21ad65edec4dfdef",
              "tags": [
                "p"
              ],
              "trials": [
                {
                  "repeat": 0,
                  "run_id": "run-passes-0",
                  "verdict": "PASS",
                  "infrastructure": null,
                  "figures": {
                    "stop_reason": "completed",
                    "turns": 1,
                    "tool_calls": 0,
                    "input_tokens": null,
                    "output_tokens": null,
                    "cost_usd": null,
                    "latency_ms": 250.0
                  },
                  "scores": [
                    {
                      "value": 1.0,
                      "verdict": "PASS",
                      "reason": "the answer is as expected"
                    }
                  ]
                }
              ]
            }
          ]
        }
        "#);
    }
}
