//! How a run ended.

use crate::coverage::Marks;
use std::fmt;

macro_rules! kinds {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// What a run can fail of. The number is the exit code of the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $text] $name = $code),*
        }

        impl Kind {
            /// In words.
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
    Unheard = 23, "a session ended because the server did not listen to its client";
    TwoLeaders = 24, "two servers were established as leaders of one epoch";
    LeaderIncomplete = 25, "a leader lacked what had been agreed on";
    ClaimNotDurable = 26, "a server claimed what its disk had not reported";
    Forked = 27, "two servers have different histories";
    Unequal = 28, "two servers with the same history have different states";
    Link = 29, "servers did not understand each other";
    NoQuorum = 30, "something counts as agreed on that a quorum does not hold";
    Late = 31, "something took longer than it may";
    NotDeterministic = 22, "the same seed gave another run";
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind of thing.
    pub kind: Kind,
    /// When, in microseconds of virtual time.
    pub at_us: i64,
    /// What exactly.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at_us / 1_000_000, self.at_us % 1_000_000);
        write!(f, "{} at {seconds}.{micros:06}: {}", self.kind.text(), self.detail)
    }
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// A hash over everything that happened.
    pub trace_hash: u64,
    /// Steps taken.
    pub steps: u64,
    /// Virtual time that passed, in microseconds.
    pub virtual_us: i64,
    /// Interesting situations that occurred.
    pub marks: Marks,
}
