//! `cargo xtask interop`: tests Oxkeeper with real ZooKeeper clients and with Apache servers.
//!
//! [`servers`] downloads and builds servers. [`clients`] runs the client programs of `interop/<language>` on a
//! server. [`files`] opens the data directory of one implementation with the other. [`ensembles`] runs mixed ensembles.
//! [`recipes`] runs `ox-recipes` and Curator on the same nodes. [`security`] runs TLS and SASL. [`operations`] compares AdminServers.

mod clients;
mod differential;
mod ensembles;
mod files;
mod fixture;
mod operations;
mod recipes;
mod report;
mod security;
pub(crate) mod servers;
mod shells;
mod suites;
pub(crate) mod tool;
pub(crate) mod workspace;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use servers::Software;
use workspace::Workspace;

/// Flags of `cargo xtask interop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Part of the tests to run.
    #[arg(value_enum, default_value_t = Subject::All)]
    subject: Subject,

    /// Server to test: `oxkeeper` (built and started), `apache` (downloaded and started), or HOST:PORT of a running
    /// server with the settings in interop/README.md.
    #[arg(long, value_name = "SERVER", default_value = "oxkeeper", value_parser = parse_target)]
    server: Target,

    #[command(flatten)]
    amount: differential::Amount,

    /// Run all mixed ensembles instead of a selection, recipes with more rounds, and the C client in the security tests.
    #[arg(long)]
    full: bool,

    /// Cargo profile of our binary.
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,

    /// An earlier version of our binary: ensembles of it are upgraded under load and go back.
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,

    /// Run only mixed ensembles, recipes, cases of `security` and parts of `operations` (`admin`, `prometheus`) whose
    /// name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print all lines of the client suites, not only failures.
    #[arg(long, short)]
    verbose: bool,
}

/// A part of the interop tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// All parts below, one after the other.
    All,
    /// All client suites: Java, kazoo, C, Go, Node and Rust.
    Clients,
    /// Apache's Java client and Curator.
    Java,
    /// kazoo, and the test suite that kazoo contains.
    Kazoo,
    /// Apache's C client library and its shell.
    C,
    /// The Go client go-zookeeper.
    Go,
    /// The JavaScript client node-zookeeper-client.
    Node,
    /// The Rust crate zookeeper-client.
    Rust,
    /// Data directories that one implementation writes and the other opens.
    Files,
    /// The differential test: the same requests to Oxkeeper and Apache, with all replies compared.
    Differential,
    /// Mixed ensembles of Oxkeeper and Apache servers.
    Ensembles,
    /// Our client and recipes on an Apache server, and together with Curator.
    Recipes,
    /// TLS and SASL: real clients and a real KDC with our server, our client and tools with Apache servers.
    Security,
    /// The same HTTP requests to the AdminServers of Oxkeeper and Apache, and their Prometheus pages.
    Operations,
    /// The same commands to `zkCli` and to `oxkeeper cli`, with their output compared.
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
            Subject::Files
            | Subject::Differential
            | Subject::Ensembles
            | Subject::Recipes
            | Subject::Security
            | Subject::Operations
            | Subject::Shells => false,
        }
    }
}

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Start(Software),
    Running(SocketAddr),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find().with_profile(&args.profile).with_previous(args.previous.clone());
    match args.subject {
        Subject::All => clients::run(&workspace, args)
            .and(files::run(&workspace, args))
            .and(differential::run(&workspace, args.amount))
            .and(recipes::run(&workspace, args))
            .and(shells::run(&workspace))
            .and(security::run(&workspace, args))
            .and(operations::run(&workspace, args.only.as_deref()))
            .and(ensembles::run(&workspace, args.full, args.only.as_deref())),
        Subject::Recipes => recipes::run(&workspace, args),
        Subject::Shells => shells::run(&workspace),
        Subject::Security => security::run(&workspace, args),
        Subject::Operations => operations::run(&workspace, args.only.as_deref()),
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
