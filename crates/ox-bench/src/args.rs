//! The command line of `oxkeeper bench`.

use crate::flood::FloodKind;
use crate::job::{Job, MeasuredServer};
use crate::limits::THREADS_MAX;
use crate::load::RunTiming;
use crate::memory::Gauge;
use crate::notify::WatcherKind;
use crate::operation::Workload;
use crate::security::{BenchSecurity, TlsResumption};
use crate::session::BenchTarget;
use crate::tree_layout::TreeLayout;
use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, Subcommand, value_parser};
use ox_client::{ClientProperties, ServerAddress};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Generate load for any ZooKeeper server and measure it
#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Without a command, a single run.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The node below which all nodes are created.
pub const ROOT_DEFAULT: &str = "/oxbench";
const SERVER_DEFAULT: &str = "127.0.0.1:2181";

const EXAMPLES: &str = "\
Examples:
  oxkeeper bench                                          reads, one at a time, from 50 connections
  oxkeeper bench -s 10.0.0.7:2181 -w set                  writes, on another server
  oxkeeper bench -w get=90,set=10 -d 100 --pid 4711       a mix, pipelined, with the server's CPU per operation
  oxkeeper bench -w notify -c 1000                        one node, a thousand watchers (see below)
  oxkeeper bench compare :2181 :2182 -w set --pids 11,12  two servers alternately
  oxkeeper bench fill --keys 1000000 --pid 4711           memory per node
  oxkeeper bench flood --pid 4711 --kinds writes          memory during and after abuse (see below)

A server accepts maxClientCnxns connections from one address, 60 by default. For more, set it to 0 (no limit) in zoo.cfg;
a server that is started with a port and a directory (oxkeeper server 2181 ./oxkeeper-data) has no limit, either.";

/// Other commands than a single run
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure two servers alternately and print medians, spread and ratios
    Compare(CompareArgs),
    /// Create a tree of a given size and leave it in place
    Fill(FillArgs),
    /// Open idle sessions and watches and print their memory cost
    Idle(IdleArgs),
    /// Flood a server with abusive clients and print its memory before, during and after
    Flood(FloodArgs),
    /// Delete the nodes that a run or a fill has left
    Clean(CleanArgs),
}

/// Flags that name the server.
#[derive(Clone, Debug, clap::Args)]
pub struct TargetArgs {
    /// Client port of the server; a run spreads its connections over a list, other commands use the first one.
    /// Default: OXKEEPER_SERVER, the server of the profile, or 127.0.0.1:2181
    #[arg(short, long, value_name = "HOST:PORT,..")]
    pub server: Option<String>,
    /// Server and settings from ~/.config/oxkeeper/cli.conf, as for oxkeeper cli; OXKEEPER_PROFILE is the default
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}

/// The servers and the properties file that a [`TargetArgs`] stands for.
#[derive(Clone, Debug, Default)]
pub struct NamedTarget {
    pub server: Option<String>,
    pub client_configuration: Option<PathBuf>,
}

/// Flags of a run on one server.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Server processes, for CPU seconds per operation and memory
    #[arg(long, value_name = "PID,..", value_delimiter = ',')]
    pub pid: Vec<u32>,
    #[command(flatten)]
    pub job: JobArgs,
}

/// Flags of a comparison of two servers.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// Client port of server A
    #[arg(value_name = "SERVER_A")]
    pub server_a: String,
    /// Client port of server B
    #[arg(value_name = "SERVER_B")]
    pub server_b: String,
    /// Processes of the two servers, for CPU seconds per operation and memory
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Number of rounds on each server
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=999))]
    pub rounds: u32,
    #[command(flatten)]
    pub job: JobArgs,
}

/// Flags that describe a workload.
#[derive(Clone, Debug, clap::Args)]
pub struct JobArgs {
    /// Operations with weights, as get=90,set=10; of get, exists, set, create, delete (each after a create), children,
    /// multi, ping, sync. Or one of: session (open and close), notify (watchers of one node)
    #[arg(short, long, default_value = "get")]
    pub workload: Workload,
    /// Number of connections, each with a session
    #[arg(short, long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=99_999))]
    pub connections: u32,
    /// Requests in flight per connection
    #[arg(short, long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=100_000))]
    pub depth: u32,
    /// Duration of the measurement in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0)]
    pub time: f64,
    /// Seconds of load before the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub warm_up: f64,
    /// Requests per second over all connections; latencies then count from when a request was due
    #[arg(long)]
    pub rate: Option<f64>,
    /// Load threads; one is enough for most servers
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=THREADS_MAX as u64))]
    pub threads: u64,
    /// Number of operations in a multi
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=10_000))]
    pub multi_size: u32,
    /// Kind of watch that notify sets
    #[arg(long, value_enum, default_value_t = WatcherKind::Once)]
    pub watch: WatcherKind,
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Keep the nodes for the next run
    #[arg(long)]
    pub keep: bool,
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags that describe the nodes of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct TreeArgs {
    /// Number of keys to create
    #[arg(short, long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=99_999_999))]
    pub keys: u32,
    /// Number of parents the keys are spread over
    #[arg(short, long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=99_999))]
    pub parents: u32,
    /// Bytes of data of each key
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(0..=1_000_000))]
    pub data: u32,
    /// Node below which all nodes are created
    #[arg(long, value_name = "PATH", default_value = ROOT_DEFAULT)]
    pub root: String,
}

/// Flags of all commands.
#[derive(Clone, Debug, clap::Args)]
pub struct SharedArgs {
    /// Session timeout to request, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub session_timeout: u32,
    /// Properties for TLS and SASL, as zkCli takes them; also read from CLIENT_JVMFLAGS and JVMFLAGS
    #[arg(long, value_name = "FILE")]
    pub client_configuration: Option<PathBuf>,
    /// A property, e.g. -Dzookeeper.client.secure=true
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Do not resume sessions of TLS, so that every connection makes a full handshake
    #[arg(long)]
    pub full_handshakes: bool,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of a fill.
#[derive(Clone, Debug, clap::Args)]
pub struct FillArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
    #[command(flatten)]
    pub tree: TreeArgs,
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// How to read the server's memory.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct MemoryArgs {
    /// Process of the server, for its memory
    #[arg(long)]
    pub pid: Option<u32>,
    /// The process is a JVM: also report its live heap after a full collection (needs jcmd)
    #[arg(long, requires = "pid")]
    pub java_heap: bool,
}

/// Flags of idle sessions and watches.
#[derive(Clone, Debug, clap::Args)]
pub struct IdleArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Number of sessions to open
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..=99_999))]
    pub sessions: u32,
    /// Watches per session, one per key; all sessions watch the same keys
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=99_999_999))]
    pub watches: u32,
    /// Seconds before memory is read
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub hold: f64,
    /// Node below which all nodes are created
    #[arg(long, value_name = "PATH", default_value = ROOT_DEFAULT)]
    pub root: String,
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of a flood.
#[derive(Clone, Debug, clap::Args)]
pub struct FloodArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Process of the server, for its memory
    #[arg(long)]
    pub pid: u32,
    /// Kinds of abuse, at the same time; default: all
    #[arg(long, value_enum, value_delimiter = ',')]
    pub kinds: Vec<FloodKind>,
    /// Number of connections of each kind
    #[arg(short, long, default_value_t = 250, value_parser = value_parser!(u32).range(1..=9_999))]
    pub connections: u32,
    /// Duration of the flood in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 20.0)]
    pub time: f64,
    /// Seconds to wait before memory is read again
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub rest: f64,
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of a clean-up.
#[derive(Clone, Debug, clap::Args)]
pub struct CleanArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Node below which the nodes were created
    #[arg(long, value_name = "PATH", default_value = ROOT_DEFAULT)]
    pub root: String,
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl BenchArgs {
    /// Completes the server by `find`, which knows the environment and the profiles.
    pub fn find_server(&mut self, find: impl FnOnce(&TargetArgs) -> Result<NamedTarget>) -> Result<()> {
        let (target, shared) = match &mut self.command {
            None => (&mut self.run.target, &mut self.run.job.shared),
            Some(BenchCommand::Fill(args)) => (&mut args.target, &mut args.shared),
            Some(BenchCommand::Idle(args)) => (&mut args.target, &mut args.shared),
            Some(BenchCommand::Flood(args)) => (&mut args.target, &mut args.shared),
            Some(BenchCommand::Clean(args)) => (&mut args.target, &mut args.shared),
            Some(BenchCommand::Compare(_)) => return Ok(()),
        };
        let found = find(target)?;
        target.server = found.server;
        shared.client_configuration = shared.client_configuration.take().or(found.client_configuration);
        Ok(())
    }
}

impl TargetArgs {
    /// The servers of a list, by the option or the default.
    pub fn server(&self) -> &str {
        self.server.as_deref().unwrap_or(SERVER_DEFAULT)
    }
}

impl RunArgs {
    /// The servers that the flags name.
    pub fn servers(&self) -> Result<Vec<MeasuredServer>> {
        let is_mix = matches!(self.job.workload, Workload::Mix(_));
        let names: Vec<&str> = self.target.server().split(',').collect();
        ensure!(is_mix || names.len() == 1, "sessions and notifications are measured on one server");
        ensure!(self.pid.len() <= names.len(), "--pid takes a process for each server");
        let pids = self.pid.iter().copied().map(Some).chain(std::iter::repeat(None));
        names.into_iter().zip(pids).map(|(server, pid)| self.job.shared.server(server, pid)).collect()
    }
}

impl CompareArgs {
    /// The servers that the flags name.
    pub fn servers(&self) -> Result<[MeasuredServer; 2]> {
        ensure!(matches!(self.pids.len(), 0 | 2), "--pids takes the two processes, as in --pids 11,12");
        let server = |text: &str, index: usize| self.job.shared.server(text, self.pids.get(index).copied());
        Ok([server(&self.server_a, 0)?, server(&self.server_b, 1)?])
    }
}

impl JobArgs {
    /// The job that the flags describe.
    pub fn job(&self) -> Result<Job> {
        Ok(Job {
            workload: self.workload.clone(),
            layout: self.tree.layout()?,
            multi_size: self.multi_size as usize,
            connections: self.connections as usize,
            depth: self.depth as usize,
            threads: usize::try_from(self.threads)
                .expect("limited by the argument parser")
                .min(self.connections as usize),
            rate: self.rate.map(|rate| positive("--rate", rate)).transpose()?,
            watch_mode: self.watch,
            timing: RunTiming {
                warm_up: seconds("--warm-up", self.warm_up)?,
                duration: seconds("--time", positive("--time", self.time)?)?,
            },
        })
    }
}

impl TreeArgs {
    /// The layout that the flags describe.
    pub fn layout(&self) -> Result<TreeLayout> {
        let root = checked_root(&self.root)?;
        Ok(TreeLayout { root, parents: self.parents.min(self.keys), keys: self.keys, data_bytes: self.data as usize })
    }
}

impl MemoryArgs {
    pub fn gauge(self) -> Gauge {
        if self.java_heap { Gauge::RssAndJavaHeap } else { Gauge::Rss }
    }
}

impl SharedArgs {
    /// The server at `text`; of a list, the first one.
    pub fn server(&self, text: &str, pid: Option<u32>) -> Result<MeasuredServer> {
        let text = text.split(',').next().unwrap_or_default().trim();
        let server = server_address(text)?;
        let address = resolve(&server)?;
        let resumption = if self.full_handshakes { TlsResumption::Off } else { TlsResumption::On };
        let security = BenchSecurity::new(&self.properties()?, &server.host, address, resumption)?;
        let security = security.map(|security| &*Box::leak(Box::new(security)));
        Ok(MeasuredServer { target: BenchTarget { address, session_timeout_ms: self.session_timeout, security }, pid })
    }

    fn properties(&self) -> Result<ClientProperties> {
        let mut properties = ClientProperties::from_variables(|name| std::env::var(name).ok());
        self.define.iter().for_each(|definition| properties.add_flags(&format!("-D{definition}")));
        if let Some(file) = &self.client_configuration {
            properties.add_file(file)?;
        }
        Ok(properties)
    }
}

/// A path that can be created: absolute, not `/`, without a trailing slash.
pub fn checked_root(text: &str) -> Result<String> {
    let named = text.strip_prefix('/').filter(|rest| !rest.is_empty() && !rest.ends_with('/') && !rest.contains("//"));
    named.with_context(|| format!("'{text}' is not a path for the nodes of a run\nhint: --root /oxbench"))?;
    Ok(text.to_owned())
}

fn positive(flag: &str, number: f64) -> Result<f64> {
    Some(number)
        .filter(|number| number.is_finite() && 0.0 < *number)
        .with_context(|| format!("{flag} must be positive"))
}

pub fn seconds(flag: &str, number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number).ok().with_context(|| format!("{flag} {number} is not a number of seconds"))
}

/// Parses `host:port`, by the rule of all tools; without a word, it is the default port of this machine.
fn server_address(text: &str) -> Result<ServerAddress> {
    ensure!(!text.contains('/'), "'{text}' names a chroot\nhint: give host:port, and the node of the run with --root");
    let text = if text.is_empty() { "127.0.0.1" } else { text };
    text.parse().map_err(|error: ox_client::Error| {
        let detail = error.detail().unwrap_or("give the server as host:port");
        anyhow!("'{text}' is not the address of a server\nhint: {detail}")
    })
}

fn resolve(server: &ServerAddress) -> Result<SocketAddr> {
    let hint = || format!("cannot resolve '{server}'\nhint: give the server as host:port");
    (server.host.as_str(), server.port).to_socket_addrs().with_context(hint)?.next().with_context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn argument_parser_is_valid() {
        BenchArgs::command().debug_assert();
    }

    #[test]
    fn flags_have_defaults() {
        let args = BenchArgs::try_parse_from(["bench", "-w", "get=9,set=1", "--time", "0.5"]).unwrap();
        let job = args.run.job.job().unwrap();
        assert_eq!((job.connections, job.depth, job.workload.to_string().as_str()), (50, 1, "get=9,set=1"));
        assert_eq!(job.timing.duration, Duration::from_millis(500));
        assert!(BenchArgs::try_parse_from(["bench", "compare", "a:1", "b:2", "--pids", "1,2"]).is_ok());
        assert!(BenchArgs::try_parse_from(["bench", "compare", "a:1"]).is_err());
        assert!(BenchArgs::try_parse_from(["bench", "-w", "got"]).is_err());
    }

    #[test]
    fn address_parts_have_defaults() {
        for (text, expected) in [
            ("127.0.0.1:5", "127.0.0.1:5"),
            (":5", "127.0.0.1:5"),
            ("127.0.0.2", "127.0.0.2:2181"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(resolve(&server_address(text).unwrap()).unwrap().to_string(), expected, "{text}");
        }
        assert!(server_address("").is_ok());
        let refusal = |text| format!("{:#}", server_address(text).unwrap_err());
        assert!(refusal("a:1/app").contains("hint: give host:port"));
        assert!(refusal("2181").ends_with("hint: did you mean localhost:2181?"));
        assert!(server_address("127.0.0.1:99999").is_err());
    }

    #[test]
    fn invalid_root_is_refused() {
        assert!(checked_root("/a/b").is_ok());
        for bad in ["", "/", "a", "/a/", "/a//b"] {
            assert!(checked_root(bad).is_err(), "{bad}");
        }
    }
}
