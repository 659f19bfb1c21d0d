//! `zoo.cfg` and `myid` from environment variables, line by line as the official image writes them.

use super::Directories;
use super::variables::Variables;
use anyhow::Context;
use std::fmt::Write;

/// The ensemble without `ZOO_SERVERS`. A single participant runs standalone; its client port is in this line.
const DEFAULT_SERVERS: &str = "server.1=localhost:2888:3888;2181";
/// `ZOO_MY_ID` of the pods of a StatefulSet. Not in the official image.
const ORDINAL: &str = "ordinal";

/// Variables with a default, and their keys in `zoo.cfg`, in this order.
const SETTINGS: [(&str, &str, &str); 8] = [
    ("ZOO_TICK_TIME", "2000", "tickTime"),
    ("ZOO_INIT_LIMIT", "5", "initLimit"),
    ("ZOO_SYNC_LIMIT", "2", "syncLimit"),
    ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "3", "autopurge.snapRetainCount"),
    ("ZOO_AUTOPURGE_PURGEINTERVAL", "0", "autopurge.purgeInterval"),
    ("ZOO_MAX_CLIENT_CNXNS", "60", "maxClientCnxns"),
    ("ZOO_STANDALONE_ENABLED", "true", "standaloneEnabled"),
    ("ZOO_ADMINSERVER_ENABLED", "true", "admin.enableServer"),
];

pub(super) fn config_text(variables: &Variables<'_>, directories: &Directories) -> anyhow::Result<String> {
    let (data, data_log) = (directories.data.display(), directories.data_log.display());
    let mut text = format!("dataDir={data}\ndataLogDir={data_log}\n");
    for (variable, default, key) in SETTINGS {
        let _ = writeln!(text, "{key}={}", variables.or(variable, default)?); // a String accepts everything
    }
    for server in variables.or("ZOO_SERVERS", DEFAULT_SERVERS)?.split_whitespace() {
        let _ = writeln!(text, "{server}");
    }
    if let Some(commands) = variables.get("ZOO_4LW_COMMANDS_WHITELIST")? {
        let _ = writeln!(text, "4lw.commands.whitelist={commands}");
    }
    for line in variables.or("ZOO_CFG_EXTRA", "")?.split_whitespace() {
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// The text of `myid`.
pub(super) fn my_id(variables: &Variables<'_>, host: &str) -> anyhow::Result<String> {
    let id = variables.or("ZOO_MY_ID", "1")?;
    if id != ORDINAL {
        return Ok(format!("{id}\n"));
    }
    let ordinal: Option<u8> = host.split('.').next().and_then(|name| name.rsplit_once('-')?.1.parse().ok());
    let id = ordinal.and_then(|ordinal| ordinal.checked_add(1));
    let id = id.with_context(|| {
        format!("ZOO_MY_ID={ORDINAL}, but the host name {host} does not end with a number below 255, as in zookeeper-0")
    })?;
    Ok(format!("{id}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn config(set: &[(&str, &str)]) -> String {
        let read = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        let variables = Variables::new(&read);
        config_text(&variables, &Directories::read(&variables).unwrap()).unwrap()
    }

    #[test]
    fn config_without_variables_is_that_of_the_official_image() {
        let expected = "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
             autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\nstandaloneEnabled=true\n\
             admin.enableServer=true\nserver.1=localhost:2888:3888;2181\n";
        assert_eq!(config(&[]), expected);
    }

    #[test]
    fn variables_replace_defaults_and_lists_become_lines() {
        let text = config(&[
            ("ZOO_DATA_DIR", "/var/zk"),
            ("ZOO_TICK_TIME", "500"),
            ("ZOO_STANDALONE_ENABLED", "false"),
            ("ZOO_SERVERS", "server.1=a:2888:3888;2181  server.2=b:2888:3888:observer;2181"),
            ("ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr"),
            ("ZOO_CFG_EXTRA", "metricsProvider.httpPort=7000 reconfigEnabled=true"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["dataDir=/var/zk", "dataLogDir=/datalog", "tickTime=500"]);
        assert_eq!(
            lines[8..],
            [
                "standaloneEnabled=false",
                "admin.enableServer=true",
                "server.1=a:2888:3888;2181",
                "server.2=b:2888:3888:observer;2181",
                "4lw.commands.whitelist=srvr, mntr",
                "metricsProvider.httpPort=7000",
                "reconfigEnabled=true",
            ]
        );
    }

    #[test]
    fn directories_are_those_of_the_variables() {
        let read = |name: &str| (name == "ZOO_CONF_DIR").then(|| "/etc/zk".to_owned());
        let directories = Directories::read(&Variables::new(&read)).unwrap();
        let expected = ["/etc/zk", "/data", "/datalog", "/logs"].map(PathBuf::from);
        assert_eq!([directories.conf, directories.data, directories.data_log, directories.logs], expected);
    }

    #[test]
    fn my_id_is_given_or_follows_from_the_host_name() {
        let check = |id: Option<&str>, host: &str| {
            let read = |name: &str| id.filter(|_| name == "ZOO_MY_ID").map(str::to_owned);
            my_id(&Variables::new(&read), host).map_err(|error| error.to_string())
        };
        assert_eq!(check(None, "h"), Ok("1\n".to_owned()));
        assert_eq!(check(Some("3"), "zk-7"), Ok("3\n".to_owned()));
        assert_eq!(check(Some("ordinal"), "zk-0"), Ok("1\n".to_owned()));
        assert_eq!(check(Some("ordinal"), "my-zk-12.zk.default.svc"), Ok("13\n".to_owned()));
        for host in ["zk", "zk-", "zk-a", "zk-255", "7"] {
            let error = check(Some("ordinal"), host).unwrap_err();
            assert!(error.contains(&format!("the host name {host} does not end with a number")), "{error}");
        }
    }
}
