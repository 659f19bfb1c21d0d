//! Descriptors: connections get what the files do not need.
//!
//! A log that cannot be rolled for want of a descriptor ends the server. So connections stop to be accepted before
//! there are none left; whoever comes then waits until another one goes.

use crate::limits::{MEMBER_DESCRIPTORS, SPARE_DESCRIPTORS, UNKNOWN_SERVERS_MAX};
use crate::os_info;
use crate::peers::unidentified_limits;

/// What a server has open without clients, where the system does not tell.
const OPEN_GUESS: u64 = 32;

/// The system lets this process open too few files.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most {limit} files may be open, and {needed} are needed to serve anybody")]
pub struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

/// How many client connections there may be, now that everything else is open. Members keep descriptors for the connections
/// of other servers, and for those of unidentified peers, of which there are fewer where the limit is low.
pub(crate) fn connections_max(is_member: bool) -> Result<usize, TooFewDescriptors> {
    let (limit, open) = (os_info::open_files_max(), os_info::open_files().unwrap_or(OPEN_GUESS));
    let max = rest(limit, open + if is_member { peer_descriptors(limit) } else { 0 })?;
    tracing::info!(limit, connections_max = max, "open files");
    Ok(usize::try_from(max).unwrap_or(usize::MAX))
}

/// What the election port and one port for learners can hold (a server never has both ports for learners open), but not
/// more than a quarter of all descriptors: clients come first where there are very few.
fn peer_descriptors(limit: u64) -> u64 {
    let unidentified = 2 * unidentified_limits(limit).connections_max() as u64;
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
    fn files_come_first() {
        assert_eq!(rest(1024, 12), Ok(980));
        assert_eq!(rest(u64::MAX, 12), Ok(u64::MAX - 44));
        assert_eq!(rest(45, 12), Ok(1));
        for limit in [0, 12, 44] {
            assert_eq!(rest(limit, 12), Err(TooFewDescriptors { limit, needed: 45 }));
        }
    }
}
