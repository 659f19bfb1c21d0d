//! Ctrl-C, heard from the moment somebody listens: one that comes between two looks is not missed.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener. As long as the program runs, Ctrl-C does not end it any more.
#[derive(Debug)]
pub(crate) struct Interrupts(Option<Signal>);

impl Interrupts {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn listen() -> Self {
        Self(signal(SignalKind::interrupt()).ok()) // a system without signals has no Ctrl-C either
    }

    /// Waits for one.
    pub(crate) async fn next(&mut self) {
        let came = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if came.is_none() {
            std::future::pending().await
        }
    }

    /// Whether one has come since the last look.
    pub(crate) fn has_come(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(pin!(self.next()).poll(&mut cx), Poll::Ready(()))
    }
}
