//! An ensemble of three servers, and the pause of writes when its leader is killed.

use super::server::{MeasuredProgram, target};
use anyhow::{Context, Result, bail, ensure};
use ox_bench::job::MeasuredServer;
use ox_bench::session::{BenchTarget, Session};
use ox_testkit::{MemberRole, TestEnsemble};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;
const SETTINGS: &str = "tickTime=2000\ninitLimit=10\nsyncLimit=5\n";
/// Time limit for a successful write.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a reply before the probe tries another server.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// Pause before the probe tries the next server.
const PROBE_PAUSE: Duration = Duration::from_millis(2);
/// Node that the probe writes.
const PROBED: &str = "/oxbench-probe";
/// Writes of the probe before the leader is killed.
const CALM: Duration = Duration::from_millis(500);

/// Starts an ensemble without data and waits until all members serve.
pub(crate) fn start(program: &MeasuredProgram) -> Result<TestEnsemble> {
    program.delete_data()?;
    let members = vec![(program.program.clone(), MemberRole::Participant); MEMBERS];
    Ok(TestEnsemble::new(&program.dir, members, SETTINGS, &[]).start())
}

/// The running members, as clients and jobs use them.
pub(crate) fn servers(ensemble: &TestEnsemble) -> Vec<MeasuredServer> {
    let server =
        |at: usize| MeasuredServer { target: target(ensemble.addresses[at]), pid: Some(ensemble.process(at).id()) };
    (0..ensemble.len()).map(server).collect()
}

/// Kills the leader while a client writes one value after another, and restarts it. Returns the longest time between
/// two successful writes.
pub(crate) fn kill_leader(ensemble: &mut TestEnsemble) -> Result<Duration> {
    let leader = ensemble.leader();
    let others = (0..ensemble.len()).filter(|at| *at != leader);
    let others: Vec<BenchTarget> = others.map(|at| target(ensemble.addresses[at])).collect();
    let killed = AtomicBool::new(false);
    let pause = thread::scope(|scope| {
        let probe = scope.spawn(|| probe(&others, &killed));
        thread::sleep(CALM);
        ensemble.kill(leader);
        killed.store(true, Ordering::Release);
        probe.join().expect("the probe does not panic")
    })?;
    ensemble.restart(leader);
    Ok(pause)
}

/// Sends all members SIGTERM and waits.
pub(crate) fn stop(mut ensemble: TestEnsemble) -> Result<()> {
    ensemble.servers.iter_mut().try_for_each(ox_testkit::ServerUnderTest::terminate)
}

/// Writes until a write succeeds that was started after the kill. Returns the longest time between two successes.
fn probe(targets: &[BenchTarget], killed: &AtomicBool) -> Result<Duration> {
    let (mut session, mut next) = (None, targets.iter().cycle());
    let (mut last, mut longest) = (None::<Instant>, Duration::ZERO);
    let begin = Instant::now();
    while begin.elapsed() < WAIT_LIMIT {
        let is_after = killed.load(Ordering::Acquire);
        let wrote = write(&mut session, &mut next);
        if wrote.is_err() {
            session = None;
            thread::sleep(PROBE_PAUSE);
            continue;
        }
        let now = Instant::now();
        longest = last.map_or(longest, |last| longest.max(now - last));
        last = Some(now);
        if is_after {
            return Ok(longest);
        }
    }
    bail!("no write succeeds after the leader was killed")
}

fn write<'t>(session: &mut Option<Session>, next: &mut impl Iterator<Item = &'t BenchTarget>) -> Result<()> {
    if session.is_none() {
        let target = next.next().context("an ensemble has members")?;
        let mut opened = Session::open_within(*target, PROBE_LIMIT)?;
        opened.create(PROBED, b"")?;
        *session = Some(opened);
    }
    let session = session.as_mut().context("the session was opened above")?;
    let code = session.set(PROBED, b"probe")?;
    ensure!(code == 0, "error {code}");
    Ok(())
}
