//! Everything that can happen next.

use crate::engine::Ticket;
use crate::faults::Fault;
use crate::link::{Direction, LinkId};
use crate::net::{Side, WireId};
use ox_zab::LinkId as LearnerLink;

/// A process of a server: each start of a server creates a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) server: usize,
    pub(crate) boot: u64,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process dies; the page cache survives.
    Killed,
    /// The power fails: data that was not fsynced may be lost.
    PowerCut,
    /// The process was stopped and has finished its work.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client's connection reaches its server.
    Accept(LinkId),
    /// Bytes or the end of a stream arrive.
    Arrive(LinkId, Direction),
    /// An I/O thread takes a step.
    Io(ProcessId, usize),
    /// The replica thread takes a step.
    Replica(ProcessId),
    /// The peers thread takes a step.
    Peers(ProcessId),
    /// A received snapshot is loaded.
    SnapshotLoaded(ProcessId, LearnerLink),
    /// The server's end of a link may be read or written again.
    Socket(LinkId),
    /// A slow client reads the next bytes.
    ClientReads(LinkId),
    /// A client acts; outdated tokens are ignored.
    Client(usize, u64),
    End(ProcessId, End),
    Fault(Fault),
    /// A learner's dial reaches its target.
    Dialed(WireId),
    /// Bytes or the end of a stream arrive from the given side of a wire.
    WireArrives(WireId, Side),
    /// One side of a wire may read or write again.
    Ready(WireId, Side),
    /// A notification arrives, from the first server at the second.
    NotificationArrives(usize, usize),
    /// Missing election connections are opened.
    ConnectElections,
    /// An election connection is closed because nothing arrives.
    DropElectionLink(usize, usize),
    /// The timeliness checks run.
    CheckTimeliness,
    /// All faults end for good.
    Heal,
    /// The event that a thread waits for.
    Wake(Ticket, Option<ProcessId>),
    Job(Job),
}

/// Work that calls the disk. Other events can interrupt it at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A server recovers and starts.
    Start(usize),
    /// The log thread executes its queue.
    Log(ProcessId),
    /// The snapshot thread writes the frozen state.
    Snapshot(ProcessId),
    /// Free space is checked, old files are purged.
    Maintain(ProcessId),
    /// All queued work is written, then the process ends.
    Stop(ProcessId),
    /// The on-disk log is searched for a log diff for a learner.
    ReadLog(ProcessId, LearnerLink),
    /// Part of a log diff is read and sent.
    SendLogDiff(ProcessId, LearnerLink),
}
