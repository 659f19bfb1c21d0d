//! `oxkeeper status`: the members of an ensemble at a glance.

mod member_status;
mod members;
mod table;

use super::output::conclude;
use crate::four_letter;
use crate::terminal::Paint;
use jiff::Zoned;
use member_status::MemberStatus;
use members::{MemberFinder, Members};
use ox_client::ClientProperties;
use ox_shell::output::Output;
use ox_tls::ClientTls;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A second server must not be started where one of an ensemble belongs.
const NO_SERVER_HINT: &str = "hint: is the server of this host running? Start its service; `oxkeeper server` without a \
                              configuration starts a new, empty server for development";
const NO_QUORUM_HINT: &str = "hint: the log of a server that reports no quorum says what it waits for, and so does /readyz of \
                              its AdminServer";
const SERVER_DEFAULT: &str = "127.0.0.1:2181";
/// Time for the replies of one server.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The members are read from the four-letter command conf, or from /zookeeper/config with a session, where conf is not
allowed. Each is asked by the commands srvr, mntr and dirs; if 4lw.commands.whitelist of it contains only srvr, columns
that the others would fill, such as DISK, show a dash.
ZXID EPOCH is the epoch of the last transaction. A new leader's epoch is higher until its first transaction.
CLIENT_JVMFLAGS or --client-configuration with zookeeper.client.secure, zookeeper.ssl.* and a JAAS file turns TLS and
SASL on, as for zkCli. With TLS, given addresses are asked with TLS only; a client port of a server.N line that does not
speak TLS is asked without it, because no credentials are sent.
Exit code: 0 if all members serve, 1 if some do not or could not be asked, 2 if none does or there is no leader.")]
pub(crate) struct Args {
    /// Servers of the ensemble, separated by commas; one is enough. Default: OXKEEPER_SERVER, the profile, or
    /// 127.0.0.1:2181
    #[arg(value_name = "HOST:PORT,...")]
    servers: Vec<String>,
    /// A properties file with the TLS and SASL settings of a client, as zkCli takes it
    #[arg(long, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    /// The same by an option, as for other commands
    #[arg(short = 's', long = "server", value_name = "HOST:PORT,...", conflicts_with = "servers")]
    named: Option<String>,
    /// Server and settings from ~/.config/oxkeeper/cli.conf, as for oxkeeper cli; OXKEEPER_PROFILE is the default
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Repeat every SECONDS (2 if not given) until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
}

/// The state of an ensemble, as scripts need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// All members that were asked serve, but there are others.
    Unknown,
    /// Some members do not serve.
    Degraded,
    /// No member serves, or there is no leader.
    Down,
}

impl Health {
    /// `configured` is the number of members of the ensemble, as far as known.
    fn of(members: &[MemberStatus], configured: usize) -> Self {
        let serving = members.iter().filter(|member| member.is_serving()).count();
        let has_writes = members.iter().any(MemberStatus::can_commit);
        match (has_writes, serving == members.len()) {
            (false, _) => Health::Down,
            (true, false) => Health::Degraded,
            (true, true) if members.len() < configured => Health::Unknown,
            (true, true) => Health::Good,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Health::Good => "healthy",
            Health::Unknown => "unknown",
            Health::Degraded => "degraded",
            Health::Down => "down",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Health::Good => 0,
            Health::Unknown | Health::Degraded => 1,
            Health::Down => 2,
        }
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let (servers, properties, tls) = match target(args) {
        Ok(target) => target,
        Err(error) => {
            crate::say(format_args!("error: {error:#}"));
            return ExitCode::from(2);
        }
    };
    let mut finder = MemberFinder::new(servers, REPLY_LIMIT, properties, tls.clone());
    loop {
        let report = Report::query(&mut finder, tls.as_deref());
        let mut is_printed = false;
        let code = conclude(|out| {
            if args.json { report.print_json(out) } else { report.print(args.watch, out) }?;
            out.flush()?;
            is_printed = true;
            Ok(report.health.exit_code())
        });
        if !args.json
            && let Some(hint) = report.hint()
        {
            crate::say(format_args!("{hint}"));
        }
        match args.watch {
            Some(seconds) if is_printed => std::thread::sleep(Duration::from_secs(seconds)),
            _ => return code, // also when the reader of a pipe has ended
        }
    }
}

/// The servers to ask, and how.
fn target(args: &Args) -> anyhow::Result<(Vec<String>, ClientProperties, Option<Arc<ClientTls>>)> {
    let given = args.named.clone().or_else(|| (!args.servers.is_empty()).then(|| args.servers.join(",")));
    let profile = ox_shell::named_server(given, args.profile.clone()).map_err(anyhow::Error::msg)?;
    let file = args.client_configuration.clone().or(profile.client_configuration.map(PathBuf::from));
    let properties = four_letter::client_properties_with(file.as_deref())?;
    let tls = four_letter::tls(&properties)?.map(Arc::new);
    let servers = profile.server.unwrap_or_else(|| SERVER_DEFAULT.to_owned());
    let servers = four_letter::server_addresses(&servers).map_err(|error| {
        let interval = args.servers.iter().find(|word| args.watch.is_some() && word.parse::<u64>().is_ok());
        let hint = interval.map(|seconds| format!("\nhint: seconds follow a `=`: --watch={seconds}"));
        anyhow::anyhow!("{error}{}", hint.unwrap_or_default())
    })?;
    Ok((servers, properties, tls))
}

/// The state of all members at one moment.
struct Report {
    health: Health,
    remark: Option<String>,
    members: Vec<MemberStatus>,
    /// The number of members of the ensemble, as far as known.
    configured: usize,
}

impl Report {
    fn query(finder: &mut MemberFinder, tls: Option<&ClientTls>) -> Self {
        let Members { members, configured, remark } = finder.find();
        let members = member_status::ask_all(members, tls, REPLY_LIMIT);
        Self { health: Health::of(&members, configured), remark, members, configured }
    }

    /// What to do if no process listens on this machine, or where a server without a quorum says why.
    fn hint(&self) -> Option<&'static str> {
        let is_refused = |member: &MemberStatus| {
            let host =
                member.member.address.as_ref().and_then(|address| address.rsplit_once(':')).map(|(host, _)| host);
            let is_local = host.is_some_and(|host| ox_shell::four_letter::is_local(host.trim_matches(['[', ']'])));
            is_local && member.report.as_ref().is_err_and(|cause| cause == "connection refused")
        };
        let has_no_quorum =
            |member: &MemberStatus| member.report.as_ref().is_err_and(|cause| cause == member_status::NO_QUORUM);
        if self.members.iter().all(is_refused) {
            return Some(NO_SERVER_HINT);
        }
        self.members.iter().any(has_no_quorum).then_some(NO_QUORUM_HINT)
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let members: Vec<_> = self.members.iter().map(MemberStatus::in_json).collect();
        writeln!(
            out,
            "{}",
            json!({ "health": self.health.name(), "configured": self.configured, "remark": self.remark, "members": members })
        )
    }

    /// Prints a table that fits the terminal. A repeated one replaces the last one there, without clearing the screen
    /// first, which would flicker.
    fn print(&self, watch: Option<u64>, out: &mut dyn Write) -> io::Result<()> {
        // A terminal without a size, as `script` may make it, counts as one cell.
        let size = Output::standard().size().filter(|(columns, rows)| 1 < *columns && 1 < *rows);
        let paint = Paint::of(&io::stdout());
        let width = size.map(|(columns, _)| columns);
        let mut lines = table::lines(self, width, paint);
        if let Some(seconds) = watch {
            let time = Zoned::now().strftime("%Y-%m-%d %H:%M:%S");
            let line = format!("{time}  every {seconds} s, Ctrl-C stops");
            lines.insert(0, line.chars().take(width.unwrap_or(usize::MAX)).collect());
        }
        let Some((_, rows)) = size.filter(|_| watch.is_some()) else {
            return lines.iter().try_for_each(|line| writeln!(out, "{line}"));
        };
        lines.truncate(rows.saturating_sub(1).max(1));
        write!(out, "\x1b[H")?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}\x1b[K"))?;
        write!(out, "\x1b[J")
    }
}
