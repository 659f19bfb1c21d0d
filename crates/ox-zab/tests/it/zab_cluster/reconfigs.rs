//! Reconfigurations of the cluster.

use super::{Disk, Server, ZabCluster, ensemble, record_of};
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{ConfigPair, EncodedTxn, Epoch, ServerId};
use std::sync::Arc;

impl ZabCluster {
    /// A random configuration: each server is a voter, an observer or not a member.
    pub(super) fn random_members(&mut self) -> String {
        let (mut voters, mut observers) = (Vec::new(), Vec::new());
        for id in self.server_ids() {
            match self.rng.below(5) {
                0 => observers.push(id),
                1 => (),
                _ => voters.push(id),
            }
        }
        let voters = if voters.is_empty() { vec![1] } else { voters };
        observers.retain(|id| !voters.contains(id));
        let text = ensemble(0, voters.into_iter(), observers.into_iter()).to_string();
        text.replace("\nversion=0", "")
    }

    /// Adds a server without data that was never started and is to join the voters.
    pub(crate) fn add_joiner(&mut self, id: i64) {
        let voters = self.server_ids().into_iter().chain([id]);
        let disk = Disk { config: ensemble(0, voters, [].into_iter()), ..self.servers[&ServerId(1)].disk.clone() };
        self.servers.insert(ServerId(id), Server { disk, is_low: false, process: None, boot: 0 });
        self.wipe(id);
    }

    /// While these servers are down, a configuration with these voters is appended to their logs.
    pub(crate) fn log_proposed(&mut self, servers: &[i64], voters: &[i64]) {
        let last = |id: &i64| self.servers[&ServerId(*id)].disk.log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        let zxid = Zxid(servers.iter().map(last).max().unwrap().0 + 1);
        let config = ensemble(zxid.0, voters.iter().copied(), [].into_iter());
        for id in servers {
            assert_eq!(Zxid(zxid.0 - 1), last(id), "their logs are equal");
        }
        for id in servers {
            let disk = &mut self.servers.get_mut(&ServerId(*id)).unwrap().disk;
            disk.log.push(EncodedTxn { zxid, record: record_of(&config, zxid) });
        }
    }

    /// While a server is down, its accepted epoch is raised above any leader's.
    pub(crate) fn accept_later_epoch(&mut self, id: i64, jump: i64) {
        let epochs = &mut self.servers.get_mut(&ServerId(id)).unwrap().disk.epochs;
        epochs.accepted = Epoch(epochs.accepted.0 + jump);
    }

    /// Checks that a version identifies one configuration.
    pub(super) fn note_config(&mut self, config: &Arc<Ensemble>) {
        let known = self.configs.entry(config.version()).or_insert_with(|| Arc::clone(config));
        assert_eq!(known, config, "two configurations of one version");
    }

    /// The configuration that all servers have; none if they differ.
    pub(crate) fn config(&self) -> Option<Arc<Ensemble>> {
        let mut all = self.servers.values().map(|server| server.process.as_ref().map(|process| process.peer.configs()));
        let first = all.next()??;
        let same = |configs: Option<&ConfigPair>| {
            configs.is_some_and(|configs| configs.proposed().is_none() && configs.committed() == first.committed())
        };
        (first.proposed().is_none() && all.all(same)).then(|| Arc::clone(first.committed()))
    }
}
