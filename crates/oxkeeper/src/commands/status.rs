//! `oxkeeper status`: the members of an ensemble at a glance.

mod member_status;
mod members;
mod table;

use super::output::conclude;
use crate::terminal::Paint;
use member_status::MemberStatus;
use members::Members;
use serde_json::json;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Time for the replies of one server.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The members are read from /zookeeper/config. Each is asked by the four-letter commands srvr, mntr and dirs; if it
executes only srvr, columns that the others would fill show a dash.
Exit code: 0 if all members serve, 1 if some do not, 2 if none does or there is no leader.")]
pub(crate) struct Args {
    /// Servers of the ensemble, separated by commas; one is enough
    #[arg(value_name = "HOST:PORT,...", default_value = "127.0.0.1:2181", env = "OXKEEPER_SERVER")]
    servers: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Repeat every SECONDS until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
}

/// The state of an ensemble, as scripts need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// Some members do not serve.
    Degraded,
    /// No member serves, or there is no leader.
    Down,
}

impl Health {
    fn of(members: &[MemberStatus]) -> Self {
        let serving = members.iter().filter(|member| member.is_serving()).count();
        let has_writes = members.iter().any(MemberStatus::can_commit);
        match (has_writes, serving == members.len()) {
            (false, _) => Health::Down,
            (true, false) => Health::Degraded,
            (true, true) => Health::Good,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Health::Good => "healthy",
            Health::Degraded => "degraded",
            Health::Down => "down",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Health::Good => 0,
            Health::Degraded => 1,
            Health::Down => 2,
        }
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let servers: Vec<String> = members::split(&args.servers);
    loop {
        let Members { members, remark } = members::find(&servers, REPLY_LIMIT);
        let members: Vec<MemberStatus> = member_status::ask_all(members, REPLY_LIMIT);
        let health = Health::of(&members);
        let paint = Paint::of(&std::io::stdout());
        let code = conclude(|out| {
            if args.watch.is_some() && std::io::stdout().is_terminal() {
                write!(out, "\x1b[H\x1b[2J")?;
            }
            if args.json {
                let members: Vec<_> = members.iter().map(MemberStatus::in_json).collect();
                writeln!(out, "{}", json!({ "health": health.name(), "remark": remark, "members": members }))?;
            } else {
                table::print(&members, health, remark.as_deref(), paint, out)?;
            }
            Ok(health.exit_code())
        });
        let Some(seconds) = args.watch else { return code };
        let _ = std::io::stdout().flush(); // an error shows at the next line
        std::thread::sleep(Duration::from_secs(seconds));
    }
}
