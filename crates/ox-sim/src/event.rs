//! Everything that can happen next.

use crate::engine::Ticket;
use crate::faults::Fault;
use crate::link::{LinkId, Way};
use crate::net::{Side, WireId};
use ox_zab::LinkId as LearnerLink;

/// One run of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) server: usize,
    pub(crate) boot: u64,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It dies; what the system has buffered stays.
    Killed,
    /// Power goes: what was not synced may be lost.
    PowerCut,
    /// It was asked to end and has finished its work.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client's connection reaches its server.
    Accept(LinkId),
    /// Bytes, or the end of a stream, arrive.
    Arrive(LinkId, Way),
    /// An I/O thread takes a step.
    Io(Who, usize),
    /// The replica thread takes a step.
    Replica(Who),
    /// Connections that were silent for too long are looked for.
    Idle(Who),
    /// A client looks what there is to do; outdated tokens are ignored.
    Client(usize, u64),
    /// The process ends.
    End(Who, End),
    Fault(Fault),
    /// A learner's connection reaches the server it wants.
    Dialed(WireId),
    /// Bytes, or the end of a stream, of the given side arrive at the other.
    Wired(WireId, Side),
    /// One side of a wire may read or write again.
    Ready(WireId, Side),
    /// A notification arrives.
    Noted(usize, usize),
    /// Election connections that are missing are tried.
    Mesh,
    /// An election connection is given up because nothing gets through.
    Unmesh(usize, usize),
    /// Servers are asked when they have heard of each other.
    Look,
    /// All faults end for good.
    Heal,
    /// What somebody waited for has come.
    Wake(Ticket, Option<Who>),
    Job(Job),
}

/// Work that touches the disk, and is interrupted by other events at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Recovery.
    Start(usize),
    /// The log thread writes what has gathered.
    Log(Who),
    /// The snapshot thread writes what was frozen.
    Snapshot(Who),
    /// Free space is measured, old files are purged.
    Maintain(Who),
    /// What was handed to the disk is written, then the process ends.
    Stop(Who),
    /// A stored history is looked for, for a learner.
    LookUp(Who, LearnerLink),
    /// A part of it is read and sent.
    SendStored(Who, LearnerLink),
}
