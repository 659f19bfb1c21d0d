//! The container image, unpacked by other tools and started without a container daemon.

use super::super::{Release, image};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use ox_testkit::{Process, free_port};
use serde_json::Value;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn check(release: &Release) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let archive = format!("oci-archive:{}", image::path(release).display());
    let config = tool::output(Command::new("skopeo").args(["inspect", "--config", &archive]))
        .context("read the image\nhint: apt-get install skopeo umoci")?;
    let config: Value = serde_json::from_str(&config)?;
    let user = config["config"]["User"].as_str().context("the image has no user")?.to_owned();
    ensure!(user == "1000:1000", "the image runs as {user}");
    let unpack = |name: &str| Container::unpack(directory.path(), name, &archive, &config);
    unpack("standalone")?.serves_with_variables(&user).context("as the user of the image")?;
    unpack("root")?.gives_up_root().context("as root")?;
    unpack("read-only")?.runs_on_read_only_root(&user).context("with a read-only root")
}

/// A container of the image that is not running.
struct Container {
    root: PathBuf,
    environment: Vec<(String, String)>,
    command: Vec<String>,
}

impl Container {
    fn unpack(directory: &Path, name: &str, archive: &str, config: &Value) -> Result<Self> {
        let layout = directory.join("layout");
        if !layout.exists() {
            let target = format!("oci:{}:latest", layout.display());
            tool::run(Command::new("skopeo").args(["--insecure-policy", "copy", "--quiet", archive, &target]))?;
        }
        let bundle = directory.join(name);
        let image = format!("{}:latest", layout.display());
        tool::run(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle))
            .context("unpack the image")?;
        let list = |name: &str| {
            let list = config["config"][name].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let variable = |pair: &String| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = list("Env").iter().filter_map(variable).collect();
        let root = bundle.join("rootfs");
        // Runtimes provide this file.
        std::fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
        Ok(Self { root, environment, command: [list("Entrypoint"), list("Cmd")].concat() })
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.environment.push((name.to_owned(), value.into()));
    }

    /// A command in the container, as a user. `prepare` is run by a shell outside, in a mount namespace of its own, with
    /// the root directory as `$root`.
    fn command(&self, prepare: &str, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        // Runtimes mount this directory.
        let script =
            format!("{prepare}\nmount --bind /proc \"$root/proc\"\nexec chroot --userspec \"$user\" \"$root\" \"$@\"");
        command.args(["--mount", "sh", "-ec", &script, "sh"]).args(words);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        // `chroot` is found by the path of this machine, the command by that of the image.
        let path = self.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", path.unwrap_or_default()));
        command.env("root", &self.root).env("user", user);
        command
    }

    /// Starts the default command on a free port; the AdminServer is off, because its port is that of the host.
    fn start(&mut self, prepare: &str, user: &str) -> Result<(Process, SocketAddr)> {
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        // Apache's script logs to standard output.
        let log = self.root.with_extension("log");
        let mut process = Process::run_with_log(self.command(prepare, user, &words), &log)?;
        let address = super::await_ready(&mut process)?;
        Ok((process, ([127, 0, 0, 1], address.port()).into()))
    }

    fn use_free_ports(&mut self) -> u16 {
        let [quorum, election, client] = [free_port(), free_port(), free_port()];
        self.set("ZOO_SERVERS", format!("server.1=localhost:{quorum}:{election};{client}"));
        self.set("ZOO_ADMINSERVER_ENABLED", "false");
        client
    }

    /// Variables, a secret in a file, and the commands that probes and people use.
    fn serves_with_variables(mut self, user: &str) -> Result<()> {
        let port = self.use_free_ports();
        std::fs::write(self.root.join("tmp/extra"), "maxSessionTimeout=90000 snapCount=5000\n")?;
        self.set("ZOO_TICK_TIME", "1000");
        self.set("ZOO_CFG_EXTRA_FILE", "/tmp/extra");
        let (server, address) = self.start("", user)?;
        ensure!(address.port() == port, "it listens on port {}", address.port());
        let config = std::fs::read_to_string(self.root.join("conf/zoo.cfg"))?;
        for line in
            ["dataDir=/data", "dataLogDir=/datalog", "tickTime=1000", "maxSessionTimeout=90000", "snapCount=5000"]
        {
            ensure!(config.lines().any(|found| found == line), "zoo.cfg has no line {line}:\n{config}");
        }
        ensure!(std::fs::read_to_string(self.root.join("data/myid"))? == "1\n", "myid has another content");
        let status = tool::output(&mut self.command("", user, &["zkServer.sh", "status"]))?;
        ensure!(status.lines().any(|line| line == "Mode: standalone"), "the status is {status}");
        super::create_and_get(|arguments| {
            self.command("", user, &[&["zkCli.sh", "-server", &address.to_string()][..], arguments].concat())
        })?;
        super::stop(server)?;
        let log = super::super::files_below(&self.root.join("datalog"))?;
        ensure!(!log.is_empty(), "there is no transaction log in /datalog");
        Ok(())
    }

    /// As the official image, a container that starts as root gives its directories away.
    fn gives_up_root(mut self) -> Result<()> {
        self.use_free_ports();
        std::fs::write(self.root.join("data/myid"), "1\n")?;
        let (server, _) = self.start("", "0:0")?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default().trim().to_owned();
        ensure!(uid.split_whitespace().all(|uid| uid == "1000"), "the server runs with the user ids {uid}");
        ensure!(self.root.join("data/myid").metadata()?.uid() == 1000, "root still owns the data");
        super::stop(server)
    }

    /// As the chart starts it: the configuration is mounted, only the data can be written to.
    fn runs_on_read_only_root(mut self, user: &str) -> Result<()> {
        let (client, data) = (free_port(), self.root.with_extension("data"));
        let config = format!(
            "dataDir=/data\nclientPort={client}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=2000\n"
        );
        std::fs::write(self.root.join("conf/zoo.cfg"), config)?;
        std::fs::create_dir(&data)?;
        std::os::unix::fs::chown(&data, Some(1000), Some(1000))?;
        self.set("data", data.display().to_string());
        let prepare = "mount --bind \"$root\" \"$root\"\nmount -o remount,ro,bind \"$root\"\nmount --bind \"$data\" \"$root/data\"";
        let (server, address) = self.start(prepare, user)?;
        super::create_and_get(|arguments| {
            self.command("", user, &[&["zkCli.sh", "-server", &address.to_string()][..], arguments].concat())
        })?;
        super::stop(server)?;
        ensure!(data.join("version-2").is_dir(), "the data is elsewhere");
        Ok(())
    }
}
