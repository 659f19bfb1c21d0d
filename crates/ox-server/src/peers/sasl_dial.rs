//! The SASL exchange of a connection that this server has dialled, on its stream.

use super::dial::Established;
use super::quorum_sasl::{AuthInitiator, AuthStep, TicketSource};
use crate::io::stream::Stream;
use ox_driver::sockets::{SocketRead, SocketWrite};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Size of the receive buffer.
const CHUNK_BYTES: usize = 4 << 10;

pub(super) struct SaslDial {
    stream: Stream,
    exchange: AuthInitiator,
    input: Vec<u8>,
    unsent: Vec<u8>,
    is_greeted: bool,
    scratch: Vec<u8>,
}

impl SaslDial {
    /// `hello` precedes the exchange; it is empty on the ports for learners.
    pub(super) fn new(stream: Stream, (exchange, first): (AuthInitiator, Vec<u8>), hello: Vec<u8>) -> Self {
        let (is_greeted, mut unsent) = (!hello.is_empty(), hello);
        unsent.extend_from_slice(&first);
        Self { stream, exchange, input: Vec::new(), unsent, is_greeted, scratch: Vec::new() }
    }

    pub(super) fn into_established(self) -> Established {
        Established { stream: self.stream, input: self.input, is_greeted: self.is_greeted }
    }

    /// Sends the first bytes of an open stream, for which no event may follow.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.flush()
    }

    /// Continues as far as the socket permits.
    pub(super) fn advance(&mut self) -> AuthStep {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            if let Err(reason) = self.flush() {
                return AuthStep::Failed(reason);
            }
            match self.stream.receive(&mut chunk, &mut self.scratch).read {
                SocketRead::Nothing => return AuthStep::Wait,
                SocketRead::End => return AuthStep::Failed("closed by the server".to_owned()),
                SocketRead::Bytes(count) => self.input.extend_from_slice(&chunk[..count]),
            }
            let step = self.exchange.advance(&mut self.input, &mut self.unsent);
            if step != AuthStep::Wait {
                return step;
            }
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        while !self.unsent.is_empty() {
            match self.stream.send(&self.unsent) {
                SocketWrite::Bytes(0) | SocketWrite::Broken => return Err("closed by the server".to_owned()),
                SocketWrite::Bytes(count) => _ = self.unsent.drain(..count),
                SocketWrite::Full => break,
            }
        }
        Ok(())
    }
}

type TicketResult = Result<(AuthInitiator, Vec<u8>), String>;

/// A Kerberos ticket that a thread of its own gets, because a KDC may be slow.
pub(super) struct TicketRequest {
    result: Arc<Mutex<Option<TicketResult>>>,
}

impl TicketRequest {
    /// Begins to get a ticket for the server on `host`, and calls `wake` at the end.
    pub(super) fn start(
        tickets: Arc<TicketSource>,
        host: String,
        timeout: Duration,
        wake: impl FnOnce() + Send + 'static,
    ) -> Result<Self, String> {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let work = move || {
            let started = tickets.start(&host, timeout);
            *slot.lock() = Some(started);
            wake();
        };
        let thread = std::thread::Builder::new().name("ticket".to_owned()).spawn(work);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { result })
    }

    /// The result, once.
    pub(super) fn take(&self) -> Option<TicketResult> {
        self.result.lock().take()
    }
}
