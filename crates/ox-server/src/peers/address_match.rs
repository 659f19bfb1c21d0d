//! Which connection stays when several name the same server in their hello. A hello proves nothing, so the address of the
//! connection decides.

use crate::limits::{DIAL_BACK_INTERVAL, SUSPECT_REDIAL_INTERVAL};
use std::time::Duration;

/// How well the address of a connection fits the server that its hello names; greater values fit better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressMatch {
    /// No configured server has the address. A member behind a translated address is here, too.
    None,
    /// Another configured server has it: servers may share a host, or one of them has the wrong `myid`.
    OtherServer,
    /// The named server has it.
    Server,
}

impl AddressMatch {
    /// Whether a new connection replaces the open ones that name the same server. Among equals it does: a server that
    /// restarts dials before the end of its old connection is noticed.
    pub(super) fn may_replace(self, open: impl IntoIterator<Item = Self>) -> bool {
        open.into_iter().all(|open| open <= self)
    }

    /// Whether a hello is followed by a dial to the server that it names. `last` is the time since the previous such
    /// dial.
    pub(super) fn may_dial_back(self, is_configured: bool, last: Option<Duration>) -> bool {
        let is_trusted = is_configured && self != Self::None;
        is_trusted || last.is_none_or(|last| DIAL_BACK_INTERVAL <= last)
    }

    /// Whether a server is dialled although a connection names it, because the connection may be another host's. `last`
    /// is the time since the server was dialled before: it may have dialled back, from an address that is not
    /// configured.
    pub(super) fn is_suspect(self, last: Option<Duration>) -> bool {
        self == Self::None && last.is_none_or(|last| SUSPECT_REDIAL_INTERVAL <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::AddressMatch::{self, None as Unknown, OtherServer, Server};
    use super::*;

    #[test]
    fn connection_replaces_those_that_fit_no_better() {
        let cases: [(&str, AddressMatch, &[AddressMatch], bool); 11] = [
            ("first connection of a server behind a translated address", Unknown, &[], true),
            ("such a server again", Unknown, &[Unknown], true),
            ("another host names a connected member", Unknown, &[Server], false),
            ("another host names a member that shares a host with another one", Unknown, &[OtherServer], false),
            ("one of several open connections fits better", Unknown, &[Unknown, Server, Unknown], false),
            ("member that restarts", Server, &[Server], true),
            ("member that another host has named meanwhile", Server, &[Unknown, Unknown], true),
            ("member that another member's host has named", Server, &[OtherServer], true),
            ("wrong myid on the host of another member", OtherServer, &[Server], false),
            ("members that share a host", OtherServer, &[OtherServer, Unknown], true),
            ("first connection of a member", Server, &[], true),
        ];
        for (case, new, open, expected) in cases {
            assert_eq!(new.may_replace(open.iter().copied()), expected, "{case}");
        }
    }

    #[test]
    fn hello_without_a_matching_address_is_dialled_back_once_per_interval() {
        let soon = Some(DIAL_BACK_INTERVAL / 2);
        let cases = [
            (Unknown, true, None, true),
            (Unknown, true, soon, false),
            (Unknown, true, Some(DIAL_BACK_INTERVAL), true),
            (Unknown, false, soon, false),
            (OtherServer, false, soon, false),
            (OtherServer, true, soon, true),
            (Server, true, soon, true),
        ];
        for (of, is_configured, last, expected) in cases {
            assert_eq!(of.may_dial_back(is_configured, last), expected, "{of:?} {is_configured} {last:?}");
        }
    }

    #[test]
    fn connection_from_an_unknown_address_is_doubted_unless_it_may_be_a_reply() {
        let cases = [
            (Unknown, None, true),
            (Unknown, Some(SUSPECT_REDIAL_INTERVAL), true),
            (Unknown, Some(SUSPECT_REDIAL_INTERVAL / 2), false),
            (OtherServer, None, false),
            (Server, None, false),
        ];
        for (of, last, expected) in cases {
            assert_eq!(of.is_suspect(last), expected, "{of:?} {last:?}");
        }
    }
}
