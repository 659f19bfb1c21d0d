//! Who votes, and how many of them decide.

use ox_proto::ServerId;
use std::collections::BTreeSet;

/// The voters of a configuration; a majority of them decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    voters: BTreeSet<ServerId>,
}

impl Quorum {
    /// The majorities of `voters`.
    ///
    /// # Panics
    /// When there is no voter: nothing could ever be decided.
    pub fn majority_of(voters: impl IntoIterator<Item = ServerId>) -> Self {
        let voters: BTreeSet<ServerId> = voters.into_iter().collect();
        assert!(!voters.is_empty(), "an ensemble has at least one voter");
        Self { voters }
    }

    /// Whether a server's word counts.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.voters.contains(&server)
    }

    /// The highest of the given positions that a quorum has reached. Each voter counts once, others not at all.
    pub fn reached<P: Ord + Copy>(&self, positions: impl Iterator<Item = (ServerId, P)>) -> Option<P> {
        let mut reached: Vec<P> = positions.filter(|(server, _)| self.is_voter(*server)).map(|(_, at)| at).collect();
        reached.sort_unstable_by(|a, b| b.cmp(a));
        reached.get(self.voters.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(voters: i64, positions: &[(i64, u32)], expected: Option<u32>) {
        let quorum = Quorum::majority_of((1..=voters).map(ServerId));
        assert_eq!(quorum.reached(positions.iter().map(|(server, at)| (ServerId(*server), *at))), expected);
    }

    #[test]
    fn a_majority_decides() {
        check(1, &[(1, 7)], Some(7));
        check(1, &[], None);
        check(3, &[(1, 9), (2, 5)], Some(5));
        check(3, &[(1, 9)], None);
        check(5, &[(1, 9), (2, 7), (3, 8), (4, 1)], Some(7));
        check(4, &[(1, 9), (2, 9)], None);
    }

    #[test]
    fn strangers_do_not_count() {
        check(3, &[(1, 9), (4, 9), (5, 9)], None);
    }
}
