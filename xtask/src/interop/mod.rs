//! Interoperability: real clients on our server, and our files under Apache's server.
//!
//! [`servers`] fetches and runs servers, [`clients`] runs the client programs of `interop/<language>` on one,
//! [`files`] lets one software open what the other has written, [`ensembles`] lets both serve together, [`recipes`] lets our recipes and
//! Curator's work together.

mod clients;
mod differential;
mod ensembles;
mod files;
mod fixture;
mod proxy;
mod recipes;
mod report;
pub(crate) mod servers;
mod shells;
mod suites;
pub(crate) mod tool;
pub(crate) mod tree_walk;
pub(crate) mod wire;
pub(crate) mod workspace;

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Result;
use clap::ValueEnum;

use servers::Software;
use workspace::Workspace;

/// Flags of `cargo xtask interop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to run.
    #[arg(value_enum, default_value_t = Subject::All)]
    subject: Subject,

    /// Server to test: `oxkeeper` (built and started), `apache` (fetched and started), or HOST:PORT (running, set up
    /// as interop/README.md says).
    #[arg(long, value_name = "SERVER", default_value = "oxkeeper", value_parser = parse_target)]
    server: Target,

    #[command(flatten)]
    amount: differential::Amount,

    /// Run every mixed ensemble, not only a few, and longer contests of recipes.
    #[arg(long)]
    full: bool,

    /// Run only mixed ensembles and recipes whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print every line of the suites.
    #[arg(long, short)]
    verbose: bool,
}

/// One part of the interop tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Everything below.
    All,
    /// All client suites.
    Clients,
    /// The Java client and Curator.
    Java,
    /// kazoo, and the test suite kazoo comes with.
    Kazoo,
    /// The C client.
    C,
    /// go-zookeeper.
    Go,
    /// node-zookeeper-client.
    Node,
    /// The Rust crate zookeeper-client.
    Rust,
    /// Data directories handed from one server software to the other.
    Files,
    /// The same requests to Oxkeeper and Apache, compared.
    Differential,
    /// Ensembles of Oxkeeper and Apache servers.
    Ensembles,
    /// Our client and recipes on Apache's server, and together with Curator.
    Recipes,
    /// The same commands to zkCli and to `oxkeeper cli`, compared.
    Shells,
}

impl Subject {
    fn includes(self, suite: &suites::Suite) -> bool {
        match self {
            Subject::All | Subject::Clients => true,
            Subject::Java => suite.name == "java",
            Subject::Kazoo => suite.name.starts_with("kazoo"),
            Subject::C => suite.name == "c",
            Subject::Go => suite.name == "go",
            Subject::Node => suite.name == "node",
            Subject::Rust => suite.name == "rust",
            Subject::Files | Subject::Differential | Subject::Ensembles | Subject::Recipes | Subject::Shells => false,
        }
    }
}

/// The server a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Start(Software),
    Running(SocketAddr),
}

/// Runs the chosen subject.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find();
    match args.subject {
        Subject::All => clients::run(&workspace, args)
            .and(files::run(&workspace, args))
            .and(differential::run(&workspace, args.amount))
            .and(recipes::run(&workspace, args))
            .and(shells::run(&workspace))
            .and(ensembles::run(&workspace, args.full, args.only.as_deref())),
        Subject::Recipes => recipes::run(&workspace, args),
        Subject::Shells => shells::run(&workspace),
        Subject::Differential => differential::run(&workspace, args.amount),
        Subject::Files => files::run(&workspace, args),
        Subject::Ensembles => ensembles::run(&workspace, args.full, args.only.as_deref()),
        Subject::Clients
        | Subject::Java
        | Subject::Kazoo
        | Subject::C
        | Subject::Go
        | Subject::Node
        | Subject::Rust => clients::run(&workspace, args),
    }
}

fn parse_target(text: &str) -> Result<Target, String> {
    match text {
        "oxkeeper" => Ok(Target::Start(Software::Oxkeeper)),
        "apache" => Ok(Target::Start(Software::Apache)),
        address => address
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.find(SocketAddr::is_ipv4))
            .map(Target::Running)
            .ok_or_else(|| "expected oxkeeper, apache or HOST:PORT".to_owned()),
    }
}
