//! Limit of client connections, by the file descriptors of the process.
//!
//! A log that cannot be rolled for lack of a descriptor ends the server. So the server stops accepting before
//! descriptors run out, and further clients wait until a connection closes.

use crate::limits::{MEMBER_DESCRIPTORS, SPARE_DESCRIPTORS, UNKNOWN_SERVERS_MAX};
use crate::peers::unidentified_max;
use crate::status::os_info;

/// Descriptors open without clients, where the system does not report them.
const OPEN_GUESS: u64 = 32;

/// The limit of open files is too low to serve a client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit of open files is {limit}, and a server needs at least {needed}")]
pub struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

/// Client connections allowed, now that everything else is open. A member keeps descriptors for the connections of
/// other servers and for unidentified peers, fewer of the latter where the limit is low.
pub(crate) fn connections_max(is_member: bool) -> Result<usize, TooFewDescriptors> {
    let (limit, open) = (os_info::open_files_max(), os_info::open_files().unwrap_or(OPEN_GUESS));
    let max = rest(limit, open + if is_member { peer_descriptors(limit) } else { 0 })?;
    tracing::info!(limit, connections_max = max, "open files");
    Ok(usize::try_from(max).unwrap_or(usize::MAX))
}

/// Descriptors for the election port and one port for learners (the quorum port and the observer master port are never
/// open together). At most a quarter of all descriptors: where there are very few, clients need them more.
fn peer_descriptors(limit: u64) -> u64 {
    let unidentified = 2 * unidentified_max(limit) as u64;
    (unidentified + 2 * UNKNOWN_SERVERS_MAX as u64 + MEMBER_DESCRIPTORS).min(limit / 4)
}

fn rest(limit: u64, open: u64) -> Result<u64, TooFewDescriptors> {
    let taken = open + SPARE_DESCRIPTORS;
    match limit.checked_sub(taken) {
        None | Some(0) => Err(TooFewDescriptors { limit, needed: taken + 1 }),
        Some(rest) => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_precedence_over_connections() {
        assert_eq!(rest(1024, 12), Ok(980));
        assert_eq!(rest(u64::MAX, 12), Ok(u64::MAX - 44));
        assert_eq!(rest(45, 12), Ok(1));
        for limit in [0, 12, 44] {
            assert_eq!(rest(limit, 12), Err(TooFewDescriptors { limit, needed: 45 }));
        }
    }
}
