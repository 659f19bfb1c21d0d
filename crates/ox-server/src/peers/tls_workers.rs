//! Threads that compute TLS handshakes between servers. A public-key operation takes a millisecond, which must not delay
//! established links.
//!
//! ```text
//! peers thread ── TlsJob: state of the handshake, received bytes ──► queue ─► [ worker ]
//!      ▲                                                                          │
//!      └──────────── TlsJobResult: the state again, bytes to send ◄───────────────┘
//! ```
//! The peers thread keeps the socket, its deadline and its place among the unidentified connections, so that all limits
//! hold for handshakes, too. A handshake has one job at a time. Dials of this server to members come first, because no
//! other host can cause them; then members' addresses; then handshakes that are past their first flight, which a peer
//! cannot reach without work of its own. Among equals the address with the fewest waiting jobs comes first, and of its
//! jobs the newest: of a flood that exceeds the capacity, the oldest are closed before they are done.

use super::commands::PeerCommands;
use crate::shared::Shared;
use crate::watchdog::Heartbeat;
use mio::Token;
use ox_tls::ClientEndpoint;
use parking_lot::{Condvar, Mutex};
use rustls::{ClientConnection, Connection};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The longest wait for a job.
const IDLE_WAIT: Duration = Duration::from_millis(250);

/// Whose handshakes come first; the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobClass {
    /// Accepted from an address that no member has, or a dial of a server that is in no configuration.
    Other,
    /// Accepted from an address of a member.
    Member,
    /// A dial of this server to a member.
    Dial,
}

/// The remote end of a handshake.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobPeer {
    pub(super) class: JobClass,
    pub(super) address: IpAddr,
}

/// Which jobs are done first; the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobRank {
    pub(super) class: JobClass,
    /// The first flight has been answered.
    pub(super) is_advanced: bool,
}

/// One step of a handshake.
pub(super) struct TlsJob {
    pub(super) token: Token,
    pub(super) rank: JobRank,
    /// Address of the peer.
    pub(super) address: IpAddr,
    pub(super) state: HandshakeState,
    /// Ciphertext from the peer.
    pub(super) input: Vec<u8>,
    /// Set when the connection is closed, and the job is not needed any more.
    pub(super) is_cancelled: Arc<AtomicBool>,
}

/// A handshake between two steps.
pub(super) enum HandshakeState {
    /// This server connects, and has sent nothing yet.
    Start(Box<ClientEndpoint>),
    Begun(Box<Connection>),
}

pub(super) struct TlsJobResult {
    pub(super) token: Token,
    /// The error has been turned into an alert, which is in `output`.
    pub(super) outcome: Result<Box<Connection>, rustls::Error>,
    /// Ciphertext for the peer.
    pub(super) output: Vec<u8>,
    /// Ciphertext after the end of the handshake.
    pub(super) rest: Vec<u8>,
}

#[derive(Default)]
struct Queues {
    waiting: Vec<TlsJob>,
    done: Vec<TlsJobResult>,
}

/// The queues of all workers. Their length is bounded by the number of unidentified connections and dials.
pub(crate) struct TlsWorkers {
    queues: Mutex<Queues>,
    has_job: Condvar,
    commands: Arc<PeerCommands>,
}

impl TlsWorkers {
    pub(super) fn new(commands: Arc<PeerCommands>) -> Self {
        Self { queues: Mutex::default(), has_job: Condvar::new(), commands }
    }

    pub(super) fn submit(&self, job: TlsJob) {
        self.queues.lock().waiting.push(job);
        self.has_job.notify_one();
    }

    /// Wakes the peers thread.
    pub(super) fn wake(&self) {
        self.commands.wake();
    }

    /// Takes the results since the last call.
    pub(super) fn take(&self) -> Vec<TlsJobResult> {
        std::mem::take(&mut self.queues.lock().done)
    }

    /// Does jobs until the server stops.
    pub(crate) fn run(&self, shared: &Shared, heartbeat: &Heartbeat) {
        while !shared.is_stopping() {
            heartbeat.beat();
            self.run_next();
        }
    }

    /// Does one job; false if there is none for a while.
    pub(super) fn run_next(&self) -> bool {
        let Some(job) = self.next() else { return false };
        let result = run_job(job);
        let mut queues = self.queues.lock();
        let slept = queues.done.is_empty();
        queues.done.push(result);
        drop(queues);
        if slept {
            self.commands.wake();
        }
        true
    }

    /// The next job that is still needed; `None` after a while without one.
    fn next(&self) -> Option<TlsJob> {
        let mut queues = self.queues.lock();
        if queues.waiting.is_empty() {
            self.has_job.wait_for(&mut queues, IDLE_WAIT);
        }
        queues.waiting.retain(|job| !job.is_cancelled.load(Relaxed));
        let jobs: Vec<_> = queues.waiting.iter().map(|job| (job.rank, job.address)).collect();
        Some(queues.waiting.remove(first(&jobs)?))
    }
}

/// The position of the job that is done next; jobs are in the order of their arrival.
fn first(jobs: &[(JobRank, IpAddr)]) -> Option<usize> {
    let mut counts = BTreeMap::<IpAddr, usize>::new();
    jobs.iter().for_each(|(_, address)| *counts.entry(*address).or_default() += 1);
    let order =
        |(at, (rank, address)): &(usize, &(JobRank, IpAddr))| (*rank, Reverse(counts.get(address).copied()), *at);
    jobs.iter().enumerate().max_by_key(order).map(|(at, _)| at)
}

/// Threads for handshakes: one serves about a thousand per second.
pub(crate) fn worker_count() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 2)
}

fn run_job(TlsJob { token, state, input, .. }: TlsJob) -> TlsJobResult {
    let (mut output, mut rest) = (Vec::new(), &input[..]);
    let started = match state {
        HandshakeState::Begun(tls) => Ok(tls),
        HandshakeState::Start(endpoint) => {
            let ClientEndpoint { config, server_name } = *endpoint;
            ClientConnection::new(config, server_name).map(|tls| Box::new(tls.into()))
        }
    };
    let outcome = started.and_then(|mut tls| {
        let processed = process(&mut tls, &mut rest);
        while tls.wants_write() {
            // A write into memory does not fail.
            if !tls.write_tls(&mut output).is_ok_and(|count| 0 < count) {
                break;
            }
        }
        processed.map(|()| tls)
    });
    TlsJobResult { token, outcome, output, rest: rest.to_vec() }
}

/// Processes input until it is used, or the handshake is complete.
fn process(tls: &mut Connection, input: &mut &[u8]) -> Result<(), rustls::Error> {
    while !input.is_empty() && tls.is_handshaking() {
        let count = tls.read_tls(input).map_err(|error| rustls::Error::General(error.to_string()))?;
        if count == 0 {
            return Err(rustls::Error::General("the peer has ended the handshake".to_owned()));
        }
        tls.process_new_packets()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(class: JobClass, is_advanced: bool, host: u8) -> (JobRank, IpAddr) {
        (JobRank { class, is_advanced }, [10, 0, 0, host].into())
    }

    #[test]
    fn dials_to_members_come_before_a_flood_from_a_member_address() {
        let flood = (0..100).map(|number| job(JobClass::Member, number % 2 == 0, 1));
        let jobs: Vec<_> = flood.chain([job(JobClass::Dial, false, 1), job(JobClass::Member, true, 1)]).collect();
        assert_eq!(first(&jobs), Some(100));
    }

    #[test]
    fn member_comes_before_a_flood_from_another_member() {
        let mut jobs = vec![job(JobClass::Member, false, 2)];
        jobs.extend((0..100).map(|_| job(JobClass::Member, false, 1)));
        assert_eq!(first(&jobs), Some(0), "although all others are newer");
        jobs.push(job(JobClass::Member, true, 1));
        assert_eq!(first(&jobs), Some(101), "past its first flight");
        assert_eq!(first(&jobs[1..]), Some(100));
    }

    #[test]
    fn newest_of_equal_jobs_comes_first() {
        assert_eq!(first(&[job(JobClass::Other, false, 1); 3]), Some(2));
        assert_eq!(first(&[]), None);
    }
}
