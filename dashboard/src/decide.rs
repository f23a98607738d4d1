//! `POST /runs/{id}/decision`: a person answers, on the run's page, the question that the run waits with.
//!
//! Place in the flow: form -> **here** -> ops log, where `loopdeck resume` takes the answer up. Denied unless everything
//! fits: the owner's key, a page of this address, the very question that waits, and its time.

use crate::asked::{Asked, AskedError};
use crate::clock;
use crate::owner::is_from_here;
use crate::page::{self, path_segment};
use crate::server::{Server, blocking};
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use std::sync::Arc;
use trace::fact::{Answer, PersonAnswered, PersonAsked, Ruling, Wants, Way};
use trace::id::RunId;
use trace::ops::{Op, OpsError};
use trace::redact::Redactor;

/// The largest form: a name, a reason and an answer in words.
pub(crate) const FORM_BYTES: usize = 64 << 10;
/// The longest name of who decides, in characters.
pub(crate) const NAME_CHARS: usize = 100;

/// What the form says.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    token: String,
    decision: Word,
    by: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    said: String,
}

/// The button.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Allow,
    Deny,
    Say,
}

/// Why a decision is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The request does not bear the owner's key.
    #[error(
        "nothing was decided: that needs the owner's key; open the address that `loopdeck serve` printed at its start"
    )]
    Stranger,
    /// A page of somebody else sent it.
    #[error(
        "nothing was decided: the request was sent by a page of another address; use the form on the run's own page"
    )]
    Foreign,
    /// The form is none.
    #[error("nothing was decided: the form cannot be read: {0}; load the run's page again and use its form")]
    Form(String),
    /// The form is too large.
    #[error("nothing was decided: a form may have {FORM_BYTES} bytes; say it in fewer words")]
    TooLarge,
    /// No such run, or its question cannot be read.
    #[error("nothing was decided: {0}")]
    Asked(#[from] AskedError),
    /// Nothing waits.
    #[error("nothing was decided: run {0} waits for nobody here; its page tells how it stands")]
    NobodyWaits(RunId),
    /// Something else waits.
    #[error(
        "nothing was decided: the run waits with another question by now; load its page again and read it"
    )]
    AnotherQuestion,
    /// Too late.
    #[error(
        "nothing was decided: the question could be answered until {0}; `loopdeck resume {1}` asks it again"
    )]
    Over(String, RunId),
    /// What was decided does not fit the question.
    #[error("nothing was decided: {0}")]
    Unfit(&'static str),
    /// It cannot be kept.
    #[error("nothing was decided: {0}")]
    Ops(#[from] OpsError),
    /// The thread that did it died.
    #[error("whether it was decided is not known: {0}; load the run's page again")]
    Thread(#[from] std::io::Error),
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Stranger | Self::Foreign => StatusCode::FORBIDDEN,
            Self::Form(_) | Self::Unfit(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Asked(AskedError::NoTape(_)) => StatusCode::NOT_FOUND,
            Self::NobodyWaits(_) | Self::AnotherQuestion => StatusCode::CONFLICT,
            Self::Over(..) => StatusCode::GONE,
            Self::Asked(_) | Self::Ops(_) | Self::Thread(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Takes a decision and shows the run's page again.
pub(crate) async fn decide(
    State(server): State<Arc<Server>>,
    Path(run): Path<String>,
    headers: HeaderMap,
    form: Result<Form<Decision>, FormRejection>,
) -> Response {
    let back = format!("/runs/{}", path_segment(&run));
    match decided(&server, run, &headers, form).await {
        Ok(()) => Redirect::to(&back).into_response(),
        Err(why) => page::refusal(&server, why.status(), "Not decided", &why.to_string(), &back),
    }
}

async fn decided(
    server: &Arc<Server>,
    run: String,
    headers: &HeaderMap,
    form: Result<Form<Decision>, FormRejection>,
) -> Result<(), Refusal> {
    if !server.key.opens(headers) {
        return Err(Refusal::Stranger);
    }
    if !is_from_here(headers) {
        return Err(Refusal::Foreign);
    }
    let Form(decision) = form.map_err(|why| match why.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge,
        _ => Refusal::Form(why.body_text()),
    })?;
    let working = Arc::clone(server);
    blocking(move || keep(&working, RunId::new(run), &decision, clock::now_ns())).await
}

/// Blocks.
fn keep(server: &Server, run_id: RunId, decision: &Decision, now_ns: i64) -> Result<(), Refusal> {
    let Some(asked) = Asked::of_run(&server.home, &run_id)? else {
        return Err(Refusal::NobodyWaits(run_id));
    };
    if asked.question.token.to_string() != decision.token {
        return Err(Refusal::AnotherQuestion);
    }
    if asked.is_over(now_ns) {
        return Err(Refusal::Over(clock::spelled(asked.question.expires_at_ns), run_id));
    }
    let answer = decision.answer(&asked.question, &server.redactor, now_ns)?;
    server.ops.append(&Op::Answer(Answer { run_id, answer }))?;
    Ok(())
}

impl Decision {
    /// The answer to a question; secrets in it are replaced before it is written.
    fn answer(
        &self,
        asked: &PersonAsked,
        redactor: &Redactor,
        now_ns: i64,
    ) -> Result<PersonAnswered, Refusal> {
        let kept = |text: &str| {
            let text = text.trim().replace("\r\n", "\n");
            (!text.is_empty()).then(|| redactor.text(&text).into_owned())
        };
        let by = kept(&self.by).ok_or(Refusal::Unfit("say who decides"))?;
        if by.chars().count() > NAME_CHARS || by.chars().any(char::is_control) {
            return Err(Refusal::Unfit("a name has at most 100 characters, all of them in one line"));
        }
        let said = kept(&self.said);
        if said.is_some() && self.decision != Word::Say {
            let why = "words stand in their field, and the button that was pressed does not send them: send them, or empty it";
            return Err(Refusal::Unfit(why));
        }
        let answer = asked.answered(&by, Way::Page, now_ns);
        let ruled =
            |ruling| PersonAnswered { ruling: Some(ruling), reason: kept(&self.reason), ..answer.clone() };
        match (asked.wants, self.decision) {
            (Wants::Approval | Wants::Confirmation, Word::Allow) => Ok(ruled(Ruling::Allow)),
            (Wants::Approval | Wants::Confirmation, Word::Deny) => Ok(ruled(Ruling::Deny)),
            (Wants::Confirmation | Wants::Input, Word::Say) => match said {
                Some(said) => Ok(PersonAnswered { said: Some(said), ..answer }),
                None => Err(Refusal::Unfit("write your answer into its field")),
            },
            (Wants::Approval, Word::Say) => Err(Refusal::Unfit("the call waits for leave: allow or deny it")),
            (Wants::Input, Word::Allow | Word::Deny) => {
                Err(Refusal::Unfit("the tool waits for words: write them into the field"))
            }
        }
    }
}
