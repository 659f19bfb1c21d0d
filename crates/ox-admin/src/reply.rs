//! What is sent back: status, headers, and a body in one piece or as a stream.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use futures_core::Stream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

pub(crate) type Reply = Response<Body>;

pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

pub(crate) fn json(status: StatusCode, text: String) -> Reply {
    with_type(status, "application/json", text)
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Reply {
    with_type(status, "text/plain; charset=utf-8", text.into())
}

pub(crate) fn with_type(status: StatusCode, content_type: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Body::from(text));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// The reply to a method that no command has.
pub(crate) fn other_method(method: &axum::http::Method) -> Reply {
    match method.as_str() {
        "TRACE" => empty(StatusCode::FORBIDDEN),
        "OPTIONS" => {
            let mut reply = empty(StatusCode::OK);
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, TRACE, OPTIONS"));
            reply
        }
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// A body whose chunks another thread sends.
pub(crate) struct ChunkStream(pub(crate) Receiver<io::Result<Bytes>>);

impl Stream for ChunkStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
