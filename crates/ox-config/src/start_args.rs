//! The arguments that a server is started with, and its access to files and DNS.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::error::{Cause, ConfigError, Place};

/// The three ways to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartArgs {
    /// No argument: a standalone server on loopback, data in `./oxkeeper-data`.
    Nothing,
    /// One argument: the configuration file.
    File(PathBuf),
    /// `port datadir [ticktime] [maxcnxns]`, as given: a standalone server on loopback.
    Arguments {
        port: String,
        data_dir: String,
        tick_ms: Option<String>,
        /// Connections per client address; unlimited if absent.
        max_cnxns: Option<String>,
    },
}

/// Access to files and DNS as closures, so that tests need neither.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Reads a complete file.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Resolves a host name.
    pub resolve: &'a dyn Fn(&str) -> Option<IpAddr>,
}

impl StartArgs {
    /// Interprets the positional arguments by their number.
    pub fn from_args(args: &[String]) -> Result<StartArgs, ConfigError> {
        match args {
            [] => Ok(StartArgs::Nothing),
            [file] => Ok(StartArgs::File(file.into())),
            [port, _, ..] if port.parse::<i32>().is_err() => {
                Err(Place::Argument("server").error(Cause::FirstNotAPort(port.clone())))
            }
            [port, data_dir, rest @ ..] if rest.len() <= 2 => Ok(StartArgs::Arguments {
                port: port.clone(),
                data_dir: data_dir.clone(),
                tick_ms: rest.first().cloned(),
                max_cnxns: rest.get(1).cloned(),
            }),
            _ => Err(Place::Argument("server").error(Cause::Arguments(args.len()))),
        }
    }

    /// The settings of the command line, under their names in `zoo.cfg`.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        match self {
            StartArgs::File(_) => Vec::new(),
            StartArgs::Nothing => {
                vec![("dataDir", "./oxkeeper-data".to_owned()), ("clientPort", "2181".to_owned()), loopback()]
            }
            StartArgs::Arguments { port, data_dir, tick_ms, max_cnxns } => {
                let mut pairs = vec![("clientPort", port.clone()), ("dataDir", data_dir.clone()), loopback()];
                pairs.extend(tick_ms.clone().map(|tick| ("tickTime", tick)));
                pairs.push(("maxClientCnxns", max_cnxns.clone().unwrap_or("0".to_owned())));
                pairs
            }
        }
    }
}

/// A server without a configuration file has no protection that an operator chose: only this machine reaches it.
fn loopback() -> (&'static str, String) {
    ("clientPortAddress", "127.0.0.1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(args: &[&str]) -> Result<StartArgs, ConfigError> {
        StartArgs::from_args(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_interpreted_by_number() {
        assert_eq!(start(&[]), Ok(StartArgs::Nothing));
        assert_eq!(start(&["zoo.cfg"]), Ok(StartArgs::File("zoo.cfg".into())));
        let full = start(&["2181", "/data", "2000", "9"]).unwrap();
        let pairs = full.pairs();
        let shown: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            shown,
            ["clientPort=2181", "dataDir=/data", "clientPortAddress=127.0.0.1", "tickTime=2000", "maxClientCnxns=9"]
        );
        assert_eq!(start(&["2181", "/data"]).unwrap().pairs().last().unwrap().1, "0");
        let error = start(&["min.cfg", "a", "b"]).unwrap_err();
        let expected = "\"min.cfg\" is not a port; expected a configuration file alone, or port datadir [ticktime] \
                        [maxcnxns]";
        assert_eq!((error.exit_code(), error.cause.to_string().as_str()), (2, expected));
        let error = start(&["1", "2", "3", "4", "5"]).unwrap_err();
        assert_eq!((error.exit_code(), error.cause), (2, Cause::Arguments(5)));
    }
}
