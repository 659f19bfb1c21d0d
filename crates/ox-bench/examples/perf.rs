//! The complete comparison as a program; in the project it is `cargo xtask perf`.
//!
//! `perf OUT ROUNDS SECONDS SECTIONS OURS.. -- BASELINE..` with `{config}` in the commands; SECTIONS is `all` or a
//! list; a command whose program is `java` is measured as a JVM.

use anyhow::{Context, Result};
use ox_bench::perf::server::ServerCommand;
use ox_bench::perf::{PerfConfig, perf};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [out, rounds, seconds, sections, commands @ ..] = args.as_slice() else {
        anyhow::bail!("see the documentation of this example for its arguments")
    };
    let mut commands = commands.split(|arg| arg == "--");
    let out = Path::new(out);
    let mut server = |name: &str| -> Result<ServerCommand> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let argv = commands.next().context("expected two commands, separated by --")?.to_vec();
        let is_java = argv.first().is_some_and(|program| program.ends_with("java"));
        let new = if is_java { ServerCommand::java } else { ServerCommand::new };
        Ok(new(name, argv, out.join(name), port))
    };
    let servers = [server("ours")?, server("baseline")?];
    let only = if sections == "all" { Vec::new() } else { sections.split(',').map(str::to_owned).collect() };
    let config = PerfConfig::new(servers, out.join("perf.md"), out.join("perf.json"));
    let round = Duration::from_secs_f64(seconds.parse()?);
    let report = perf(PerfConfig { rounds: rounds.parse()?, round, only, ..config })?;
    print!("{}", report.markdown());
    Ok(())
}
