//! A member as the tests of single members want it.

use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    Configs, ElectionSettings, Epoch, Epochs, History, Peer, PeerOptions, PeerSettings, Recovered, ServerId, Standing,
    Timing,
};

pub(crate) const TIMING: Timing = Timing { tick_ms: 100, init_ticks: 10, sync_ticks: 5 };

/// Servers 1 to 3 vote, and stay.
pub(crate) fn three() -> Configs {
    Configs::fixed(Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), []).unwrap())
}

pub(crate) fn settings(server: i64, configs: Configs) -> PeerSettings {
    let (election, options) = (ElectionSettings::default(), PeerOptions::default());
    PeerSettings { server: ServerId(server), configs, timing: TIMING, election, options }
}

/// A member whose history ends here, of which it keeps nothing in memory.
pub(crate) fn member(settings: PeerSettings, last: Zxid, standing: Standing) -> Peer {
    let epochs = Epochs { accepted: Epoch::of(last), current: Epoch::of(last) };
    Peer::new(settings, Recovered { epochs, history: History::new(last, 500, 1 << 20), standing })
}
