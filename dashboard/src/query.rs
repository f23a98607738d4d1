//! `POST /api/query`: answers the commands of this machine while the server owns the database.
//!
//! Place in the flow: command -> `trace::reader` -> **here** -> store. Only who can read `owner.json` has the
//! token. The index catches up first, so a reader sees what was acknowledged before it asked.

use crate::guard::has_token;
use crate::index;
use crate::server::Server;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use std::sync::Arc;
use trace::reader::Ask;
use trace::store::Table;

/// Answers one statement.
pub(crate) async fn query(State(server): State<Arc<Server>>, headers: HeaderMap, body: Bytes) -> Response {
    if !has_token(&headers, &server.token) {
        let told = "the token of owner.json is wanted as a bearer token";
        return refusal(StatusCode::UNAUTHORIZED, told);
    }
    let ask: Ask = match serde_json::from_slice(&body) {
        Ok(ask) => ask,
        Err(why) => {
            return refusal(
                StatusCode::BAD_REQUEST,
                &format!("the body is not {{sql, params, limit}}: {why}"),
            );
        }
    };
    match tokio::task::spawn_blocking(move || answer(&server, &ask)).await {
        Ok(Ok(table)) => Json(table).into_response(),
        Ok(Err((status, why))) => refusal(status, &why),
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"),
    }
}

fn answer(server: &Server, ask: &Ask) -> Result<Table, (StatusCode, String)> {
    index::catch_up(server).map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why.to_string()))?;
    server.ask(&ask.sql, &ask.params, ask.limit).map_err(|why| (StatusCode::BAD_REQUEST, why.to_string()))
}

fn refusal(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": why}))).into_response()
}
