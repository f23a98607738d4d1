//! `loopdeck approve`: a person decides about the call that a paused run waits with.
//!
//! The decision is kept beside the tapes; `loopdeck resume` takes it up, in whatever process.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::{say, terminal};
use serde_json::json;
use trace::fact::{Answer, PersonAnswered, PersonAsked, Ruling, Wants, Way, waiting};
use trace::ops::{Op, Ops};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/approve.txt"))]
pub(crate) struct Args {
    /// A run, as in `show`
    run: String,
    /// Decide that the call must not run
    #[arg(long)]
    deny: bool,
    /// Why; a denial tells it to the model
    #[arg(long)]
    reason: Option<String>,
    /// Who decides; the user of the system where absent
    #[arg(long)]
    by: Option<String>,
    /// Print question and decision as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let tape = house.tape(&args.run).await?;
    let asked = waiting(tape.lines()).ok_or_else(nobody_waits)?;
    let started = tape.started().ok_or_else(nobody_waits)?;
    let run_id = started.run_id.clone();
    if asked.wants == Wants::Input {
        return Err(Failure::usage(format!(
            "the run waits for words, not for leave: {}\nanswer with: loopdeck resume {run_id} --say ANSWER",
            asked.prompt
        )));
    }
    check_expiry(asked)?;
    let ruling = if args.deny { Ruling::Deny } else { Ruling::Allow };
    let now_ns = harness::port::wall_clock_ns();
    let redactor = house.redactor()?;
    let answer = PersonAnswered {
        ruling: Some(ruling),
        reason: args.reason.map(|reason| redactor.text(&reason).into_owned()),
        ..asked.answered(&terminal::name(args.by.as_deref()), Way::Command, now_ns)
    };
    let kept = Answer { run_id: run_id.clone(), answer };
    Ops::new(&house.home).append(&Op::Answer(kept.clone())).map_err(Failure::infrastructure)?;
    if args.json {
        say::json(&json!({ "asked": asked, "answered": kept }))?;
    } else {
        say::talk(&terminal::question(asked));
        say::talk(&format!("{}: this call, once", if args.deny { "denied" } else { "allowed" }));
        say::talk(&format!("go on: loopdeck resume {run_id}"));
    }
    Ok(Exit::Ok)
}

/// A run that waits for nobody needs no answer.
pub(crate) fn nobody_waits() -> Failure {
    Failure::usage("the run waits for nobody: `loopdeck show RUN` tells how it stands")
}

/// An answer that comes too late would count for nothing.
pub(crate) fn check_expiry(asked: &PersonAsked) -> Result<(), Failure> {
    match harness::port::wall_clock_ns() > asked.expires_at_ns {
        false => Ok(()),
        true => Err(Failure::usage(
            "the question can no longer be answered (policy.approval_valid_seconds): `loopdeck resume RUN` asks it again",
        )),
    }
}
