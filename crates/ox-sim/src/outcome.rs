//! The outcome of a simulation.

use crate::coverage::Coverage;
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
    History = 10, "clients saw something impossible";
    AckedNotDurable = 11, "something was shown that the disk did not hold";
    ApplyOrder = 12, "transactions were not applied one after the other, once each";
    Ephemerals = 13, "ephemeral nodes and sessions do not fit";
    Digest = 14, "the digest is not that of the tree";
    WatchResidue = 15, "watches of nobody are left";
    AckAfterDiskError = 16, "the log went on after an error";
    Liveness = 17, "requests were not answered although everything works";
    Recovery = 18, "a server could not start again";
    NotRestorable = 19, "the disk did not hold a complete history at some moment";
    LogDiffers = 20, "the log on disk is not what was written to it";
    Panic = 21, "an invariant broke in the code";
    FalseExpiry = 23, "a session ended because the server did not listen to its client";
    TwoLeaders = 24, "two servers were established as leaders of one epoch";
    LeaderIncomplete = 25, "a leader lacked what had been agreed on";
    SentNotDurable = 26, "a server claimed what its disk had not reported";
    Forked = 27, "two servers have different histories";
    Unequal = 28, "two servers with the same history have different states";
    Link = 29, "servers did not understand each other";
    NoQuorum = 30, "something counts as agreed on that a quorum does not hold";
    Late = 31, "something took longer than it may";
    NotDeterministic = 22, "the same seed gave another run";
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
    pub coverage: Coverage,
}
