//! The entry point of the container image: what `/docker-entrypoint.sh` of the official `zookeeper` image does, without
//! a shell.
//!
//! 1. As root, it gives the directories to the user of the image, and continues as that user.
//! 2. It writes `zoo.cfg` and `myid` from environment variables, each only if it does not exist.
//! 3. It executes the command, by default `zkServer.sh start-foreground`.

mod config_text;
mod variables;

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use variables::Variables;

/// The name by which the official image calls its entry point.
const SCRIPT: &str = "docker-entrypoint.sh";
/// Command that runs the server, and for which the directories change their owner.
const SERVER_SCRIPT: &str = "zkServer.sh";
/// User and group of the server in the image.
const USER: u32 = 1000;
/// Flags of the start scripts that may contain passwords, and are passed on to the command.
const PASSED_ON: [&str; 3] = ["JVMFLAGS", "SERVER_JVMFLAGS", "CLIENT_JVMFLAGS"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command to execute
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "command")]
    command: Vec<OsString>,
}

/// Executes the command; returns only with an error.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let default = || [SERVER_SCRIPT, "start-foreground"].map(OsString::from).to_vec();
    enter(if args.command.is_empty() { default() } else { args.command })
}

/// The command of the entry point, if the program was called by the name of the official image's script.
pub(crate) fn command_if_called_as_script() -> Option<Args> {
    let mut words = std::env::args_os();
    let is_script = words.next().is_some_and(|program| Path::new(&program).file_name() == Some(SCRIPT.as_ref()));
    is_script.then(|| Args { command: words.collect() })
}

fn enter(command: Vec<OsString>) -> anyhow::Result<()> {
    let variables = Variables::of_process();
    let directories = Directories::read(&variables)?;
    let is_server =
        command.first().is_some_and(|program| Path::new(program).file_name() == Some(SERVER_SCRIPT.as_ref()));
    if is_server && rustix::process::geteuid().is_root() {
        return directories.give_away().and_then(|()| continue_as_user(&command));
    }
    write_once(&directories.conf.join("zoo.cfg"), || config_text::config_text(&variables, &directories))?;
    write_once(&directories.data.join("myid"), || {
        config_text::my_id(&variables, &ox_server::host_name().unwrap_or_default())
    })?;
    execute(command, &variables)
}

/// The directories of the image, which variables may change.
struct Directories {
    conf: PathBuf,
    data: PathBuf,
    data_log: PathBuf,
    logs: PathBuf,
}

impl Directories {
    fn read(variables: &Variables<'_>) -> anyhow::Result<Self> {
        let path = |name, default| variables.or(name, default).map(PathBuf::from);
        Ok(Self {
            conf: path("ZOO_CONF_DIR", "/conf")?,
            data: path("ZOO_DATA_DIR", "/data")?,
            data_log: path("ZOO_DATA_LOG_DIR", "/datalog")?,
            logs: path("ZOO_LOG_DIR", "/logs")?,
        })
    }

    /// Makes the user of the image the owner of all files.
    fn give_away(&self) -> anyhow::Result<()> {
        for directory in [&self.conf, &self.data, &self.data_log, &self.logs] {
            give_away(directory).with_context(|| {
                format!(
                    "cannot make user {USER} the owner of {}\nhint: start the container as user {USER}, with \
                     directories that this user owns",
                    directory.display()
                )
            })?;
        }
        Ok(())
    }
}

/// Changes the owner of a file, or of a directory and everything in it. Links are not followed.
fn give_away(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.uid() != USER {
        match lchown(path, Some(USER), Some(USER)) {
            // A mounted configuration; the server need not write to it.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(()),
            changed => changed?,
        }
    }
    if found.is_dir() {
        for entry in path.read_dir()? {
            give_away(&entry?.path())?;
        }
    }
    Ok(())
}

/// Executes this program again, as the user of the image.
fn continue_as_user(command: &[OsString]) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program\nhint: /proc must be mounted")?;
    let error = Command::new(program).arg("docker-entrypoint").arg("--").args(command).uid(USER).gid(USER).exec();
    Err(error).with_context(|| format!("cannot continue as user {USER}"))
}

/// Writes a file, unless it exists. A crash leaves the whole file or none.
fn write_once(path: &Path, text: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let text = text()?;
    let written = path.with_extension("tmp");
    let write = || {
        // It may contain passwords.
        let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o640).open(&written)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&written, path)
    };
    write().with_context(|| {
        let directory = path.parent().unwrap_or(path).display();
        format!(
            "cannot write {}\nhint: {directory} must be writable for user {}, or contain the file",
            path.display(),
            rustix::process::geteuid().as_raw()
        )
    })
}

fn execute(command: Vec<OsString>, variables: &Variables<'_>) -> anyhow::Result<()> {
    let mut words = command.into_iter();
    let Some(program) = words.next() else { bail!("there is no command to execute") };
    let mut command = Command::new(&program);
    command.args(words);
    for name in PASSED_ON {
        if let Some(flags) = variables.get(name)? {
            command.env(name, flags);
        }
    }
    let error = command.exec();
    Err(error).with_context(|| {
        format!(
            "cannot execute {}\nhint: this image has no shell; use zkServer.sh, zkCli.sh or oxkeeper",
            program.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zoo.cfg");
        write_once(&path, || Ok("first\n".to_owned())).unwrap();
        write_once(&path, || bail!("not asked for")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(directory.path().read_dir().unwrap().count(), 1, "and nothing else");
    }

    #[test]
    fn directory_that_cannot_be_written_to_is_named() {
        let error = write_once(Path::new("/proc/zoo.cfg"), || Ok(String::new())).unwrap_err();
        let text = crate::all_causes(&error);
        assert!(text.starts_with("cannot write /proc/zoo.cfg: "), "{text}");
        assert!(text.contains("\nhint: /proc must be writable for user"), "{text}");
    }

    #[test]
    fn missing_directory_and_own_files_keep_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        give_away(&directory.path().join("missing")).unwrap();
        if !rustix::process::geteuid().is_root() {
            return; // only root may give files away
        }
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        std::fs::create_dir(directory.path().join("version-2")).unwrap();
        std::fs::write(directory.path().join("version-2/log.1"), "").unwrap();
        give_away(directory.path()).unwrap();
        let owner = |path: PathBuf| path.symlink_metadata().unwrap().uid();
        for path in ["", "version-2", "version-2/log.1", "link"] {
            assert_eq!(owner(directory.path().join(path)), USER, "{path}");
        }
        assert_eq!(owner(outside.path().join("file")), 0, "links are not followed");
    }
}
