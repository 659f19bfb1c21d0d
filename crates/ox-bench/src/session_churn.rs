//! Session churn: each connection opens a session, closes it and starts again.

use crate::counters;
use crate::failure;
use crate::limits::REPLY_TIMEOUT;
use crate::load::{RunTiming, WindowStart};
use crate::load_stream::LoadStream;
use crate::progress::ProgressLine;
use crate::results::RunResults;
use crate::session::BenchTarget;
use crate::stop_flag::StopFlag;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use ox_proto::connect::ConnectResponse;
use ox_proto::frame::split_frame;
use ox_proto::request::put_bare_request;
use ox_proto::{OpCode, SessionId};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Replies of a handshake or a close are far smaller.
const REPLY_BYTES: usize = 1024;

/// Opens and closes sessions repeatedly.
#[derive(Clone, Debug)]
pub struct SessionChurn {
    pub target: BenchTarget,
    /// The server's process, to measure its cost.
    pub pid: Option<u32>,
    /// Number of sessions that are opened or closed concurrently.
    pub connections: usize,
    pub timing: RunTiming,
}

impl SessionChurn {
    /// Measures the latency from the connect call to the handshake's reply.
    pub fn run(&self, stop: &StopFlag, progress: &ProgressLine) -> Result<RunResults> {
        let mut slots = SessionSlots::new(self.target, self.connections)?;
        slots.run_for(self.timing.warm_up, stop, progress, "warm up")?;
        failure::unless_interrupted(stop)?;
        slots.opened.reset();
        let mark = WindowStart::take(self.pid.into_iter().collect())?;
        slots.run_for(self.timing.duration, stop, progress, "measure")?;
        let window = mark.window()?;
        progress.clear();
        let results = RunResults::of(&slots.opened, window);
        slots.end()?;
        Ok(results)
    }
}

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Connected,
    Session,
    Closed,
    /// The run is over.
    Nothing,
}

#[derive(Debug)]
struct Slot {
    stream: LoadStream<TcpStream>,
    wait: Wait,
    since: Instant,
}

#[derive(Debug)]
struct SessionSlots {
    target: BenchTarget,
    poll: Poll,
    slots: Vec<Slot>,
    connect_frame: Vec<u8>,
    close_frame: Vec<u8>,
    /// Latencies of the sessions opened.
    opened: Histogram<u64>,
    ending: bool,
}

impl SessionSlots {
    fn new(target: BenchTarget, count: usize) -> Result<Self> {
        let mut close_frame = Vec::new();
        put_bare_request(&mut close_frame, 1, OpCode::CloseSession.code());
        let mut slots = Self {
            target,
            poll: Poll::new()?,
            slots: Vec::new(),
            connect_frame: target.connect_frame(),
            close_frame,
            opened: counters::histogram(),
            ending: false,
        };
        for index in 0..count {
            let slot = slots.connect(index)?;
            slots.slots.push(slot);
        }
        Ok(slots)
    }

    fn connect(&self, index: usize) -> Result<Slot> {
        let server = self.target.address;
        let mut stream = TcpStream::connect(server).map_err(|error| failure::cannot_connect(server, &error))?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Slot { stream: self.target.secure(stream)?, wait: Wait::Connected, since: Instant::now() })
    }

    fn run_for(&mut self, duration: Duration, stop: &StopFlag, progress: &ProgressLine, doing: &str) -> Result<()> {
        let start = Instant::now();
        let mut events = Events::with_capacity(1024);
        while start.elapsed() < duration && !stop.is_set() {
            self.poll_once(&mut events)?;
            progress.show(|| {
                let seconds = start.elapsed().as_secs_f64();
                format!("{doing}: {:.0} sessions per second", self.opened.len() as f64 / seconds)
            });
        }
        Ok(())
    }

    /// Waits for the sessions in progress to close.
    fn end(mut self) -> Result<()> {
        self.ending = true;
        let mut events = Events::with_capacity(1024);
        while self.slots.iter().any(|slot| slot.wait != Wait::Nothing) {
            self.poll_once(&mut events)?;
        }
        Ok(())
    }

    fn poll_once(&mut self, events: &mut Events) -> Result<()> {
        match self.poll.poll(events, Some(Duration::from_millis(100))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        for event in &*events {
            self.serve(event.token().0)?;
        }
        let overdue = |slot: &Slot| slot.wait != Wait::Nothing && REPLY_TIMEOUT < slot.since.elapsed();
        if events.is_empty() && self.slots.iter().any(overdue) {
            return Err(failure::silent(self.target.address, REPLY_TIMEOUT.as_secs()));
        }
        Ok(())
    }

    fn serve(&mut self, index: usize) -> Result<()> {
        let server = self.target.address;
        let slot = &mut self.slots[index];
        if slot.wait == Wait::Connected {
            if let Some(error) = slot.stream.socket().take_error()? {
                return Err(failure::cannot_connect(server, &error));
            }
            match slot.stream.write(&self.connect_frame) {
                Ok(_) => slot.wait = Wait::Session, // 49 bytes fit an empty socket buffer; TLS has ended its handshake
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return Ok(()),
                Err(error) => return Err(failure::broken(server, &error, "opening a session")),
            }
        }
        if slot.wait == Wait::Session && !self.open_session(index)? {
            return Ok(());
        }
        if self.slots[index].wait == Wait::Closed && self.is_closed(index)? {
            self.slots[index].wait = Wait::Nothing;
            if !self.ending {
                self.slots[index] = self.connect(index)?; // dropping the old stream closes it
            }
        }
        Ok(())
    }

    /// Reads the reply to the handshake and sends closeSession; false while it has not arrived.
    fn open_session(&mut self, index: usize) -> Result<bool> {
        let server = self.target.address;
        let slot = &mut self.slots[index];
        let mut bytes = [0; REPLY_BYTES];
        let count = match slot.stream.read(&mut bytes) {
            Ok(0) => return Err(failure::closed(server, "opening a session")),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(failure::broken(server, &error, "opening a session")),
        };
        let response = split_frame(&bytes[..count], REPLY_BYTES)?
            .and_then(|(payload, _)| ConnectResponse::decode(payload).ok())
            .filter(|response| response.session != SessionId::NONE)
            .with_context(|| format!("the server at {server} refused a session\nhint: see its log"))?;
        debug_assert_ne!(response.timeout_ms, 0);
        self.opened.saturating_record(u64::try_from(slot.since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        slot.stream
            .write_all(&self.close_frame)
            .map_err(|error| failure::broken(server, &error, "closing a session"))?;
        slot.wait = Wait::Closed;
        Ok(true)
    }

    /// Reads until the server has closed the connection. Since it closes first, no local port stays in TIME-WAIT.
    fn is_closed(&mut self, index: usize) -> Result<bool> {
        let mut bytes = [0; REPLY_BYTES];
        loop {
            match self.slots[index].stream.read(&mut bytes) {
                Ok(0) => return Ok(true),
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
                    return Ok(true);
                }
                Err(error) => return Err(failure::broken(self.target.address, &error, "closing a session")),
            }
        }
    }
}
