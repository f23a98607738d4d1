//! Every address of the server, in one table.
//!
//! Place in the flow: both listeners; each request passes [`guard`](crate::guard) first.

use crate::server::Server;
use crate::{clock, decide, guard, metric, owner, page, query, receive};
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use std::sync::Arc;

/// The largest body of `/api/query`; OTLP bodies have a limit of their own.
const QUERY_BYTES: usize = 4 << 20;

/// Pages, API, health and metrics; OTLP too, for senders that were given this address.
pub(crate) fn pages(server: &Arc<Server>) -> Router {
    Router::new()
        .route("/", get(page::overview))
        .route("/runs/{id}", get(page::run))
        .route("/runs/{id}/decision", post(decide::decide).layer(DefaultBodyLimit::max(decide::FORM_BYTES)))
        .route("/enter", get(owner::enter))
        .route("/alerts", get(page::alerts))
        .route("/static/style.css", get(page::style))
        .route("/api/query", post(query::query).layer(DefaultBodyLimit::max(QUERY_BYTES)))
        .route("/metrics", get(metrics))
        .merge(health())
        .merge(otlp_routes())
        .layer(from_fn(guard::guard))
        .with_state(Arc::clone(server))
}

/// OTLP, and health for those who probe its port.
pub(crate) fn otlp(server: &Arc<Server>) -> Router {
    Router::new()
        .merge(health())
        .merge(otlp_routes())
        .layer(from_fn(guard::guard))
        .with_state(Arc::clone(server))
}

fn otlp_routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/traces", post(receive::traces))
        .route("/v1/metrics", post(receive::ignored))
        .route("/v1/logs", post(receive::ignored))
}

fn health() -> Router<Arc<Server>> {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(readyz))
}

async fn readyz(State(server): State<Arc<Server>>) -> Response {
    match metric::readiness(&server.counters, clock::now_ns()) {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let text = tokio::task::spawn_blocking(move || metric::text(&server, clock::now_ns())).await;
    match text {
        Ok(Ok(text)) => ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Ok(Err(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
