//! Which members the realm has, and what becomes of that.

use super::{Realm, ensemble};
use ox_proto::ensemble::Ensemble;
use ox_zab::Configs;
use std::sync::Arc;

impl Realm {
    /// Members that somebody might want, each in any role or in none.
    pub(super) fn some_members(&mut self) -> String {
        let (mut voters, mut observers) = (Vec::new(), Vec::new());
        for id in self.everybody() {
            match self.dice.below(5) {
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

    /// A version is one configuration.
    pub(super) fn hear_of(&mut self, config: &Arc<Ensemble>) {
        let known = self.configs.entry(config.version()).or_insert_with(|| Arc::clone(config));
        assert_eq!(known, config, "two configurations of one version");
    }

    /// The configuration that everybody has; none if they differ.
    pub(crate) fn config(&self) -> Option<Arc<Ensemble>> {
        let mut all = self.servers.values().map(|server| server.process.as_ref().map(|process| process.peer.configs()));
        let first = all.next()??;
        let same = |configs: Option<&Configs>| {
            configs.is_some_and(|configs| configs.pending().is_none() && configs.committed() == first.committed())
        };
        (first.pending().is_none() && all.all(same)).then(|| Arc::clone(first.committed()))
    }
}
