//! An ensemble of three servers, and the pause of writes when its leader is killed.

use crate::job::MeasuredServer;
use crate::perf::server::{Running, ServerCommand, StartData};
use crate::session::{BenchTarget, Session};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEMBERS: u32 = 3;
/// Time limit for a leader election or a successful write.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a reply before the probe tries another server.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// Pause before the probe tries the next server.
const PROBE_PAUSE: Duration = Duration::from_millis(2);
/// Node that the probe writes.
const PROBED: &str = "/oxbench-probe";
/// Writes of the probe before the leader is killed.
const CALM: Duration = Duration::from_millis(500);

/// A running ensemble; dropping it stops the members.
#[derive(Debug)]
pub struct TestEnsemble {
    commands: Vec<ServerCommand>,
    members: Vec<Option<Running>>,
}

impl TestEnsemble {
    /// Starts an ensemble without data and waits until all members serve.
    pub fn start(command: &ServerCommand) -> Result<Self> {
        let commands = command.members(MEMBERS)?;
        let launch = |command| Running::launch(command, StartData::Fresh).map(Some);
        let members = commands.iter().map(launch).collect::<Result<_>>()?;
        let mut ensemble = Self { commands, members };
        ensemble.members.iter_mut().flatten().try_for_each(Running::wait)?;
        Ok(ensemble)
    }

    /// The running members, as clients and jobs use them.
    pub fn servers(&self) -> Vec<MeasuredServer> {
        self.members.iter().flatten().map(Running::server).collect()
    }

    /// Number of members, running or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Log files of the members.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.commands.iter().map(ServerCommand::log).collect()
    }

    pub fn kill(&mut self, member: usize) -> Result<()> {
        self.members[member].take().context("the member runs")?.kill()
    }

    /// Starts a killed member with its data and waits until it serves.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        self.members[member] = Some(Running::start(&self.commands[member], StartData::Kept)?);
        Ok(())
    }

    /// Index of the leader.
    pub fn leader(&self) -> Result<usize> {
        let begin = Instant::now();
        while begin.elapsed() < WAIT_LIMIT {
            let leads = |member: &Option<Running>| {
                let reply = member.as_ref().and_then(|member| srvr(member.server().target).ok());
                reply.is_some_and(|reply| reply.contains("Mode: leader"))
            };
            if let Some(at) = self.members.iter().position(leads) {
                return Ok(at);
            }
            thread::sleep(PROBE_PAUSE);
        }
        bail!("no member is the leader")
    }

    /// Kills the leader while a client writes one value after another, and restarts it. Returns the longest time
    /// between two successful writes.
    pub fn kill_leader(&mut self) -> Result<Duration> {
        let leader = self.leader()?;
        let others: Vec<BenchTarget> = (0..self.members.len())
            .filter(|at| *at != leader)
            .filter_map(|at| Some(self.members[at].as_ref()?.server().target))
            .collect();
        let victim = self.members[leader].take().context("the leader runs")?;
        let killed = AtomicBool::new(false);
        let pause = thread::scope(|scope| {
            let probe = scope.spawn(|| probe(&others, &killed));
            thread::sleep(CALM);
            let ended = victim.kill();
            killed.store(true, Ordering::Release);
            ended?;
            probe.join().expect("the probe does not panic")
        })?;
        self.members[leader] = Some(Running::start(&self.commands[leader], StartData::Kept)?);
        Ok(pause)
    }

    /// Sends all members SIGTERM and waits.
    pub fn stop(self) -> Result<()> {
        self.members.into_iter().flatten().try_for_each(Running::stop)?;
        self.commands.iter().try_for_each(ServerCommand::delete_data)
    }
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

/// Sends the srvr command.
fn srvr(target: BenchTarget) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&target.address, PROBE_LIMIT)?;
    stream.set_read_timeout(Some(PROBE_LIMIT))?;
    stream.write_all(b"srvr")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}
