//! The paths of the two kinds of listeners.

use crate::admission::Admission;
use crate::authorization_header::Requester;
use crate::body_reader::BodyReader;
use crate::commands::{self, Call, CommandContext};
use crate::health::{self, ReadOnlyCounts};
use crate::metrics_route;
use crate::query;
use crate::reply::{self, Reply};
use crate::server_slot::ServerSlot;
use crate::tls::ListenerTls;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::any;
use ox_server::MetricsOptions;
use parking_lot::Mutex;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What all requests share.
pub(crate) struct App {
    pub(crate) server: Arc<ServerSlot>,
    /// Set on the listener of the AdminServer.
    pub(crate) commands: Option<Arc<CommandContext>>,
    pub(crate) metrics: MetricsOptions,
    /// The certificates of the HTTP ports, by port.
    pub(crate) certificates: Certificates,
    pub(crate) admission: Arc<Admission>,
}

/// The TLS of the HTTP ports.
pub(crate) type Certificates = Arc<Mutex<Vec<(&'static str, Arc<ListenerTls>)>>>;

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Subject of the verified certificate.
    pub(crate) certificate_subject: Option<String>,
}

pub(crate) fn admin(app: Arc<App>, command_url: &str) -> Router {
    Router::new()
        .route("/livez", any(live))
        .route("/healthz", any(healthy))
        .route("/readyz", any(ready))
        .route("/metrics", any(metrics))
        .route(command_url, any(index))
        .route(&format!("{command_url}/"), any(index))
        .route(&format!("{command_url}/{{*name}}"), any(command))
        .fallback(not_found)
        .with_state(app)
}

/// The paths of the metrics provider.
pub(crate) fn prometheus(app: Arc<App>) -> Router {
    Router::new().route("/metrics", any(metrics)).fallback(not_found).with_state(app)
}

async fn not_found() -> Reply {
    reply::text(StatusCode::NOT_FOUND, "not found\n")
}

fn is_get(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

async fn live(request: Request) -> Reply {
    if is_get(request.method()) { health::live() } else { reply::other_method(request.method()) }
}

async fn healthy(State(app): State<Arc<App>>, request: Request) -> Reply {
    if !is_get(request.method()) {
        return reply::other_method(request.method());
    }
    health::healthy(app.server.get().as_ref())
}

async fn ready(State(app): State<Arc<App>>, request: Request) -> Reply {
    if !is_get(request.method()) {
        return reply::other_method(request.method());
    }
    let counts = query::parameter(request.uri().query(), "readOnly").is_some_and(|text| text == "true");
    let read_only = if counts { ReadOnlyCounts::AsReady } else { ReadOnlyCounts::AsNotReady };
    let server = app.server.get();
    app.admission.execute(move || health::ready(server.as_ref(), read_only)).await
}

async fn metrics(State(app): State<Arc<App>>, request: Request) -> Reply {
    if !is_get(request.method()) && request.method() != Method::POST {
        return reply::other_method(request.method());
    }
    let (server, options) = (app.server.get(), app.metrics);
    let query = request.uri().query().map(str::to_owned);
    let this = Arc::clone(&app);
    app.admission
        .execute(move || {
            if let Some(server) = &server {
                this.certificates.lock().iter().for_each(|(port, tls)| server.note_certificate(port, tls.days_left()));
            }
            metrics_route::page(server.as_ref(), options, query.as_deref())
        })
        .await
}

async fn index(State(app): State<Arc<App>>, request: Request) -> Reply {
    let Some(context) = &app.commands else { return not_found().await };
    if !is_get(request.method()) && request.method() != Method::POST {
        return reply::other_method(request.method());
    }
    Reply::new(commands::index(&context.admin.command_url).into())
}

async fn command(State(app): State<Arc<App>>, Path(name): Path<String>, request: Request) -> Reply {
    let Some(context) = app.commands.clone() else { return not_found().await };
    let method = request.method().clone();
    if !is_get(&method) && method != Method::POST {
        return reply::other_method(&method);
    }
    let Some(spec) = commands::find(&name) else { return commands::unknown(&name) };
    if !spec.has_method(&method) {
        return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let requester = requester(&request, context.admin.trusts_forwarded_for);
    let query = request.uri().query().map(str::to_owned);
    let (server, is_post) = (app.server.get(), method == Method::POST);
    let body = if is_post { BodyReader::start(request.into_body()) } else { None };
    let run = move || {
        let body = Cell::new(body);
        let (query, requester) = (query.as_deref(), &requester);
        let call = Call { context: &context, server, query, requester, is_post, body };
        spec.execute(&name, &call)
    };
    if spec.is_listing() { app.admission.execute_listing(run).await } else { app.admission.execute(run).await }
}

fn requester(request: &Request, trusts_forwarded_for: bool) -> Requester {
    let peer = request.extensions().get::<Peer>();
    let own = peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.address.ip().to_canonical());
    let forwarded = forwarded_for(request.headers()).filter(|_| trusts_forwarded_for);
    Requester {
        authorization: request.headers().get(AUTHORIZATION).map(|value| value.as_bytes().to_vec()),
        address: forwarded.unwrap_or(own),
        certificate_subject: peer.and_then(|peer| peer.certificate_subject.clone()),
    }
}

/// The last address of `X-Forwarded-For`, which the nearest proxy has added.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_forwarded_address_counts() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().unwrap());
        assert_eq!(forwarded_for(&headers), "2.2.2.2".parse().ok());
        headers.append("x-forwarded-for", "::3".parse().unwrap());
        assert_eq!(forwarded_for(&headers), "::3".parse().ok());
        headers.append("x-forwarded-for", "x".parse().unwrap());
        assert_eq!(forwarded_for(&headers), None);
    }
}
