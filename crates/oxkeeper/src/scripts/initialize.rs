//! `zkServer-initialize.sh`: creates the data directories of a new member.

use super::environment::ScriptEnvironment;
use super::file_settings::FileSettings;
use super::print;
use crate::lock_owner;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command line asks for.
struct Initialization {
    config: PathBuf,
    id: Option<String>,
    is_forced: bool,
}

pub(super) fn run(environment: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let mut wanted = Initialization { config: environment.config.clone(), id: None, is_forced: false };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next().filter(|word| !word.is_empty()) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("--configfile", "") => wanted.config = words.next().unwrap_or_default().into(),
            ("--configfile", file) => wanted.config = file.into(),
            ("--myid", "") => wanted.id = words.next().map(str::to_owned),
            ("--myid", id) => wanted.id = Some(id.to_owned()),
            ("--force", _) => wanted.is_forced = true,
            ("-h" | "--help", _) => return usage(environment),
            _ => {
                print(format_args!("Unknown option: {word}\n"));
                return usage(environment);
            }
        }
    }
    match wanted.execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Compat: exit code 1, also if it was asked for.
fn usage(environment: &ScriptEnvironment) -> ExitCode {
    let (called, config) = (&environment.called, environment.config.display());
    print(format_args!(
        "usage: {called} <parameters>
  Optional parameters:
     -h                                                    Display this message
     --help                                                Display this message
     --configfile={config}   ZooKeeper config file
     --myid=#                                              Set the myid to be used, if any (1-255)
     --force                                               Force creation of the data/txnlog dirs
"
    ));
    ExitCode::FAILURE
}

impl Initialization {
    /// An error has the line to print.
    fn execute(&self) -> Result<(), String> {
        let config = self.config.display();
        let settings =
            FileSettings::read(&self.config).map_err(|_| format!("Unable to find config file at {config}"))?;
        let data = settings.get("dataDir").map(PathBuf::from);
        let data = data.ok_or_else(|| format!("Unable to determine dataDir from {config}"))?;
        let logs = settings.get("dataLogDir").map(PathBuf::from).filter(|logs| *logs != data);
        if let Some(id) = self.id.as_ref().filter(|id| id.parse::<u64>().is_err()) {
            return Err(format!("{id} is not a number; give --myid the N of the server.N line of this server"));
        }
        let directories: Vec<(&str, &Path)> = [("data", Some(&data)), ("txnlog", logs.as_ref())]
            .into_iter()
            .filter_map(|(what, dir)| Some((what, dir?.as_path())))
            .collect();
        if self.is_forced {
            print(format_args!("Force enabled, data/txnlog directories will be re-initialized\n"));
        }
        for (what, directory) in &directories {
            if let Some(owner) = lock_owner::find(directory).or_else(|| lock_owner::find(&directory.join("version-2")))
            {
                return Err(format!(
                    "ZooKeeper {what} directory {} is in use by {owner}; stop it first",
                    directory.display()
                ));
            }
            if !self.is_forced && directory.join("version-2").is_dir() {
                return Err(format!(
                    "ZooKeeper {what} directory already exists at {} (or use --force to force re-initialization)",
                    directory.display()
                ));
            }
        }
        for (_, directory) in &directories {
            renew(directory).map_err(|error| format!("cannot initialize {}: {error}", directory.display()))?;
        }
        match &self.id {
            Some(id) => {
                print(format_args!("Using myid of {id}\n"));
                let path = data.join("myid");
                fs::write(&path, format!("{id}\n"))
                    .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            }
            None => print(format_args!(
                "No myid provided, be sure to specify it in {}/myid if using non-standalone\n",
                data.display()
            )),
        }
        let path = data.join("initialize");
        fs::write(&path, "").map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// Removes what an earlier member has left, and creates the directory of the files. The directory itself stays, because it
/// may be a link or a mount.
fn renew(directory: &Path) -> io::Result<()> {
    let (files, id) = (directory.join("version-2"), directory.join("myid"));
    for removed in [fs::remove_dir_all(&files), fs::remove_file(id)] {
        removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    fs::create_dir_all(files)
}
