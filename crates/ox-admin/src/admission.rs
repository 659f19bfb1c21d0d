//! Executes commands on blocking threads, and bounds the listings that are in memory.

use crate::limits::{LISTING_WAIT, LISTINGS_MAX};
use crate::reply::{self, Reply};
use axum::body::{Body, HttpBody};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Admission {
    listings: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self { listings: Arc::new(Semaphore::new(LISTINGS_MAX)) }
    }

    /// Executes a command with a short reply.
    pub(crate) async fn execute(&self, run: impl FnOnce() -> Reply + Send + 'static) -> Reply {
        match tokio::task::spawn_blocking(run).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(%error, "admin command failed");
                reply::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Executes a command whose reply grows with the data. Its place is free again when the reply has been sent.
    pub(crate) async fn execute_listing(&self, run: impl FnOnce() -> Reply + Send + 'static) -> Reply {
        let permit = tokio::time::timeout(LISTING_WAIT, Arc::clone(&self.listings).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return reply::text(StatusCode::SERVICE_UNAVAILABLE, "too many listings at a time; try again later\n");
        };
        let (parts, body) = self.execute(run).await.into_parts();
        Response::from_parts(parts, Body::new(PermitBody { body, _permit: permit }))
    }
}

/// A body that keeps its place until it is dropped.
struct PermitBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
