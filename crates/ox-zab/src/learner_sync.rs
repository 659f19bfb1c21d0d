//! How a learner is given history: what it gets first. What follows is a [`LearnerStream`]. A leader does it for its
//! learners, a follower for the observers that it serves.

use crate::context::Context;
use crate::effect::{Effect, LinkId};
use crate::learner_stream::LearnerStream;
use crate::message::Message;
use crate::options::PeerOptions;
use crate::recent_log::{Catch, History};
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
    /// The on-disk log has what a learner lacks before `below`, or not.
    pub(crate) fn looked_up(below: Option<Zxid>) -> Self {
        below.map_or(Self::State, |below| Self::Stored(Zxid(below.0 - 1)))
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

    /// Gives it, and lets the stream continue after it.
    pub(crate) fn send(
        self,
        cx: &mut Context<'_>,
        id: LinkId,
        reach: Reach,
        to_follower: bool,
        to: &mut LearnerStream,
    ) {
        let Reach { agreed, applied, .. } = reach;
        let after = match self {
            Self::Diff(told, after) => {
                to.send_now(cx.out, id, Message::Diff(told));
                after
            }
            Self::Stored(after) => {
                to.send_now(cx.out, id, Message::Diff(agreed));
                cx.out.push(Effect::SendStored(id));
                after
            }
            Self::Trunc(zxid) => {
                to.send_now(cx.out, id, Message::Trunc(zxid));
                zxid
            }
            Self::State => {
                cx.out.push(Effect::SendSnapshot(id));
                applied
            }
        };
        to.begin(after, to_follower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Txn;
    use bytes::Bytes;

    /// The first packet, as Apache chooses it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum First {
        Diff,
        Trunc(Zxid),
        Snap,
    }

    fn is_start(zxid: Zxid) -> bool {
        zxid.counter() == 0
    }

    /// Looks for a learner's end in a history, one transaction after the other.
    fn walk(peer: Zxid, history: &[Zxid]) -> First {
        let Some(at) = history.iter().position(|zxid| peer <= *zxid) else {
            return if is_start(peer) { First::Diff } else { First::Snap };
        };
        match history[at] {
            zxid if zxid == peer || is_start(peer) => First::Diff,
            zxid if zxid.epoch() != peer.epoch() => First::Snap,
            _ => First::Trunc(if at == 0 { Zxid(-1) } else { history[at - 1] }),
        }
    }

    /// Apache's decision, row by row: of the stored log, everything from `first` on is kept in memory.
    fn table(peer: Zxid, stored: &[Zxid], first: usize, processed: Zxid) -> First {
        let (min, max) = (stored[first], stored[stored.len() - 1]);
        if peer == processed {
            First::Diff
        } else if max < peer && !is_start(peer) {
            First::Trunc(max)
        } else if min <= peer && peer <= max {
            walk(peer, &stored[first..])
        } else if peer < min && stored[0] <= peer {
            walk(peer, stored)
        } else {
            First::Snap
        }
    }

    /// What is decided here, with a stored log that knows every transaction.
    fn decided(peer: Zxid, stored: &[Zxid], first: usize, processed: Zxid) -> First {
        let agreed = stored[stored.len() - 1];
        let before = if first == 0 { Zxid::ZERO } else { stored[first - 1] };
        let mut history = History::new(before, 500, 1 << 20);
        stored[first..].iter().for_each(|zxid| history.push(Txn { zxid: *zxid, record: Bytes::new() }));
        let reach = Reach { processed, agreed, applied: agreed };
        let given = match Lack::of(peer, &history, reach, &PeerOptions::default()) {
            Lack::Known(given) => given,
            Lack::MayBeStored(below) => Given::looked_up(stored.contains(&peer).then_some(below)),
        };
        match given {
            Given::Diff(..) | Given::Stored(_) => First::Diff,
            Given::Trunc(zxid) => First::Trunc(zxid),
            Given::State => First::Snap,
        }
    }

    /// In a history without holes, whatever lies between two transactions belongs to another epoch than the second. So
    /// nobody is ever told to cut by what stands in the stored log only: who is beyond everything is cut by the memory.
    #[test]
    fn decisions_are_those_of_the_table() {
        let zxids = |epoch, count| (1..=count).map(move |counter| Zxid::new(epoch, counter));
        for counts in [[4, 3, 2], [3, 0, 4], [0, 5, 1], [1, 1, 1], [0, 0, 3]] {
            let stored: Vec<Zxid> = (1..).zip(counts).flat_map(|(epoch, count)| zxids(epoch, count)).collect();
            let last = stored[stored.len() - 1];
            let peers = (0..6).flat_map(|epoch| (0..8).map(move |counter| Zxid::new(epoch, counter)));
            for peer in peers.chain([Zxid(-1)]) {
                for (first, processed) in (0..stored.len()).flat_map(|first| [(first, last), (first, Zxid::new(4, 0))])
                {
                    let is_below = peer < stored[first];
                    if is_below && is_start(peer) {
                        continue; // the store decides, by what it can prove
                    }
                    let expected = table(peer, &stored, first, processed);
                    assert_eq!(decided(peer, &stored, first, processed), expected, "{peer} {stored:?} {first}");
                    assert!(!is_below || !matches!(expected, First::Trunc(_)), "{peer} {stored:?} {first}");
                }
            }
        }
    }
}
