//! How a learner is given history: what it gets first, and what follows up to NEWLEADER. A leader does it for its
//! learners, a follower for the observers that it serves.

use crate::context::Context;
use crate::effect::{Effect, LinkId};
use crate::history::{Catch, History};
use crate::message::Message;
use crate::options::PeerOptions;
use ox_proto::Zxid;

/// How far the history of who gives it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The last transaction that is agreed on and told, or the start of an epoch that has none yet.
    pub(crate) processed: Zxid,
    /// The last transaction that is agreed on, or will be.
    pub(crate) agreed: Zxid,
    /// Where the state is.
    pub(crate) applied: Zxid,
}

/// What a learner gets first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The leader's last transaction; what follows continues behind the second.
    Diff(Zxid, Zxid),
    /// What the stored log has; what follows continues behind this.
    Stored(Zxid),
    /// An order to cut.
    Trunc(Zxid),
    /// The state.
    State,
}

/// What is known about what a learner lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It gets this.
    Known(Given),
    /// The stored log may have everything before this transaction, which is kept.
    MayBeStored(Zxid),
}

impl Lack {
    /// What a learner lacks whose history ends at `last`.
    pub(crate) fn of(last: Zxid, history: &History, reach: Reach, options: &PeerOptions) -> Self {
        if options.always_snap {
            return Self::Known(Given::State);
        }
        match history.catch_up(last, reach.processed, reach.agreed) {
            Catch::Diff { told, after } => Self::Known(Given::Diff(told, after)),
            Catch::Trunc(zxid) => Self::Known(Given::Trunc(zxid)),
            Catch::Snap => match history.first().filter(|first| Zxid::ZERO < last && last < *first) {
                Some(first) => Self::MayBeStored(first),
                None => Self::Known(Given::State),
            },
        }
    }
}

impl Given {
    /// The stored log has what a learner lacks before `below`, or not. Meanwhile the memory may have moved on.
    pub(crate) fn looked_up(below: Option<Zxid>, history: &History) -> Self {
        let stored = below.filter(|below| history.first().is_some_and(|first| first <= *below));
        stored.map_or(Self::State, |below| Self::Stored(Zxid(below.0 - 1)))
    }

    pub(crate) fn is_state(self) -> bool {
        self == Self::State
    }

    /// Whether so many observers get the same that another one has to wait: it comes again. `states` tells of each
    /// that gets history whether it gets the state.
    pub(crate) fn is_full(self, states: impl Iterator<Item = bool>, options: &PeerOptions) -> bool {
        let max = if self.is_state() { options.snaps_max } else { options.diffs_max };
        max <= states.filter(|is_state| *is_state == self.is_state()).count()
    }

    /// Gives it, with everything that follows it. What is not agreed on is for followers.
    pub(crate) fn send(self, cx: &mut Context<'_>, id: LinkId, reach: Reach, to_follower: bool, new_leader: Message) {
        let Reach { agreed, applied, .. } = reach;
        let after = match self {
            Self::Diff(told, after) => {
                cx.send(id, Message::Diff(told));
                after
            }
            Self::Stored(after) => {
                cx.send(id, Message::Diff(agreed));
                cx.out.push(Effect::SendStored(id));
                after
            }
            Self::Trunc(zxid) => {
                cx.send(id, Message::Trunc(zxid));
                zxid
            }
            Self::State => {
                cx.out.push(Effect::SendSnapshot(id));
                applied
            }
        };
        for txn in cx.history.after(after) {
            if txn.zxid <= agreed {
                cx.out.push(Effect::Send(id, Message::Proposal(txn.clone())));
                cx.out.push(Effect::Send(id, Message::Commit(txn.zxid)));
            } else if to_follower {
                cx.out.push(Effect::Send(id, Message::Proposal(txn.clone())));
            } else {
                break;
            }
        }
        cx.send(id, new_leader);
    }
}
