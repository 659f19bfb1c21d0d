//! `oxkeeper generate`: the files that packages make from the table of commands.

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GenerateCommand {
    /// Print the completions of a shell
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the man pages, one per command
    Man {
        #[arg(value_name = "directory")]
        directory: PathBuf,
    },
}

pub(crate) fn run(command: &GenerateCommand) -> anyhow::Result<()> {
    match command {
        GenerateCommand::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut crate::Cli::command(), "oxkeeper", &mut text);
            io::Write::write_all(&mut io::stdout(), &text).context("write the completions")
        }
        GenerateCommand::Man { directory } => man_pages(directory),
    }
}

fn man_pages(directory: &Path) -> anyhow::Result<()> {
    let command = crate::Cli::command().version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .with_context(|| format!("write man pages to {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_man_page_and_hidden_ones_have_none() {
        let directory = tempfile::tempdir().unwrap();
        man_pages(directory.path()).unwrap();
        let has = |name: &str| directory.path().join(name).is_file();
        for name in ["oxkeeper.1", "oxkeeper-server.1", "oxkeeper-log-check.1", "oxkeeper-4lw.1", "oxkeeper-cli.1"] {
            assert!(has(name), "{name}");
        }
        assert!(!has("oxkeeper-generate.1") && !has("oxkeeper-docker-entrypoint.1"));
        let page = std::fs::read_to_string(directory.path().join("oxkeeper-server.1")).unwrap();
        assert!(page.contains("zoo.cfg") && page.contains("SERVER_JVMFLAGS"), "{page}");
    }
}
