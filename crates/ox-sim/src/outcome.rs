//! The outcome of a simulation.

use crate::coverage::CoverageCounts;
use std::fmt;

macro_rules! kinds {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// Why a simulation can fail. The number is the exit code of the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum FailureKind {
            $(#[doc = $text] $name = $code),*
        }

        impl FailureKind {
            /// The description of the failure.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

kinds! {
    History = 10, "the history of the clients is not consistent";
    AckedNotDurable = 11, "clients saw a transaction that was not durable";
    ApplyOrder = 12, "transactions were not applied once each and in order";
    Ephemerals = 13, "ephemeral nodes and sessions do not match";
    Digest = 14, "the digest does not match the tree";
    WatchResidue = 15, "watches without a connection are left";
    MemoryResidue = 32, "a server at rest counts memory for its clients";
    AckAfterDiskError = 16, "the log accepted data after an error";
    Liveness = 17, "requests got no reply although all faults had ended";
    Recovery = 18, "a server did not recover";
    NotRestorable = 19, "the disk did not contain a complete history";
    LogDiffers = 20, "the log on disk differs from what was written";
    Panic = 21, "a panic in the code";
    FalseExpiry = 23, "a session expired although its client had sent a message";
    TwoLeaders = 24, "two servers were established as leaders of one epoch";
    LeaderIncomplete = 25, "a leader lacked committed transactions";
    SentNotDurable = 26, "a server sent state that its disk had not reported";
    Forked = 27, "two servers have different histories";
    Unequal = 28, "two servers with the same history have different states";
    Link = 29, "a server received a malformed or unexpected packet";
    NoQuorum = 30, "a decision is not stored by a quorum";
    Late = 31, "a time limit was exceeded";
    NotDeterministic = 22, "two runs of one seed had different traces";
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: FailureKind,
    /// Microseconds of virtual time.
    pub at_us: i64,
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at_us / 1_000_000, self.at_us % 1_000_000);
        write!(f, "{} at {seconds}.{micros:06}: {}", self.kind.text(), self.detail)
    }
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// `None` if all checks passed.
    pub failure: Option<Failure>,
    /// A hash over the whole trace.
    pub trace_hash: u64,
    pub steps: u64,
    /// Virtual time that passed, in microseconds.
    pub virtual_us: i64,
    /// How often each situation occurred.
    pub coverage: CoverageCounts,
}
