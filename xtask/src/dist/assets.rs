//! Completions and man pages, which the binary generates from its table of commands.

use super::{Built, Release, binary};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};

/// The completions of one shell.
pub(super) struct Completion {
    shell: &'static str,
    pub(super) text: String,
}

impl Completion {
    /// Where the shell finds them below `/usr/share`, and in the archive.
    pub(super) fn path(&self, share: &str) -> String {
        match self.shell {
            "bash" => format!("{share}/bash-completion/completions/oxkeeper"),
            "zsh" => format!("{share}/zsh/vendor-completions/_oxkeeper"),
            _ => format!("{share}/fish/vendor_completions.d/oxkeeper.fish"),
        }
    }
}

pub(super) struct Assets {
    /// Names and texts, sorted.
    pub(super) man: Vec<(String, Vec<u8>)>,
    pub(super) completions: Vec<Completion>,
}

pub(super) fn generate(release: &Release, built: &Built) -> Result<Assets> {
    let command = || {
        let mut command = binary::runs(&built.path, built.arch);
        command.arg("generate");
        command
    };
    let directory = tempfile::tempdir_in(&release.output)?;
    tool::run(command().arg("man").arg(directory.path())).context("generate man pages")?;
    let mut man = Vec::new();
    for file in super::files_below(directory.path())? {
        man.push((file.display().to_string(), std::fs::read(directory.path().join(&file))?));
    }
    ensure!(!man.is_empty(), "the binary generated no man pages");
    let mut completions = Vec::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = tool::output(command().args(["completions", shell])).context("generate completions")?;
        completions.push(Completion { shell, text });
    }
    Ok(Assets { man, completions })
}
