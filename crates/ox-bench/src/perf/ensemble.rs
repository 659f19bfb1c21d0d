//! Three servers that form an ensemble, and what their clients notice when the leader is killed.

use crate::job::Server;
use crate::perf::server::{Data, Running, ServerCommand};
use crate::session::{Session, Target};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many servers.
const MEMBERS: u32 = 3;
/// A leader or a write that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may leave the probe without an answer before another one is tried.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// What the probe waits before it tries the next server.
const PROBE_PAUSE: Duration = Duration::from_millis(2);
/// What the probe writes to.
const PROBED: &str = "/oxbench-probe";
/// Writes of the probe before the leader is killed.
const CALM: Duration = Duration::from_millis(500);

/// An ensemble that runs; it ends with this value.
#[derive(Debug)]
pub struct Ensemble {
    commands: Vec<ServerCommand>,
    members: Vec<Option<Running>>,
}

impl Ensemble {
    /// Starts one without data, and waits until all members serve.
    pub fn start(command: &ServerCommand) -> Result<Self> {
        let commands = command.members(MEMBERS)?;
        let launch = |command| Running::launch(command, Data::Fresh).map(Some);
        let members = commands.iter().map(launch).collect::<Result<_>>()?;
        let mut ensemble = Self { commands, members };
        ensemble.members.iter_mut().flatten().try_for_each(Running::wait)?;
        Ok(ensemble)
    }

    /// The members that run, as clients and jobs see them.
    pub fn servers(&self) -> Vec<Server> {
        self.members.iter().flatten().map(Running::server).collect()
    }

    /// How many members it has, running or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Where the members' logs are.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.commands.iter().map(ServerCommand::log).collect()
    }

    /// Kills a member's process.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        self.members[member].take().context("the member runs")?.kill()
    }

    /// Starts a killed member with its data, and waits until it serves.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        self.members[member] = Some(Running::start(&self.commands[member], Data::Kept)?);
        Ok(())
    }

    /// The place of the member that leads.
    pub fn leader(&self) -> Result<usize> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let leads = |member: &Option<Running>| {
                let answer = member.as_ref().and_then(|member| srvr(member.server().target).ok());
                answer.is_some_and(|answer| answer.contains("Mode: leader"))
            };
            if let Some(at) = self.members.iter().position(leads) {
                return Ok(at);
            }
            thread::sleep(PROBE_PAUSE);
        }
        bail!("nobody leads")
    }

    /// Kills the leader while a client writes one value after the other, and starts it again. Returns how long that
    /// client was without an answer.
    pub fn kill_leader(&mut self) -> Result<Duration> {
        let leader = self.leader()?;
        let others: Vec<Target> = (0..self.members.len())
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
        self.members[leader] = Some(Running::start(&self.commands[leader], Data::Kept)?);
        Ok(pause)
    }

    /// Asks all members to end, and waits.
    pub fn stop(self) -> Result<()> {
        self.members.into_iter().flatten().try_for_each(Running::stop)?;
        self.commands.iter().try_for_each(ServerCommand::delete_data)
    }
}

/// Writes until a write has succeeded that was begun after the kill. Returns the longest time between two successes.
fn probe(targets: &[Target], killed: &AtomicBool) -> Result<Duration> {
    let (mut session, mut next) = (None, targets.iter().cycle());
    let (mut last, mut longest) = (None::<Instant>, Duration::ZERO);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
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

fn write<'t>(session: &mut Option<Session>, next: &mut impl Iterator<Item = &'t Target>) -> Result<()> {
    if session.is_none() {
        let target = next.next().context("there are servers")?;
        let mut opened = Session::open_within(*target, PROBE_LIMIT)?;
        opened.create(PROBED, b"")?;
        *session = Some(opened);
    }
    let session = session.as_mut().context("it has been opened")?;
    let code = session.set(PROBED, b"probe")?;
    ensure!(code == 0, "error {code}");
    Ok(())
}

/// Asks a server what it is.
fn srvr(target: Target) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&target.address, PROBE_LIMIT)?;
    stream.set_read_timeout(Some(PROBE_LIMIT))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
