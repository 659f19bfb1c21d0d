//! Pauses of writers while members of an ensemble are killed and restarted one after another, with the milestones in
//! the members' logs.
//!
//! Every client writes one value after another and resumes its session elsewhere when its connection breaks. A pause is
//! the time between two successful writes of one client.

use super::ensemble;
use super::server::{MeasuredProgram, target};
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use ox_bench::session::{BenchTarget, Session, SessionCredentials};
use ox_testkit::{Program, TestEnsemble};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time without faults before each measurement.
const CALM: Duration = Duration::from_millis(400);
/// Measured time after a kill, and after a restarted member serves again.
const WATCHED: Duration = Duration::from_millis(1500);
/// Time limit of a reply before the client connects elsewhere.
const REPLY_LIMIT: Duration = Duration::from_secs(5);
/// Pause of a client between two attempts to connect: short, but long enough not to load the machine.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Flags of `cargo xtask failover`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of the program `oxkeeper`.
    binary: PathBuf,
    /// Number of kills, of followers and leaders in turn.
    #[arg(default_value_t = 50)]
    kills: usize,
    /// Number of clients that write.
    #[arg(default_value_t = 60)]
    connections: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("oxkeeper-failover-").tempdir()?;
    // With the milestones that `LogMilestone` shows.
    let binary = std::path::absolute(&args.binary)?;
    let argv = [&*binary.to_string_lossy(), "server", "{config}"];
    let program = MeasuredProgram::new(Program::new("Oxkeeper", &argv), dir.path().join("servers"));
    let show = |round: &Round| {
        let Round { victim, calm_ms, survivors_ms, victims_ms, total_ms, restart_ms, parts } = round;
        println!(
            "{victim:?}: calm {calm_ms:.0} ms, survivors' clients {survivors_ms:.0} ms, victim's clients {victims_ms:.0} ms, \
             no write at all {total_ms:.0} ms, restart {restart_ms:.0} ms"
        );
        parts.iter().for_each(|part| println!("  {:8.1} {}", part.at_ms, part.text));
    };
    let rounds = measure(&program, args.kills, args.connections, show)?;
    for victim in [Victim::Follower, Victim::Leader] {
        let of = || rounds.iter().filter(|round| round.victim == victim);
        for (what, results) in [
            ("before it", of().map(|round| round.calm_ms).collect::<Vec<_>>()),
            ("survivors' clients", of().map(|round| round.survivors_ms).collect()),
            ("victim's clients", of().map(|round| round.victims_ms).collect()),
            ("no write at all", of().map(|round| round.total_ms).collect()),
            ("restart", of().map(|round| round.restart_ms).collect()),
        ] {
            let (max, median) = max_and_median(results.into_iter())?;
            println!("{victim:?} killed {}x, {what}: max {max:.0} ms, median {median:.0} ms", of().count());
        }
    }
    Ok(())
}

/// Role of the member to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Leader,
    Follower,
}

/// The longest pauses of one kill and the following restart, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) victim: Victim,
    /// Of any client, in the same time without a kill: the noise of the machine.
    pub(crate) calm_ms: f64,
    /// Of any client of the other members, from the kill to the restart.
    pub(crate) survivors_ms: f64,
    /// Of any client of the killed member.
    pub(crate) victims_ms: f64,
    /// Time without a successful write of any client.
    pub(crate) total_ms: f64,
    /// Of any client, from the restart until shortly after the member serves again.
    pub(crate) restart_ms: f64,
    /// Milestones in the members' logs after the kill.
    pub(crate) parts: Vec<LogMilestone>,
}

/// A line of a member's log.
#[derive(Clone, Debug)]
pub(crate) struct LogMilestone {
    /// Milliseconds after the kill.
    pub(crate) at_ms: f64,
    /// Index of the member, and the beginning of the line.
    pub(crate) text: String,
}

struct Client {
    home: usize,
    /// The member it is connected to.
    at: AtomicUsize,
    /// When its writes succeeded.
    successes: Mutex<Vec<Instant>>,
    reconnect_home: AtomicBool,
}

/// Kills a follower, the leader, a follower and so on, `kills` times, under the load of `connections` clients.
pub(crate) fn measure(
    program: &MeasuredProgram,
    kills: usize,
    connections: usize,
    each: impl Fn(&Round),
) -> Result<Vec<Round>> {
    let mut ensemble = ensemble::start(program)?;
    let targets: Vec<BenchTarget> = ensemble.addresses.iter().map(|address| target(*address)).collect();
    let mut session = Session::open(targets[0])?;
    let client = |index: usize| Client {
        home: index % targets.len(),
        at: AtomicUsize::new(index % targets.len()),
        successes: Mutex::default(),
        reconnect_home: AtomicBool::new(false),
    };
    let clients: Vec<Client> = (0..connections).map(client).collect();
    for index in 0..connections {
        session.create(&path(index), b"")?;
    }
    let is_over = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        for (index, client) in clients.iter().enumerate() {
            let (targets, is_over) = (&targets, &is_over);
            scope.spawn(move || client.run(&path(index), targets, is_over));
        }
        let rounds = (0..kills).map(|kill| {
            let victim = if kill % 2 == 0 { Victim::Follower } else { Victim::Leader };
            let round = one_kill(&mut ensemble, victim, &clients)?;
            each(&round);
            Ok(round)
        });
        let rounds = rounds.collect::<Result<Vec<_>>>();
        is_over.store(true, Ordering::Release);
        rounds
    });
    ensemble::stop(ensemble)?;
    rounds
}

fn path(client: usize) -> String {
    format!("/oxbench-failover-{client}")
}

fn one_kill(ensemble: &mut TestEnsemble, victim: Victim, clients: &[Client]) -> Result<Round> {
    for client in clients {
        client.reconnect_home.store(client.at.load(Ordering::Acquire) != client.home, Ordering::Release);
    }
    let begin = Instant::now();
    while clients.iter().any(|client| client.at.load(Ordering::Acquire) != client.home) {
        ensure!(begin.elapsed() < REPLY_LIMIT * 4, "clients did not reconnect to their members in time");
        thread::sleep(CONNECT_PAUSE);
    }
    thread::sleep(CALM);
    let leader = ensemble.leader();
    let killed = if victim == Victim::Leader { leader } else { (leader + 1) % ensemble.len() };
    clients.iter().for_each(|client| client.forget());
    let calm_at = Instant::now();
    thread::sleep(WATCHED);
    let longest = |from, to| clients.iter().map(|client| client.longest_gap(from, to)).max().unwrap_or_default();
    let calm = longest(calm_at, Instant::now());
    let (killed_at, killed_wall) = (Instant::now(), Timestamp::now());
    ensemble.kill(killed);
    thread::sleep(WATCHED);
    let restarted_at = Instant::now();
    let gaps = |group: fn(usize, usize) -> bool| {
        let of = clients.iter().filter(|client| group(client.home, killed));
        of.map(|client| client.longest_gap(killed_at, restarted_at)).max().unwrap_or_default()
    };
    let (survivors, victims) = (gaps(|home, killed| home != killed), gaps(|home, killed| home == killed));
    let total = longest_gap(clients.iter().flat_map(Client::times).collect(), killed_at, restarted_at);
    let others = (0..ensemble.len()).filter(|member| *member != killed);
    let logs = others.map(|member| (member, ensemble.servers[member].log()));
    let mut parts: Vec<LogMilestone> = logs.flat_map(|(member, log)| milestones(member, &log, killed_wall)).collect();
    parts.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    ensemble.restart(killed);
    thread::sleep(WATCHED);
    let restart = longest(restarted_at, Instant::now());
    let ms = |gap: Duration| gap.as_secs_f64() * 1e3;
    Ok(Round {
        victim,
        calm_ms: ms(calm),
        survivors_ms: ms(survivors),
        victims_ms: ms(victims),
        total_ms: ms(total),
        restart_ms: ms(restart),
        parts,
    })
}

impl Client {
    fn run(&self, path: &str, targets: &[BenchTarget], is_over: &AtomicBool) {
        let (mut resumable, mut session, mut next) = (None::<SessionCredentials>, None::<Session>, self.home);
        while !is_over.load(Ordering::Acquire) {
            if self.reconnect_home.swap(false, Ordering::AcqRel) && next != self.home {
                (session, next) = (None, self.home);
            }
            let wrote = match &mut session {
                Some(session) => session.set(path, b"value"),
                None => match Session::resume(targets[next], REPLY_LIMIT, resumable) {
                    Ok((opened, granted)) => {
                        resumable = Some(granted);
                        session = Some(opened);
                        self.at.store(next, Ordering::Release);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            if matches!(wrote, Ok(0)) {
                self.successes.lock().expect("no client panics").push(Instant::now());
            } else {
                (session, next) = (None, (next + 1) % targets.len());
                thread::sleep(CONNECT_PAUSE);
            }
        }
    }

    fn forget(&self) {
        self.successes.lock().expect("no client panics").clear();
    }

    fn times(&self) -> Vec<Instant> {
        self.successes.lock().expect("no client panics").clone()
    }

    fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        longest_gap(self.times(), from, to)
    }
}

/// The longest time without a success that overlaps the window from `from` to `to`.
fn longest_gap(mut times: Vec<Instant>, from: Instant, to: Instant) -> Duration {
    times.sort_unstable();
    times.push(to.max(times.last().copied().unwrap_or(to)));
    let gaps = times.windows(2).filter(|gap| from < gap[1] && gap[0] < to);
    gaps.map(|gap| gap[1] - gap[0]).max().unwrap_or(to - from)
}

/// Lines of a log from a moment on.
fn milestones(member: usize, log: &str, from: Timestamp) -> Vec<LogMilestone> {
    let part = |line: &str| {
        let (time, rest) = line.split_once(' ')?;
        let at_ms = time.parse::<Timestamp>().ok()?.duration_since(from).as_secs_f64() * 1e3;
        (0.0 <= at_ms).then(|| LogMilestone { at_ms, text: format!("{} {}", member + 1, rest.trim()) })
    };
    log.lines().filter_map(part).collect()
}

/// The maximum and the median.
pub(crate) fn max_and_median(results: impl Iterator<Item = f64>) -> Result<(f64, f64)> {
    let mut results: Vec<f64> = results.collect();
    results.sort_by(f64::total_cmp);
    let last = results.last().copied().context("nothing was measured")?;
    Ok((last, results[results.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_gap_of_a_window_includes_its_borders() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let times = vec![at(0), at(90), at(130), at(400)];
        assert_eq!(longest_gap(times.clone(), at(100), at(120)), Duration::from_millis(40), "gap around the window");
        assert_eq!(longest_gap(times.clone(), at(100), at(200)), Duration::from_millis(270));
        assert_eq!(longest_gap(times, at(410), at(450)), Duration::from_millis(50), "gap up to the end of the window");
        assert_eq!(longest_gap(vec![], at(0), at(7)), Duration::from_millis(7));
    }

    #[test]
    fn milestones_are_the_log_lines_after_a_moment() {
        let log = "2026-01-02T23:59:59.000000Z early\n2026-01-03T00:00:00.500000Z  INFO leading\nhint: none\n";
        let found = milestones(0, log, "2026-01-02T23:59:59.5Z".parse().unwrap());
        let found: Vec<_> = found.iter().map(|milestone| (milestone.at_ms, milestone.text.as_str())).collect();
        assert_eq!(found, [(1000.0, "1 INFO leading")]);
    }
}
