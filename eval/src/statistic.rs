//! What many verdicts say together: pure functions of counts.
//!
//! Place in the flow: the report and the gate call these. Each answers `None` where the counts say nothing, so a
//! missing figure never turns into a zero.

pub mod cluster;
pub mod mcnemar;
pub mod pass_k;
pub mod wilson;

/// A count as a number to reckon with.
pub(crate) fn real(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of trials stay far below 2^53")]
    let number = count as f64;
    number
}

/// How often one case was judged and how often it passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Trials that got a verdict of PASS or FAIL.
    pub judged: u64,
    /// Trials that passed.
    pub passed: u64,
}

impl Tally {
    /// The share that passed; `None` where nothing was judged.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.judged > 0).then(|| real(self.passed) / real(self.judged))
    }
}
