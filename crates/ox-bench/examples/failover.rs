//! Kills and restarts members of an ensemble under load: `failover <server binary> [kills] [connections]`.

use anyhow::{Context, Result};
use ox_bench::perf::failover::{Round, Victim, max_and_median, measure};
use ox_bench::perf::server::ServerCommand;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let program = args.next().context("usage: failover <server binary> [kills] [connections]")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse().context("not a number"));
    let (kills, connections) = (number(50)?, number(60)?);
    let dir = std::env::temp_dir().join(format!("oxbench-failover-{}", std::process::id()));
    let argv = vec![program, "server".into(), "{config}".into()];
    let command = ServerCommand::new("Oxkeeper", argv, dir.clone(), 0);
    let show = |round: &Round| {
        let Round { victim, calm_ms, survivors_ms, victims_ms, total_ms, restart_ms, parts } = round;
        println!(
            "{victim:?}: calm {calm_ms:.0} ms, survivors' clients {survivors_ms:.0} ms, victim's clients {victims_ms:.0} ms, \
             no write at all {total_ms:.0} ms, restart {restart_ms:.0} ms"
        );
        parts.iter().for_each(|part| println!("  {:8.1} {}", part.at_ms, part.text));
    };
    let rounds = measure(&command, kills, connections, show)?;
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
    std::fs::remove_dir_all(dir).context("remove the data")
}
