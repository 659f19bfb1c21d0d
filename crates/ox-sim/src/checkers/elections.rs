//! A leader stays until a fault ends its leadership (P71): members that pause or read slowly for less than `syncLimit`,
//! full links and large writes are no reason for an election.

use super::Finding;
use crate::env::Env;
use crate::event::Who;
use crate::faults::Fault;
use crate::outcome::Kind;
use crate::plan::Plan;
use ox_history::Time;

/// How long the longest fault lasts.
const FAULT_US_MAX: i64 = 20_000_000;

/// A fault strikes. Some explain an election, for as long as they last and until the ensemble serves again.
pub(crate) fn on_fault(env: &mut Env, fault: Fault) {
    let is_short = env.plan.freeze_per_cent != 0;
    let is_mild = match fault {
        Fault::SlowRead | Fault::Nap | Fault::Abandon | Fault::Cut | Fault::Clock => true,
        Fault::Freeze => is_short,
        _ => false,
    };
    if !is_mild {
        env.looks.excused_until = Some(Time(env.now.0 + FAULT_US_MAX));
    }
}

/// Whether nothing but faults can make a member late.
fn is_prompt(plan: &Plan) -> bool {
    let is_fast = plan.thread_delay_us <= 100 && plan.net_delay_us <= 2_000 && plan.sync_us <= 5_000;
    is_fast && !plan.is_dynamic() && plan.epoch_txns == 0
}

/// A leader has been established.
pub(crate) fn check(env: &Env, who: Who) -> Result<(), Finding> {
    let is_first = env.leaders.len() <= 1;
    let healing = super::timeliness::healing_us(&env.plan);
    let is_excused = env.looks.excused_until.is_some_and(|until| env.now.0 <= until.0 + healing);
    if is_first || is_excused || !is_prompt(&env.plan) {
        return Ok(());
    }
    Err(Finding::new(Kind::Late, format!("server {} was elected, and nothing had happened to the leader", who.server)))
}
