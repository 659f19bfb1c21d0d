//! `oxkeeper ensemble`: a local ensemble for development, one process per server.

mod ready_report;

use super::tls::init::{CLIENT_PROPERTIES, DevelopmentFiles, LOCAL_NAMES};
use crate::port_owner;
use anyhow::{Context, Result, bail, ensure};
use ready_report::RoleReports;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long servers may take to stop before they are killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Delay before a killed server is restarted: the others notice and elect without it.
const KILLED_PAUSE: Duration = Duration::from_secs(5);
/// Lines of the log that are shown when a server fails.
const LAST_LINES: usize = 5;
/// Validity of the certificates.
const CERTIFICATE_DAYS: u32 = 365;
/// Interval of the check whether a server has ended.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The servers listen on 127.0.0.1. Configurations, data and logs are in DIR/<number>; the next start uses them again.
With --tls, DIR/tls/client.properties has the settings of clients: oxkeeper cli --client-configuration FILE.
A server that is killed (kill -9) is restarted after five seconds. If a server ends in another way, also by kill without -9, all
servers are stopped. Ctrl-C stops all servers; they also stop if this program is killed.")]
pub(crate) struct Args {
    /// Number of voting servers, 2 to 9
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=9))]
    servers: u16,
    /// Number of additional observers, at most 9
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=9))]
    observers: u16,
    /// Directory of all configurations, data and logs
    #[arg(long, value_name = "DIR", default_value = "oxkeeper-ensemble")]
    dir: PathBuf,
    /// Client port of the first server, e.g. 2181; the others have the next ports. Quorum ports are 100 above,
    /// election ports 200. Default: free ports
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    base_port: Option<u16>,
    /// Clients and servers connect by TLS only, with certificates of a development CA that is made in DIR/tls
    #[arg(long)]
    tls: bool,
}

/// Runs the servers until a signal arrives or one of them fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT]);
    let mut signals = signals.context("cannot listen for signals")?;
    let homes = prepare(args)?;
    let mut servers = Servers(Vec::new());
    for home in &homes {
        servers.0.push(start(home)?);
    }
    let client_configuration = args.tls.then(|| tls_dir(args).join(CLIENT_PROPERTIES));
    let report = RoleReports::start(&homes, &servers.pids(), args.observers, client_configuration, started)?;
    let mut again: Vec<Option<Instant>> = vec![None; homes.len()];
    loop {
        // Ctrl-C reaches the servers too: a server that ended is only a failure without a signal.
        let ended = servers.ended(&again);
        if signals.pending().next().is_some() {
            servers.end()?;
            writeln!(std::io::stdout(), "stopped")?;
            return Ok(());
        }
        if let Some((at, status)) = ended {
            // A server that was killed by a signal is restarted: its user wants to see how the others react.
            let Some(signal) = status.signal() else {
                servers.end()?;
                ensure!(
                    !status.success(),
                    "server {} was stopped, and with it all others\nhint: only a server that is killed (kill -9) is restarted",
                    at + 1
                );
                bail!("server {} failed ({status}), and all servers were stopped\n{}", at + 1, last_words(&homes[at]));
            };
            let text = format!("server {} was killed by signal {signal}; restarting it in five seconds", at + 1);
            writeln!(std::io::stdout(), "{text}")?;
            again[at] = Some(Instant::now() + KILLED_PAUSE);
            let voters = usize::from(args.servers);
            let running = again.iter().take(voters).filter(|due| due.is_none()).count();
            if voters / 2 < running {
                report.after_kill(at);
            } else if at < voters {
                let quorum = voters / 2 + 1;
                writeln!(std::io::stdout(), "no quorum: {running} of {voters} voters run, and writes need {quorum}")?;
            }
        }
        report.print()?;
        for at in 0..homes.len() {
            if again[at].take_if(|due| *due <= Instant::now()).is_some() {
                servers.0[at] = start(&homes[at])?;
                writeln!(std::io::stdout(), "server {} was restarted, pid {}", at + 1, servers.0[at].id())?;
                report.after_restart(at);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The last lines of a server's log, which contain the cause.
fn last_words(home: &Path) -> String {
    let log = home.join("server.log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| format!("  {line}\n"));
    format!("{}from {}", last.collect::<String>(), log.display())
}

/// Writes missing configurations, and returns the directory of each server.
fn prepare(args: &Args) -> Result<Vec<PathBuf>> {
    let count = args.servers + args.observers;
    let homes: Vec<PathBuf> = (1..=count).map(|id| args.dir.join(id.to_string())).collect();
    let is_known = |id: &u16| args.dir.join(id.to_string()).join("zoo.cfg").exists();
    let known = (1..).take_while(is_known).count();
    let voters = if known == 0 { (1..=count).filter(is_known).count() } else { voters_of(&homes)? };
    ensure!(
        voters <= known,
        "{} contains an incomplete ensemble: {}/zoo.cfg is missing\nhint: use another --dir",
        args.dir.display(),
        known + 1
    );
    if known != 0 {
        let observers = known - voters;
        ensure!(
            voters == usize::from(args.servers) && known == homes.len(),
            "{} contains an ensemble of {voters} voters and {observers} observers\n\
             hint: give --servers {voters} --observers {observers}, or use another --dir",
            args.dir.display(),
        );
        let has_tls = tls_dir(args).exists();
        let hint = if has_tls { "give --tls" } else { "give no --tls, or use another --dir" };
        ensure!(
            has_tls == args.tls,
            "{} contains an ensemble {} TLS\nhint: {hint}",
            args.dir.display(),
            if has_tls { "with" } else { "without" }
        );
        ensure!(
            !has_tls || !DevelopmentFiles::are_moved(&tls_dir(args))?,
            "{} was moved or changed, and its settings contain absolute paths\nhint: use another --dir, or move it back",
            args.dir.display()
        );
    } else {
        // Before anything is written, so that the next attempt may use other ports.
        for (at, base) in args.base_port.iter().flat_map(|base| (0..homes.len()).map(move |at| (at, *base))) {
            let Ports { client, quorum, election } = Ports::fixed(base, at);
            for port in [client, quorum, election] {
                check_port(at, port, "use another --base-port")?;
            }
        }
        write(args, &homes).map_err(|error| {
            let (dir, uid) = (args.dir.display(), rustix::process::geteuid().as_raw());
            let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
            let hint = match causes.any(|cause| cause.kind() == ErrorKind::NotADirectory) {
                true => "choose another directory with --dir: a part of this path is a file",
                false => "choose another directory with --dir, or change its permissions",
            };
            error.context(format!("cannot write to {dir} as the user with uid {uid}\nhint: {hint}"))
        })?;
    }
    for (at, home) in homes.iter().enumerate() {
        let port = client_port(home)?;
        let wanted = args.base_port.map(|base| Ports::fixed(base, at).client);
        ensure!(
            wanted.is_none_or(|wanted| wanted == port),
            "{} contains an ensemble with other ports\nhint: use another --dir, or no --base-port",
            args.dir.display()
        );
        check_port(at, port, "use another --dir and --base-port")?;
    }
    Ok(homes)
}

/// Fails if the server with this index cannot listen on a port.
fn check_port(at: usize, port: u16, remedy: &str) -> Result<()> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let owner = port_owner::find(port).map_or("another process".to_owned(), |owner| owner.to_string());
            bail!("port {port} of server {} is in use by {owner}\nhint: stop that process, or {remedy}", at + 1);
        }
        bound => bound.map(drop).with_context(|| format!("cannot listen on port {port} of server {}", at + 1)),
    }
}

/// The number of voting servers in existing configurations, which all name all servers.
fn voters_of(homes: &[PathBuf]) -> Result<usize> {
    let Some(home) = homes.first() else { return Ok(0) };
    let file = home.join("zoo.cfg");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let servers = text.lines().filter(|line| line.starts_with("server."));
    Ok(servers.filter(|line| !line.contains(":observer")).count())
}

/// The ports of a server.
struct Ports {
    client: u16,
    quorum: u16,
    election: u16,
}

impl Ports {
    /// The ports of the server with this index.
    fn fixed(base: u16, at: usize) -> Self {
        let client = base + u16::try_from(at).unwrap_or(0); // there are 18 servers at most
        Self { client, quorum: client + 100, election: client + 200 }
    }

    /// Free ports. All stay bound until all are chosen, so that none is chosen twice.
    fn free(count: usize) -> Result<Vec<Self>> {
        let listeners: Vec<TcpListener> = (0..count * 3)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<Result<_, _>>()
            .context("cannot find free ports")?;
        let ports: Vec<u16> =
            listeners.iter().map(|at| at.local_addr().map(|at| at.port())).collect::<Result<_, _>>()?;
        Ok(ports.chunks(3).map(|ports| Self { client: ports[0], quorum: ports[1], election: ports[2] }).collect())
    }
}

fn write(args: &Args, homes: &[PathBuf]) -> Result<()> {
    let ports = match args.base_port {
        Some(base) => (0..homes.len()).map(|at| Ports::fixed(base, at)).collect(),
        None => Ports::free(homes.len())?,
    };
    let stores = if args.tls { Some(write_certificates(args, homes.len())?) } else { None };
    let mut members = String::new();
    for (id, Ports { client, quorum, election }) in (1..).zip(&ports) {
        let role = if id <= args.servers { "participant" } else { "observer" };
        // A secure port is no part of the ensemble's configuration.
        let client = if args.tls { String::new() } else { format!(";127.0.0.1:{client}") };
        members += &format!("server.{id}=127.0.0.1:{quorum}:{election}:{role}{client}\n");
    }
    for ((home, ports), id) in homes.iter().zip(&ports).zip(1..) {
        fs::create_dir_all(home.join("data"))?;
        fs::write(home.join("data/myid"), format!("{id}\n"))?;
        let client = match &stores {
            None => format!("clientPort={}\nclientPortAddress=127.0.0.1\n", ports.client),
            Some(stores) => tls_lines(stores, id, ports),
        };
        let text = format!(
            "tickTime=1000\ninitLimit=10\nsyncLimit=5\ndataDir=./data\n{client}4lw.commands.whitelist=*\n\
             maxClientCnxns=0\n{members}"
        );
        fs::write(home.join("zoo.cfg"), text)?;
    }
    Ok(())
}

fn tls_dir(args: &Args) -> PathBuf {
    args.dir.join("tls")
}

/// Makes a CA, and a certificate for each server and for clients. Returns their directory.
fn write_certificates(args: &Args, servers: usize) -> Result<PathBuf> {
    let hosts: Vec<String> = LOCAL_NAMES.iter().map(|name| (*name).to_owned()).collect();
    let servers = (1..=servers).map(|id| (format!("server.{id}"), hosts.clone())).collect();
    let files = DevelopmentFiles { servers: &servers, client: "client", days: CERTIFICATE_DAYS, force: false };
    files.write(&tls_dir(args), &mut std::io::sink())
}

/// The lines of a server that uses TLS with clients and other servers.
fn tls_lines(stores: &Path, id: u16, ports: &Ports) -> String {
    let store = |key: &str, name: &str| ox_proto::properties::line(key, &stores.join(name).display().to_string());
    let port = ports.client;
    let mut lines = format!("secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nsslQuorum=true\n");
    for prefix in ["ssl.", "ssl.quorum."] {
        lines += &store(&format!("{prefix}keyStore.location"), &format!("server.{id}.pem"));
        lines += &store(&format!("{prefix}trustStore.location"), "ca.pem");
    }
    lines
}

fn client_port(home: &Path) -> Result<u16> {
    let text = fs::read_to_string(home.join("zoo.cfg"))?;
    let of_key = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let port = of_key("clientPort=").or_else(|| of_key("secureClientPort="));
    port.and_then(|port| port.trim().parse().ok()).with_context(|| format!("{} has no clientPort", home.display()))
}

fn start(home: &Path) -> Result<Child> {
    let log = fs::File::options().create(true).append(true).open(home.join("server.log"))?;
    let mut command = Command::new(std::env::current_exe().context("cannot find the oxkeeper executable")?);
    // A line in zoo.cfg enables it: all servers would use the same port.
    command
        .args(["server", "zoo.cfg", "-Dzookeeper.admin.enableServer=false"])
        .current_dir(home)
        .env(super::server::ENDS_WITH_PARENT, "1");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("cannot start a server")
}

/// Child processes that end with this one.
struct Servers(Vec<Child>);

impl Servers {
    fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }

    /// A server that has ended and is not about to be restarted.
    fn ended(&mut self, again: &[Option<Instant>]) -> Option<(usize, ExitStatus)> {
        let mut running = self.0.iter_mut().enumerate().filter(|(at, _)| again[*at].is_none());
        running.find_map(|(at, server)| Some((at, server.try_wait().ok()??)))
    }

    /// Stops all servers and waits for them.
    fn end(&mut self) -> Result<()> {
        for server in &mut self.0 {
            if matches!(server.try_wait(), Ok(None))
                && let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(server.id())?)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM); // it may have ended already
            }
        }
        let until = Instant::now() + END_PATIENCE;
        while self.0.iter_mut().any(|server| matches!(server.try_wait(), Ok(None))) {
            ensure!(Instant::now() < until, "a server did not stop in time and was killed");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill(); // it has usually ended already
            let _ = server.wait();
        }
    }
}
