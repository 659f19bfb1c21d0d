//! A leadership ends only because of a fault (P71): pauses and slow reads shorter than `syncLimit`, full links and
//! large writes do not cause an election.

use super::Finding;
use crate::env::Env;
use crate::event::ProcessId;
use crate::faults::Fault;
use crate::outcome::FailureKind;
use crate::plan::Plan;
use ox_history::Time;

/// Duration of the longest fault.
const FAULT_US_MAX: i64 = 20_000_000;

/// Records that a fault occurred. Some faults explain an election while they last and until the ensemble serves again.
pub(crate) fn on_fault(env: &mut Env, fault: Fault) {
    let is_short = env.plan.freeze_per_cent != 0;
    let is_mild = match fault {
        Fault::SlowRead | Fault::PauseClient | Fault::Abandon | Fault::Cut | Fault::Clock => true,
        Fault::SlowClient | Fault::Silent => true,
        Fault::Freeze => is_short,
        _ => false,
    };
    if !is_mild {
        env.timeliness.excused_until = Some(Time(env.now.0 + FAULT_US_MAX));
    }
}

/// Whether only faults can delay a member.
fn is_prompt(plan: &Plan) -> bool {
    let is_fast = plan.thread_delay_us <= 100 && plan.net_delay_us <= 2_000 && plan.sync_us <= 5_000;
    is_fast && !plan.is_dynamic() && plan.epoch_txns == 0
}

/// Called when a leader is established.
pub(crate) fn check(env: &Env, pid: ProcessId) -> Result<(), Finding> {
    let is_first = env.leaders.len() <= 1;
    let healing = super::timeliness::healing_us(&env.plan);
    let is_excused = env.timeliness.excused_until.is_some_and(|until| env.now.0 <= until.0 + healing);
    if is_first || is_excused || !is_prompt(&env.plan) {
        return Ok(());
    }
    Err(Finding::new(
        FailureKind::Late,
        format!("server {} was elected without a fault of the previous leader", pid.server),
    ))
}
