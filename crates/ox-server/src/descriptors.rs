//! Descriptors: connections get what the files do not need.
//!
//! A log that cannot be rolled for want of a descriptor ends the server. So connections stop to be accepted before
//! there are none left; whoever comes then waits until another one goes.

use crate::limits::SPARE_DESCRIPTORS;
use crate::system;

/// What a server has open without clients, where the system does not tell.
const OPEN_GUESS: u64 = 32;

/// The system lets this process open too few files.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most {limit} files may be open, and {needed} are needed to serve anybody")]
pub struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

/// How many connections there may be, now that everything else is open.
pub(crate) fn connections_max() -> Result<usize, TooFewDescriptors> {
    let (limit, open) = (system::open_files_max(), system::open_files().unwrap_or(OPEN_GUESS));
    let max = rest(limit, open)?;
    tracing::info!(limit, connections_max = max, "open files");
    Ok(usize::try_from(max).unwrap_or(usize::MAX))
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
