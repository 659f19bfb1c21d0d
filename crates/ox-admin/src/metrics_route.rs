//! The page that Prometheus reads.

use crate::query;
use crate::reply::{self, Reply};
use axum::http::StatusCode;
use ox_server::{MetricsOptions, ServerHandle};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page, with the families of `name[]` only if the query has such parameters. May wait for the replica thread.
pub(crate) fn page(server: Option<&ServerHandle>, options: MetricsOptions, query: Option<&str>) -> Reply {
    let names = query::parameters(query, "name[]");
    let text = match server {
        Some(server) => server.metrics_text(options, &names),
        None => ox_server::metrics_text_of_no_server(options, &names),
    };
    reply::with_type(StatusCode::OK, CONTENT_TYPE, text)
}
