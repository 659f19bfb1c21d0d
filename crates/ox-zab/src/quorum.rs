//! Quorums of one configuration, and of two during a reconfiguration.

use ox_proto::ServerId;
use ox_proto::ensemble::{Ensemble, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The voters of a configuration, in weighted groups. A group agrees if more than half of its weight agrees; a quorum
/// is more than half of the groups with a weight. A plain majority is one group of equal weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    groups: Vec<BTreeMap<ServerId, i64>>,
}

impl Quorum {
    /// A quorum is any majority of `voters`.
    ///
    /// # Panics
    /// If `voters` is empty: no quorum would exist.
    pub fn majority_of(voters: impl IntoIterator<Item = ServerId>) -> Self {
        let voters: BTreeMap<ServerId, i64> = voters.into_iter().map(|voter| (voter, 1)).collect();
        assert!(!voters.is_empty(), "an ensemble has at least one voter");
        Self { groups: vec![voters] }
    }

    /// Voters with their weights, by group. If all weights are 0, no quorum exists.
    pub fn hierarchy_of(groups: impl IntoIterator<Item = BTreeMap<ServerId, i64>>) -> Self {
        Self { groups: groups.into_iter().collect() }
    }

    /// The quorum rule of a configuration.
    ///
    /// # Panics
    /// If the ensemble has no voter, which [`Ensemble`] excludes.
    pub fn of(ensemble: &Ensemble) -> Self {
        match ensemble.rule() {
            Rule::Majority => Self::majority_of(ensemble.voters()),
            Rule::Hierarchical(groups) => {
                let mut members: BTreeMap<i64, BTreeMap<ServerId, i64>> = BTreeMap::new();
                for (server, group) in &groups.group_of {
                    members.entry(*group).or_default().insert(*server, ensemble.weight(*server));
                }
                Self::hierarchy_of(members.into_values())
            }
        }
    }

    /// All voters, including those with weight 0.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        self.groups.iter().flat_map(BTreeMap::keys).copied()
    }

    pub fn is_voter(&self, server: ServerId) -> bool {
        self.groups.iter().any(|group| group.contains_key(&server))
    }

    /// 0 for servers that are not voters. A server with weight 0 is never elected.
    pub fn weight(&self, server: ServerId) -> i64 {
        self.groups.iter().find_map(|group| group.get(&server)).copied().unwrap_or(0)
    }

    /// Whether the voters for which `agrees` returns true are a quorum.
    pub fn is_reached(&self, agrees: impl Fn(ServerId) -> bool) -> bool {
        let (mut groups, mut agreeing) = (0, 0);
        for group in self.groups.iter().filter(|group| 0 < weight_of(group)) {
            let agreed: i64 = group.iter().filter(|(server, _)| agrees(**server)).map(|(_, weight)| weight).sum();
            groups += 1;
            agreeing += usize::from(weight_of(group) / 2 < agreed);
        }
        groups / 2 < agreeing
    }

    /// The highest position that a quorum has reached. Positions of other servers are ignored.
    pub fn reached<P: Ord + Copy>(&self, positions: &BTreeMap<ServerId, P>) -> Option<P> {
        let mut candidates: Vec<P> =
            positions.iter().filter(|(server, _)| self.is_voter(**server)).map(|(_, at)| *at).collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.into_iter().find(|at| self.is_reached(|server| positions.get(&server).is_some_and(|own| at <= own)))
    }
}

fn weight_of(group: &BTreeMap<ServerId, i64>) -> i64 {
    group.values().sum()
}

/// The quorums of the committed and of the proposed configuration. While both exist, decisions need both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorums {
    pub committed: Quorum,
    pub proposed: Option<Quorum>,
}

impl Quorums {
    pub fn of(committed: Quorum) -> Self {
        Self { committed, proposed: None }
    }

    fn all(&self) -> impl Iterator<Item = &Quorum> {
        std::iter::once(&self.committed).chain(&self.proposed)
    }

    /// The voters of both configurations.
    pub fn voters(&self) -> BTreeSet<ServerId> {
        self.all().flat_map(Quorum::voters).collect()
    }

    pub fn is_voter(&self, server: ServerId) -> bool {
        self.all().any(|quorum| quorum.is_voter(server))
    }

    /// The larger of the two weights. A server with weight 0 in both is never elected.
    pub fn weight(&self, server: ServerId) -> i64 {
        self.all().map(|quorum| quorum.weight(server)).max().unwrap_or(0)
    }

    /// Whether these servers may elect a leader and accept an epoch: they are a quorum of the committed configuration,
    /// and the other voters of the proposed one are not a quorum of it. Then no transaction can have been committed,
    /// and no older leader can commit one, without one of these servers. Establishing a leader and committing need
    /// quorums of both configurations ([`Self::are_reached`]); these may include voters that were empty and have been
    /// synchronised since.
    pub fn may_elect(&self, has: impl Fn(ServerId) -> bool) -> bool {
        let blocks = |proposed: &Quorum| !proposed.is_reached(|server| !has(server));
        self.committed.is_reached(&has) && self.proposed.as_ref().is_none_or(blocks)
    }

    /// Whether the voters for which `agrees` returns true are a quorum of each configuration.
    pub fn are_reached(&self, agrees: impl Fn(ServerId) -> bool) -> bool {
        self.all().all(|quorum| quorum.is_reached(&agrees))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i64]) -> BTreeMap<ServerId, i64> {
        ids.iter().map(|id| (ServerId(*id), 1)).collect()
    }

    fn check(voters: i64, positions: &[(i64, u32)], expected: Option<u32>) {
        let quorum = Quorum::majority_of((1..=voters).map(ServerId));
        let positions = positions.iter().map(|(server, at)| (ServerId(*server), *at)).collect();
        assert_eq!(quorum.reached(&positions), expected);
    }

    #[test]
    fn majority_reaches_position() {
        check(1, &[(1, 7)], Some(7));
        check(1, &[], None);
        check(3, &[(1, 9), (2, 5)], Some(5));
        check(3, &[(1, 9)], None);
        check(5, &[(1, 9), (2, 7), (3, 8), (4, 1)], Some(7));
        check(4, &[(1, 9), (2, 9)], None);
    }

    #[test]
    fn positions_of_non_voters_are_ignored() {
        check(3, &[(1, 9), (4, 9), (5, 9)], None);
    }

    #[test]
    fn hierarchical_quorum_needs_majority_of_groups_by_weight() {
        let mut quorum = Quorum::hierarchy_of([ids(&[1, 2, 3]), ids(&[4, 5, 6]), ids(&[7, 8, 9])]);
        let has = |quorum: &Quorum, servers: &[i64]| quorum.is_reached(|server| servers.contains(&server.0));
        assert!(has(&quorum, &[1, 2, 4, 5]));
        assert!(!has(&quorum, &[1, 4, 7, 8]));
        assert!(!has(&quorum, &[1, 2, 3, 4, 7]));
        quorum.groups[2].values_mut().for_each(|weight| *weight = 0);
        assert!(has(&quorum, &[1, 2, 4, 5]), "a group without weight does not count");
        assert!(!has(&quorum, &[1, 2, 7, 8, 9]));
        quorum.groups[0].insert(ServerId(1), 3);
        assert!(has(&quorum, &[1, 4, 5]));
        assert_eq!((quorum.weight(ServerId(1)), quorum.weight(ServerId(7)), quorum.weight(ServerId(10))), (3, 0, 0));
    }

    #[test]
    fn two_configurations_need_both_quorums() {
        let majority = |voters: &[i64]| Quorum::majority_of(voters.iter().copied().map(ServerId));
        let quorums = Quorums { committed: majority(&[1, 2, 3]), proposed: Some(majority(&[3, 4, 5])) };
        let has = |servers: &[i64]| quorums.are_reached(|server| servers.contains(&server.0));
        assert!(has(&[1, 3, 4]));
        assert!(!has(&[1, 2, 3]));
        assert!(!has(&[3, 4, 5]));
        assert!(quorums.is_voter(ServerId(5)) && !quorums.is_voter(ServerId(6)));
    }

    #[test]
    fn proposed_configuration_without_quorum_elsewhere_may_elect() {
        let majority = |voters: &[i64]| Quorum::majority_of(voters.iter().copied().map(ServerId));
        let check = |proposed: &[i64], servers: &[i64], expected| {
            let quorums = Quorums { committed: majority(&[1, 2, 3]), proposed: Some(majority(proposed)) };
            assert_eq!(quorums.may_elect(|server| servers.contains(&server.0)), expected, "{proposed:?} {servers:?}");
        };
        check(&[3, 4], &[1, 3], true);
        check(&[3, 4], &[1, 2], false);
        check(&[3, 4], &[3, 4], false);
        check(&[3, 4, 5], &[1, 3], false);
        check(&[3, 4, 5], &[1, 3, 5], true);
        check(&[3, 4, 5, 6], &[1, 2, 3], false);
        check(&[3, 4, 5, 6], &[1, 3, 4], true);
    }
}
