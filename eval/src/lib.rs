//! Runs are judged: replay -> **score** -> alert.
//!
//! [`suite`] and [`case`] say what is to be judged and how, [`runner`] brings the runs ([`runner::recorded`] reads
//! stored ones, [`runner::live`] makes new ones), [`subject`] is what a scorer may look at, [`scorer`] judges one
//! run, [`statistic`] sums up, [`gate`] decides, [`report`] tells.
//!
//! Invariants: a score is a pure function of a case and a subject. What could not be judged is an ERROR, never a
//! FAIL and never a PASS. This room never opens the database; it asks [`trace::reader`].

#![cfg_attr(
    test,
    expect(clippy::needless_pass_by_value, reason = "tests write JSON in place and hand it over")
)]

pub mod case;
pub mod gate;
pub mod report;
pub mod runner;
pub mod scorer;
pub mod statistic;
pub mod subject;
pub mod suite;

pub use gate::Decision;
pub use report::Report;
pub use runner::{Execute, Options, run};
pub use suite::Suite;
