//! One request from encoding to reply, with retries where they are safe.

use super::Client;
use crate::core::{Failure, Reply, Request, SessionEnd, SubmitError, Submitted, WatchRequest};
use crate::error::{Error, ErrorKind, RequestOutcome};
use crate::retry::RetryPolicy;
use crate::watch::Watcher;
use ox_proto::jute::Jute;
use ox_proto::{OpCode, Reader};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout_at};

/// Whether a request may be sent again when its reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Always: it changes nothing.
    Read,
    /// Always: executing it twice has the effect of executing it once.
    Idempotent,
    /// Never: the first attempt may have been executed.
    Write,
}

/// A request before it is submitted to the session.
pub(crate) struct Call<'a> {
    /// Name of the operation in errors.
    pub(crate) name: &'static str,
    pub(crate) op: OpCode,
    /// As the application passed it, without the chroot.
    pub(crate) path: Option<&'a str>,
    pub(crate) kind: Kind,
    /// Appends the request body.
    pub(crate) encode: &'a (dyn Fn(&mut Vec<u8>) + Sync),
    pub(crate) watch: Option<&'a Watcher>,
}

impl Call<'_> {
    pub(crate) fn error(&self, kind: ErrorKind, outcome: RequestOutcome) -> Error {
        Error::new(self.name, self.path, kind, outcome)
    }

    pub(crate) fn refused(&self, code: i32) -> Error {
        Error::refused(self.name, self.path, code)
    }

    fn failed(&self, failure: Failure) -> Error {
        let kind = match failure.ended {
            None => ErrorKind::ConnectionLoss,
            Some(SessionEnd::Expired) => ErrorKind::SessionExpired,
            Some(SessionEnd::AuthFailed) => ErrorKind::AuthFailed,
            Some(SessionEnd::Closed) => ErrorKind::Closed,
        };
        let is_definite = !failure.sent || self.kind == Kind::Read;
        self.error(kind, if is_definite { RequestOutcome::NoEffect } else { RequestOutcome::Unknown })
    }

    fn request(
        &self,
        waiter: super::shared::Sender,
        waits: bool,
    ) -> Request<super::shared::Sender, crate::watch::Sink> {
        let watch = self.watch.map(|watch| WatchRequest {
            id: watch.id,
            class: watch.class,
            path: watch.path.clone(),
            sink: watch.sink.clone(),
        });
        Request { op: self.op, waiter, waits, watch }
    }
}

impl Client {
    /// Sends a request, retries it by the policy, and returns a successful reply. Errors name a chroot that does not exist,
    /// and servers that cannot be reached.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        match self.send_with_retries(&call).await {
            // A node that does not exist is a result of `exists`, and not an error.
            Err(error) if call.op != OpCode::Exists => {
                let error = self.shared().explain(error);
                Err(self.name_missing_chroot(error).await)
            }
            Err(error) => Err(self.shared().explain(error)),
            Ok(reply) => Ok(reply),
        }
    }

    async fn send_with_retries(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let retry = self.retry;
        let mut started = None;
        let mut tries = 0;
        loop {
            let error = match self.attempt(retry, call, &mut started).await {
                Ok(reply) if reply.err == 0 => return Ok(reply),
                Ok(reply) => call.refused(reply.err),
                Err(error) => error,
            };
            tries += 1;
            let is_safe = error.outcome() == RequestOutcome::NoEffect || call.kind == Kind::Idempotent;
            if !error.is_retriable() || !is_safe {
                return Err(error);
            }
            let elapsed = started.map_or(Duration::ZERO, |started: Instant| started.elapsed());
            let Some(pause) = retry.pause(tries, elapsed) else { return Err(error) };
            sleep(pause).await;
        }
    }

    /// Sends a request if the client is connected, without retries. The reply may be an error code.
    pub(crate) async fn send_once(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.attempt(RetryPolicy::None, call, &mut None).await
    }

    /// One attempt. `started` is set to the time of the first attempt.
    async fn attempt(
        &self,
        retry: RetryPolicy,
        call: &Call<'_>,
        started: &mut Option<Instant>,
    ) -> Result<Reply, Error> {
        let shared = self.shared();
        let (waiter, reply) = oneshot::channel();
        let mut request = call.request(waiter, retry.waits());
        let submitted = loop {
            let (now, submitted) = shared.submit(request, call.encode);
            started.get_or_insert(now);
            match submitted {
                Ok(submitted) => break submitted,
                Err((SubmitError::Full, again)) => {
                    request = again;
                    if !shared.await_capacity(retry_deadline(*started, retry)).await {
                        return Err(call.error(ErrorKind::ConnectionLoss, RequestOutcome::NoEffect));
                    }
                }
                Err((error, _)) => return Err(submit_error(call, error)),
            }
        };
        let replied = match (submitted, retry_deadline(*started, retry)) {
            (Submitted::Queued(number), Some(until)) => {
                let mut reply = pin!(reply);
                match timeout_at(until, reply.as_mut()).await {
                    Ok(replied) => replied,
                    Err(_) if shared.change(|session, _, _| session.cancel_queued(number)) => {
                        return Err(call.error(ErrorKind::ConnectionLoss, RequestOutcome::NoEffect));
                    }
                    Err(_) => reply.await, // sent in the meantime: wait for its reply
                }
            }
            (Submitted::Queued(_), None) | (Submitted::Sent, _) => reply.await,
        };
        // A sender is dropped without a reply only together with the session.
        let lost = Failure { ended: Some(SessionEnd::Closed), sent: true };
        replied.unwrap_or(Err(lost)).map_err(|failure| call.failed(failure))
    }
}

fn submit_error(call: &Call<'_>, error: SubmitError) -> Error {
    match error {
        SubmitError::TooLarge { limit } => call.error(ErrorKind::TooLarge, RequestOutcome::NoEffect).with_detail(
            format!("the limit of this client is {limit} bytes, as jute.maxbuffer of servers is by default"),
        ),
        SubmitError::Ended(ended) => call.failed(Failure { ended: Some(ended), sent: false }),
        SubmitError::Full | SubmitError::Disconnected => call.failed(Failure { ended: None, sent: false }),
    }
}

/// When the policy stops retrying.
fn retry_deadline(started: Option<Instant>, retry: RetryPolicy) -> Option<tokio::time::Instant> {
    started?.checked_add(retry.limit()?).map(Into::into)
}

/// Decodes the body of a reply.
pub(crate) fn decode<'a, T: Jute<'a>>(call: &'static str, path: Option<&str>, reply: &'a Reply) -> Result<T, Error> {
    Reader::new(&reply.body).get().map_err(|_| Error::new(call, path, ErrorKind::BadReply, RequestOutcome::Unknown))
}
