//! `oxkeeper bench`, on the server that the environment or a profile names, as for the other tools.

use anyhow::{Result, anyhow};
use ox_bench::BenchArgs;
use ox_bench::args::NamedTarget;

pub(crate) fn run(mut args: BenchArgs) -> Result<()> {
    args.find_server(|given| {
        let found =
            ox_shell::named_server(given.server.clone(), given.profile.clone()).map_err(|text| anyhow!(text))?;
        Ok(NamedTarget { server: found.server, client_configuration: found.client_configuration.map(Into::into) })
    })?;
    ox_bench::run(args)
}
