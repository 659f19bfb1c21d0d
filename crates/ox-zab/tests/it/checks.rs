//! What must hold in every random run: one served history, one leader per epoch, one configuration per version, and
//! nothing is acknowledged before it is durable.

use crate::stepped_ensemble::{Server, last};
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{DiskJob, Effect, EncodedTxn, Epoch, Message, Reason, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Checks {
    /// The history that any server has served; no server may disagree.
    pub(crate) served: Vec<EncodedTxn>,
    /// Length of the prefix of each server's state that was compared with the served history.
    checked: BTreeMap<ServerId, usize>,
    leaders: BTreeMap<Epoch, ServerId>,
    /// Every configuration that was ever proposed, by version.
    configs: BTreeMap<i64, Arc<Ensemble>>,
    /// How often rare events have happened.
    pub(crate) coverage: BTreeMap<&'static str, usize>,
}

impl Checks {
    fn cover(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    /// A version identifies one configuration.
    fn on_config(&mut self, config: &Arc<Ensemble>) {
        let known = self.configs.entry(config.version()).or_insert_with(|| Arc::clone(config));
        assert_eq!(known, config, "two configurations of one version");
    }

    /// Called before an effect is executed.
    pub(crate) fn on_effect(&mut self, id: ServerId, server: &Server, effect: &Effect) {
        match effect {
            Effect::Send(_, Message::Ack(zxid)) if zxid.counter() == 0 => {
                assert_eq!(server.epochs.current, Epoch::of(*zxid), "acknowledged before it was durable");
            }
            Effect::Send(_, Message::Ack(zxid)) => assert_durable(server, *zxid),
            Effect::Send(_, Message::Acks(run)) => assert_durable(server, run.last),
            Effect::Send(_, Message::AckEpoch { last: reported, current: Some(current) }) => {
                assert_eq!((*reported, *current), (last(&server.log), server.epochs.current));
            }
            Effect::SendSnapshot(_) => self.cover("snapshots"),
            Effect::ReadLog(_, range) if range.continues => self.cover("continued from disk"),
            Effect::SendLogDiff(_) => self.cover("log diffs"),
            Effect::Disk(DiskJob::Install(_)) => drop(self.checked.remove(&id)),
            Effect::Disk(DiskJob::Truncate(_)) => {
                self.checked.remove(&id);
                self.cover("truncations");
            }
            Effect::Append(txn) => {
                let process = server.process.as_ref().expect("it runs");
                assert!(txn.zxid.follows(last(&process.logged)), "server {id}: gap before {}", txn.zxid);
            }
            Effect::Established(epoch) => {
                self.cover("established");
                assert_eq!(self.leaders.insert(*epoch, id), None, "two leaders of epoch {epoch}");
            }
            Effect::UpToDate(_) => self.cover("joined"),
            Effect::ServeObservers => self.cover("observer masters"),
            Effect::StepDown(reason) => {
                self.checked.remove(&id);
                match reason {
                    Reason::HandedOver(_) => self.cover("handed over"),
                    Reason::DiskLow => self.cover("stepped down for low disk"),
                    _ => (),
                }
            }
            Effect::ConfigProposed(config) => self.on_config(config),
            Effect::ActivateConfig(config, _) => {
                self.on_config(config);
                self.cover(if Zxid(config.version()).counter() == 0 { "numbered" } else { "changed" });
            }
            _ => (),
        }
    }

    /// A server that serves clients agrees with everything that was ever served.
    pub(crate) fn on_state(&mut self, id: ServerId, server: &Server) {
        let Some(process) = server.process.as_ref().filter(|process| process.is_serving) else {
            self.checked.remove(&id);
            return;
        };
        let (state, checked) = (process.state(), self.checked.entry(id).or_default());
        let common = state.len().min(self.served.len());
        let from = common.min(*checked);
        assert_eq!(state[from..common], self.served[from..common], "server {id} after {from} transactions");
        *checked = state.len();
        let leads = process.peer.role().leader().filter(|leader| leader.is_established() && !leader.is_handing_over());
        assert!(leads.is_none() || self.served.len() <= process.logged.len(), "leader {id} lacks history");
        self.served.extend_from_slice(&state[common..]);
    }
}

fn assert_durable(server: &Server, zxid: Zxid) {
    assert!(zxid <= last(&server.log), "acknowledged before it was durable");
}
