//! One TLS handshake with another server, as the peers thread sees it. That thread reads and writes the socket; the
//! computations are done by [`TlsWorkers`].

use super::tls_workers::{HandshakeState, JobPeer, JobRank, TlsJob, TlsJobResult, TlsWorkers};
use crate::io::stream::Stream;
use crate::limits::{PEER_TLS_HANDSHAKE_BYTES_MAX, TLS_DISCARD_BYTES_MAX};
use mio::Token;
use mio::net::TcpStream;
use ox_tls::ClientEndpoint;
use rustls::{Connection, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A handshake until its end. Dropping it cancels its job.
pub(super) struct TlsHandshake {
    tcp: TcpStream,
    peer: JobPeer,
    progress: Progress,
    /// Ciphertext for the next job.
    received: Vec<u8>,
    /// Bytes that the handshake has received altogether.
    received_total: usize,
    unsent: Vec<u8>,
    /// A worker has had the first record.
    has_begun: bool,
    /// The first flight of the peer was valid, and has been answered.
    is_advanced: bool,
    has_ended: bool,
    cancellation: Cancellation,
}

enum Progress {
    Idle(HandshakeState),
    /// A worker has the state.
    Busy,
    /// Complete, with ciphertext that follows the handshake. The last flight may be unsent.
    Complete(Box<Connection>, Vec<u8>),
}

/// Cancels the job of a handshake when it is dropped.
struct Cancellation(Arc<AtomicBool>);

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What a handshake needs next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TlsStep {
    /// Bytes, or a worker; whether bytes have arrived.
    Wait(bool),
    /// [`TlsHandshake::into_stream`] returns the stream.
    Complete,
    Failed(String),
}

impl TlsHandshake {
    /// The handshake of an accepted connection.
    pub(super) fn accept(tcp: TcpStream, peer: JobPeer, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let tls = Box::new(Connection::from(ServerConnection::new(config)?));
        Ok(Self::new(tcp, peer, HandshakeState::Begun(tls)))
    }

    /// The handshake of an open connection that this server has dialled.
    pub(super) fn connect(tcp: TcpStream, peer: JobPeer, endpoint: ClientEndpoint) -> Self {
        Self::new(tcp, peer, HandshakeState::Start(Box::new(endpoint)))
    }

    fn new(tcp: TcpStream, peer: JobPeer, state: HandshakeState) -> Self {
        Self {
            tcp,
            peer,
            progress: Progress::Idle(state),
            received: Vec::new(),
            received_total: 0,
            unsent: Vec::new(),
            has_begun: false,
            is_advanced: false,
            has_ended: false,
            cancellation: Cancellation(Arc::default()),
        }
    }

    pub(super) fn is_advanced(&self) -> bool {
        self.is_advanced
    }

    /// Whether the first flight of the peer waits for a worker.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.is_advanced && matches!(self.progress, Progress::Busy)
    }

    pub(super) fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// The stream of a complete handshake.
    pub(super) fn into_stream(self) -> Option<Stream> {
        match self.progress {
            Progress::Complete(tls, rest) => Some(Stream::tls_with_input(self.tcp, *tls, rest)),
            Progress::Idle(_) | Progress::Busy => None,
        }
    }

    /// Continues as far as the socket permits, and passes what has arrived to a worker.
    pub(super) fn advance(&mut self, token: Token, workers: &TlsWorkers) -> TlsStep {
        if let Err(error) = self.flush() {
            return TlsStep::Failed(error.to_string());
        }
        match &self.progress {
            Progress::Busy => TlsStep::Wait(false),
            Progress::Complete(..) if self.unsent.is_empty() => TlsStep::Complete,
            Progress::Complete(..) => TlsStep::Wait(false),
            Progress::Idle(state) => {
                let is_start = matches!(state, HandshakeState::Start(_));
                let before = self.received_total;
                if let Err(reason) = self.read() {
                    return TlsStep::Failed(reason);
                }
                let is_enough = !self.received.is_empty() && (self.has_begun || has_record(&self.received));
                if is_start || is_enough {
                    self.submit(token, workers);
                } else if self.has_ended {
                    return TlsStep::Failed("the peer closed the connection during the TLS handshake".to_owned());
                }
                TlsStep::Wait(before < self.received_total)
            }
        }
    }

    /// Takes the result of a job, or why the handshake failed. The caller then calls [`Self::advance`].
    pub(super) fn on_result(&mut self, result: TlsJobResult) -> Result<(), String> {
        let TlsJobResult { outcome, output, rest, .. } = result;
        self.unsent.extend_from_slice(&output);
        self.has_begun = true;
        self.is_advanced |= outcome.is_ok() && !output.is_empty();
        match outcome {
            Err(error) => {
                self.send_alert();
                return Err(ox_tls::describe_handshake_error(&error));
            }
            Ok(tls) if tls.is_handshaking() => self.progress = Progress::Idle(HandshakeState::Begun(tls)),
            Ok(tls) => self.progress = Progress::Complete(tls, rest),
        }
        Ok(())
    }

    fn submit(&mut self, token: Token, workers: &TlsWorkers) {
        match std::mem::replace(&mut self.progress, Progress::Busy) {
            Progress::Idle(state) => {
                let JobPeer { class, address } = self.peer;
                let rank = JobRank { class, is_advanced: self.is_advanced };
                let (input, is_cancelled) = (std::mem::take(&mut self.received), Arc::clone(&self.cancellation.0));
                workers.submit(TlsJob { token, rank, address, state, input, is_cancelled });
            }
            other @ (Progress::Busy | Progress::Complete(..)) => self.progress = other,
        }
    }

    fn read(&mut self) -> Result<(), String> {
        let mut chunk = [0; 4096];
        while !self.has_ended {
            match self.tcp.read(&mut chunk) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    self.received_total += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error.to_string()),
            }
            if PEER_TLS_HANDSHAKE_BYTES_MAX < self.received_total {
                return Err("the TLS handshake is too long".to_owned());
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.tcp.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => _ = self.unsent.drain(..count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the alert of a failed handshake, and discards input, which would reset the connection before the peer has
    /// read the alert.
    fn send_alert(&mut self) {
        let _ = self.flush(); // the connection is closed anyway
        let _ = self.tcp.shutdown(Shutdown::Write);
        let (mut scratch, mut left) = ([0; 4096], TLS_DISCARD_BYTES_MAX);
        while let Ok(count) = self.tcp.read(&mut scratch)
            && 0 < count
            && 0 < left
        {
            left = left.saturating_sub(count);
        }
    }
}

/// Whether the first TLS record is complete; workers do not get less. Malformed lengths are for TLS to refuse.
fn has_record(received: &[u8]) -> bool {
    let [_, _, _, high, low, rest @ ..] = received else { return false };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    length <= rest.len() || RECORD_BYTES_MAX < length
}

/// The largest payload of a record, 2^14 bytes and an expansion.
const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;
