//! What `zkEnv.sh` finds out for all of Apache's programs: the configuration, the log directory, and the variables that
//! `zookeeper-env.sh` and `java.env` set.

use super::env_file;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set when the variables of `zookeeper-env.sh` and `java.env` are in the environment, by this program or by the shell
/// script `zkEnv.sh`.
const IS_READ: &str = "OXKEEPER_ZKENV";

/// Where a package for a whole system, whose programs are in `/usr/bin`, has its configuration.
const SYSTEM_CONFIG_DIRS: [&str; 3] = ["/etc/oxkeeper", "/etc/zookeeper/conf", "/etc/zookeeper"];

/// The environment of one of Apache's programs.
#[derive(Debug)]
pub(super) struct ScriptEnvironment {
    /// The name by which the program was called, for usage texts.
    pub(super) called: String,
    pub(super) config_dir: PathBuf,
    /// The configuration file, unless an argument names another one.
    pub(super) config: PathBuf,
    pub(super) log_dir: PathBuf,
}

impl ScriptEnvironment {
    /// Reads it, and removes `--config <dir>` from the arguments. If the files of the directory set variables, the
    /// program is executed once more with these variables.
    pub(super) fn read(called: String, mut arguments: Vec<String>) -> Result<(Self, Vec<String>), String> {
        let given = if 2 < arguments.len() && arguments[0] == "--config" {
            arguments.drain(..2).nth(1).map(PathBuf::from)
        } else {
            None
        };
        let prefix = prefix(&called);
        let config_dir = given.or_else(|| variable("ZOOCFGDIR").map(PathBuf::from));
        let config_dir = config_dir.unwrap_or_else(|| config_dir_below(&prefix));
        if variable(IS_READ).is_none() {
            let variables = read_files(&config_dir)?;
            if !variables.is_empty() {
                return Err(execute_again(&called, &config_dir, &arguments, variables));
            }
        }
        let config = config_dir.join(variable("ZOOCFG").unwrap_or("zoo.cfg".to_owned()));
        let log_dir = variable("ZOO_LOG_DIR").map_or_else(|| prefix.join("logs"), PathBuf::from);
        Ok((Self { called, config_dir, config, log_dir }, arguments))
    }
}

/// A variable of the environment that is not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The directory above the one with the program.
fn prefix(called: &str) -> PathBuf {
    let path = if called.contains('/') { Some(PathBuf::from(called)) } else { in_search_path(called) };
    let path = path.or_else(|| std::env::current_exe().ok());
    let bin = path.as_deref().and_then(Path::parent).filter(|bin| !bin.as_os_str().is_empty());
    let bin = std::path::absolute(bin.unwrap_or(Path::new("."))).unwrap_or_else(|_| PathBuf::from("/usr/bin"));
    bin.parent().unwrap_or(Path::new("/")).to_owned()
}

/// The program as the shell that called it has found it.
fn in_search_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn config_dir_below(prefix: &Path) -> PathBuf {
    let own = [prefix.join("conf"), prefix.join("etc/zookeeper")];
    let system = SYSTEM_CONFIG_DIRS.iter().map(PathBuf::from).filter(|_| prefix == Path::new("/usr"));
    let first = own[0].clone();
    own.into_iter().chain(system).find(|directory| directory.is_dir()).unwrap_or(first)
}

/// The variables that the files of the configuration directory set.
fn read_files(config_dir: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for name in ["zookeeper-env.sh", "java.env"] {
        let path = config_dir.join(name);
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound || error.kind() == ErrorKind::NotADirectory => continue,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        env_file::read(&text, &mut variables, &variable).map_err(|error| {
            format!(
                "{}, {error}\nhint: only assignments such as SERVER_JVMFLAGS=\"-Dname=value\" are read; or call the \
                 shell scripts of ops/bin, which source the file",
                path.display()
            )
        })?;
    }
    Ok(variables)
}

/// Executes the program with more variables, so that everything in it reads the environment in the same way. Returns
/// only an error.
fn execute_again(called: &str, config_dir: &Path, arguments: &[String], variables: BTreeMap<String, String>) -> String {
    let executed = std::env::current_exe().map(|program| {
        Command::new(program)
            .arg0(called)
            .args(arguments)
            .envs(variables)
            .env(IS_READ, "1")
            .env("ZOOCFGDIR", config_dir)
            .exec()
    });
    let error = executed.unwrap_or_else(|error| error);
    format!("cannot execute {called} again: {error}")
}
