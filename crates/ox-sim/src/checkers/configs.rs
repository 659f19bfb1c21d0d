//! A version identifies one configuration (K102, K104), and all servers end with the same committed configuration.

use super::Finding;
use crate::env::Env;
use crate::outcome::FailureKind;
use crate::server::Server;
use ox_proto::ensemble::Ensemble;
use std::sync::Arc;

/// Called when a server puts a configuration into use.
pub(crate) fn check(env: &mut Env, ensemble: &Arc<Ensemble>) -> Result<(), Finding> {
    let known = env.configs.entry(ensemble.version()).or_insert_with(|| Arc::clone(ensemble));
    if known == ensemble {
        return Ok(());
    }
    Err(Finding::new(FailureKind::Forked, format!("two configurations of one version: {known} and {ensemble}")))
}

/// Called when all servers are idle.
pub(crate) fn check_rest(servers: &[Server]) -> Result<(), Finding> {
    let mut first = None;
    for (number, process) in servers.iter().enumerate().filter_map(|(at, server)| Some((at, server.process.as_ref()?)))
    {
        let Some(active) = &process.member.ensemble else { return Ok(()) };
        let fail = |what: String| Err(Finding::new(FailureKind::Unequal, format!("server {number}: {what}")));
        if process.status().peer().is_some_and(|peer| peer.configs().proposed().is_some()) {
            return fail("a configuration is still proposed".to_owned());
        }
        if process.state.config() != Some(active.to_string().as_bytes()) {
            let shown = process.state.config().map(String::from_utf8_lossy);
            return fail(format!("{active} is active, clients see {shown:?}"));
        }
        if first.get_or_insert(active) != &active {
            return fail(format!("{active} is active, {} on other servers", first.unwrap_or(active)));
        }
    }
    Ok(())
}
