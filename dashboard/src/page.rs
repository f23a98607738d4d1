//! The pages: rendered here, usable without JavaScript, nothing in them that is not escaped.
//!
//! Place in the flow: row and alert -> **page** -> browser. Each page says when the rules were last evaluated and
//! how far the index is behind, because a dead evaluator must not look like peace.

mod alerts;
mod fit;
mod overview;
mod run;
mod spell;

pub(crate) use spell::path_segment;

use crate::server::Server;
use crate::{clock, index};
use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, REFRESH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use serde::Deserialize;
use std::sync::Arc;
use trace::question::FindError;
use trace::store::{QueryError, TableError};

const STYLE: &str = include_str!("../static/style.css");

/// What may stand behind the `?` of a page.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Wish {
    /// Only what began within this many hours.
    hours: Option<u32>,
    /// Load again after this many seconds.
    refresh: Option<u16>,
}

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The index did not answer.
    #[error("the index did not answer: {0}")]
    Query(#[from] QueryError),
    /// The index cannot keep up.
    #[error("the index cannot be brought up to date: {0}")]
    Index(#[from] index::IndexError),
    /// Its answer is not what the page reads.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No such run, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The template failed.
    #[error("the page cannot be rendered: {0}")]
    Render(#[from] askama::Error),
    /// The thread that rendered it died.
    #[error("the thread of the page died: {0}")]
    Thread(#[from] std::io::Error),
}

/// The foot of every page.
#[derive(Debug, Clone)]
struct Foot {
    evaluated_at: String,
    lag_ms: i64,
    firing: usize,
    problems: Vec<String>,
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Failure {
    title: &'static str,
    why: String,
    back: String,
    foot: Foot,
}

/// `/`
pub(crate) async fn overview(State(server): State<Arc<Server>>, Query(wish): Query<Wish>) -> Response {
    show(server, wish, move |server, now_ns| overview::render(server, wish.hours, now_ns)).await
}

/// `/runs/{id}`
pub(crate) async fn run(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Query(wish): Query<Wish>,
    headers: HeaderMap,
) -> Response {
    let is_owner = server.key.opens(&headers);
    let render = move |server: &Server, now_ns| {
        let viewer = run::Viewer { is_owner, user: server.user.as_deref() };
        run::render(server, &name, viewer, now_ns)
    };
    show(server, wish, render).await
}

/// `/alerts`
pub(crate) async fn alerts(State(server): State<Arc<Server>>, Query(wish): Query<Wish>) -> Response {
    show(server, wish, alerts::render).await
}

/// `/static/style.css`
pub(crate) async fn style() -> Response {
    const HOUR: HeaderValue = HeaderValue::from_static("max-age=3600");
    let kind = HeaderValue::from_static("text/css; charset=utf-8");
    ([(CONTENT_TYPE, kind), (HeaderName::from_static("cache-control"), HOUR)], STYLE).into_response()
}

/// Renders on a thread that may block; the index has then everything that was acknowledged before.
async fn show(
    server: Arc<Server>,
    wish: Wish,
    render: impl FnOnce(&Server, i64) -> Result<String, PageError> + Send + 'static,
) -> Response {
    let working = Arc::clone(&server);
    let page = crate::server::blocking(move || {
        index::catch_up(&working)?;
        render(&working, clock::now_ns())
    });
    let mut response = match page.await {
        Ok(page) => Html(page).into_response(),
        Err(why) => failure(&server, &why),
    };
    if let Some(seconds) = wish.refresh {
        response.headers_mut().insert(REFRESH, HeaderValue::from(seconds.max(1)));
    }
    response
}

fn failure(server: &Server, why: &PageError) -> Response {
    let (status, title) = match why {
        PageError::Find(_) => (StatusCode::NOT_FOUND, "No such run"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "Not now"),
    };
    refusal(server, status, title, &why.to_string(), "/")
}

/// A page that says why something was not done, and where to go on.
pub(crate) fn refusal(
    server: &Server,
    status: StatusCode,
    title: &'static str,
    why: &str,
    back: &str,
) -> Response {
    let foot = Foot::of(server, clock::now_ns());
    let page = Failure { title, why: why.to_owned(), back: back.to_owned(), foot };
    (status, Html(page.render().unwrap_or_default())).into_response()
}

impl Foot {
    fn of(server: &Server, now_ns: i64) -> Self {
        let counters = &server.counters;
        Self {
            evaluated_at: counters.evaluated_at.get().map_or_else(|| "not yet".to_owned(), clock::spelled),
            lag_ms: counters.lag_ms(now_ns),
            firing: server.board().alerts().filter(|alert| alert.is_firing()).count(),
            problems: crate::metric::readiness(counters, now_ns).err().into_iter().collect(),
        }
    }
}
