//! One request, from its body to its answer, tried again where that is safe.

use super::Client;
use crate::core::{Ask, Ending, Failure, Refused, Reply, Submitted, WatchAsk};
use crate::error::{Error, ErrorKind, Outcome};
use crate::retry::RetryPolicy;
use crate::watch::Watcher;
use ox_proto::jute::Jute;
use ox_proto::{OpCode, Reader};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout_at};

/// What sending a request again means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: it changes nothing.
    Read,
    /// Twice is as good as once.
    Idempotent,
    /// It may happen twice.
    Write,
}

/// A request.
pub(crate) struct Call<'a> {
    /// How the application calls it.
    pub(crate) name: &'static str,
    pub(crate) op: OpCode,
    /// As the application named it.
    pub(crate) path: Option<&'a str>,
    pub(crate) kind: Kind,
    /// Writes the body.
    pub(crate) encode: &'a (dyn Fn(&mut Vec<u8>) + Sync),
    pub(crate) watch: Option<&'a Watcher>,
}

impl Call<'_> {
    pub(crate) fn error(&self, kind: ErrorKind, outcome: Outcome) -> Error {
        Error::new(self.name, self.path, kind, outcome)
    }

    pub(crate) fn refused(&self, code: i32) -> Error {
        Error::refused(self.name, self.path, code)
    }

    fn failed(&self, failure: Failure) -> Error {
        let kind = match failure.ending {
            None => ErrorKind::ConnectionLoss,
            Some(Ending::Expired) => ErrorKind::SessionExpired,
            Some(Ending::AuthFailed) => ErrorKind::AuthFailed,
            Some(Ending::Closed) => ErrorKind::Closed,
        };
        let is_definite = !failure.sent || self.kind == Kind::Read;
        self.error(kind, if is_definite { Outcome::DidNotHappen } else { Outcome::Unknown })
    }

    fn ask(&self, waiter: super::shared::Sender, waits: bool) -> Ask<super::shared::Sender, crate::watch::Sink> {
        let watch = self.watch.map(|watch| WatchAsk {
            id: watch.id,
            class: watch.class,
            path: watch.path.clone(),
            sink: watch.sink.clone(),
        });
        Ask { op: self.op, waiter, waits, watch }
    }
}

impl Client {
    /// Sends a request and waits for a good answer.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        let retry = self.retry;
        let mut begun = None;
        let mut tries = 0;
        loop {
            let error = match self.attempt(retry, &call, &mut begun).await {
                Ok(reply) if reply.err == 0 => return Ok(reply),
                Ok(reply) => call.refused(reply.err),
                Err(error) => error,
            };
            tries += 1;
            let is_safe = error.outcome() == Outcome::DidNotHappen || call.kind == Kind::Idempotent;
            if !error.is_retriable() || !is_safe {
                return Err(error);
            }
            let elapsed = begun.map_or(Duration::ZERO, |begun: Instant| begun.elapsed());
            let Some(pause) = retry.pause(tries, elapsed) else { return Err(error) };
            sleep(pause).await;
        }
    }

    /// One try. `begun` gets the time of the first.
    async fn attempt(&self, retry: RetryPolicy, call: &Call<'_>, begun: &mut Option<Instant>) -> Result<Reply, Error> {
        let shared = self.shared();
        let (waiter, answer) = oneshot::channel();
        let mut ask = call.ask(waiter, retry.waits());
        let submitted = loop {
            let (now, submitted) = shared.submit(ask, call.encode);
            begun.get_or_insert(now);
            match submitted {
                Ok(submitted) => break submitted,
                Err((Refused::Full, again)) => {
                    ask = again;
                    if !shared.await_room(until(*begun, retry)).await {
                        return Err(call.error(ErrorKind::ConnectionLoss, Outcome::DidNotHappen));
                    }
                }
                Err((refused, _)) => return Err(refuse(call, refused)),
            }
        };
        let answered = match (submitted, until(*begun, retry)) {
            (Submitted::Queued(number), Some(until)) => {
                let mut answer = pin!(answer);
                match timeout_at(until, answer.as_mut()).await {
                    Ok(answered) => answered,
                    Err(_) if shared.change(|session, _, _| session.withdraw(number)) => {
                        return Err(call.error(ErrorKind::ConnectionLoss, Outcome::DidNotHappen));
                    }
                    Err(_) => answer.await, // it was sent meanwhile
                }
            }
            (Submitted::Queued(_), None) | (Submitted::Sent, _) => answer.await,
        };
        // Without a driver, because its runtime is gone, there is no session either.
        let lost = Failure { ending: Some(Ending::Closed), sent: true };
        answered.unwrap_or(Err(lost)).map_err(|failure| call.failed(failure))
    }
}

fn refuse(call: &Call<'_>, refused: Refused) -> Error {
    match refused {
        Refused::TooLarge => call.error(ErrorKind::TooLarge, Outcome::DidNotHappen),
        Refused::Over(ending) => call.failed(Failure { ending: Some(ending), sent: false }),
        Refused::Full | Refused::Away => call.failed(Failure { ending: None, sent: false }),
    }
}

/// When the policy gives up.
fn until(begun: Option<Instant>, retry: RetryPolicy) -> Option<tokio::time::Instant> {
    begun?.checked_add(retry.limit()?).map(Into::into)
}

/// Reads the body of an answer.
pub(crate) fn decode<'a, T: Jute<'a>>(call: &'static str, path: Option<&str>, reply: &'a Reply) -> Result<T, Error> {
    Reader::new(&reply.body).get().map_err(|_| Error::new(call, path, ErrorKind::BadReply, Outcome::Unknown))
}
