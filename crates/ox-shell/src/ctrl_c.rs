//! A Ctrl-C listener that does not miss a signal between two checks.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The listener. Once it exists, Ctrl-C no longer ends the program.
#[derive(Debug)]
pub(crate) struct CtrlC(Option<Signal>);

impl CtrlC {
    /// # Panics
    /// When called outside of a tokio runtime.
    pub(crate) fn listen() -> Self {
        Self(signal(SignalKind::interrupt()).ok()) // without signal support, Ctrl-C cannot be handled
    }

    /// Waits for the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        let came = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if came.is_none() {
            std::future::pending().await
        }
    }

    /// Whether Ctrl-C was pressed since the last check.
    pub(crate) fn was_pressed(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(pin!(self.next()).poll(&mut cx), Poll::Ready(()))
    }
}
