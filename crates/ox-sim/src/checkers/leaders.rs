//! One established leader per epoch (P1), whose history contains everything of earlier epochs that was ever shown (P9,
//! P10), and is durable.

use super::Finding;
use crate::env::Env;
use crate::event::Who;
use crate::outcome::Kind;
use crate::server::Track;
use ox_zab::Epoch;

pub(crate) fn check(env: &mut Env, track: &Track, who: Who, epoch: Epoch) -> Result<(), Finding> {
    if let Some(other) = env.leaders.insert(epoch.0, who) {
        return Err(Finding::new(Kind::TwoLeaders, format!("{other:?} and {who:?} lead epoch {epoch}")));
    }
    // Established late, it may find that a later leader has gone on; it will agree on nothing with anybody.
    let shown = env.journal.cut(env.journal.shown, epoch.start());
    if !env.journal.contains(track.last, shown) {
        let detail = format!("the leader of epoch {epoch} has a history up to {}, without {shown}", track.last);
        return Err(Finding::new(Kind::LeaderIncomplete, detail));
    }
    if track.synced < track.last {
        let detail = format!("the leader of epoch {epoch} begins with {}, its disk has {}", track.last, track.synced);
        return Err(Finding::new(Kind::ClaimNotDurable, detail));
    }
    Ok(())
}
