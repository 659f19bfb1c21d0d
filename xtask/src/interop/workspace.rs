//! Paths of the repository: sources of the client programs, download cache, build output.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The working tree from which xtask was built.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    profile: String,
    previous: Option<PathBuf>,
}

impl Workspace {
    pub(crate) fn find() -> Self {
        let manifest_dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = manifest_dir.parent().expect("xtask is in the workspace root").to_path_buf();
        Workspace { root, profile: "release".to_owned(), previous: None }
    }

    /// The same with another Cargo profile of our binary.
    pub(crate) fn with_profile(self, profile: &str) -> Self {
        Self { profile: profile.to_owned(), ..self }
    }

    /// The same with an earlier version of our binary.
    pub(crate) fn with_previous(self, previous: Option<PathBuf>) -> Self {
        Self { previous, ..self }
    }

    /// The earlier version of our binary.
    pub(crate) fn previous(&self) -> Result<&Path> {
        self.previous.as_deref().context("--previous names no earlier binary")
    }

    /// The Cargo profile with which our binary is built.
    pub(crate) fn profile(&self) -> &str {
        &self.profile
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// The paths that git tracks, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let listed =
            Command::new("git").args(["ls-files", "-z"]).current_dir(&self.root).output().context("run git")?;
        let listed = String::from_utf8(listed.stdout).context("file names are not UTF-8")?;
        Ok(listed.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Sources of a client program or server: `interop/<name>`.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.root.join("interop").join(name)
    }

    /// Downloads and builds of a client program or server, not under version control: `interop/cache/<name>`.
    pub(crate) fn cache(&self, name: &str) -> PathBuf {
        self.root.join("interop/cache").join(name)
    }

    /// Cargo's target directory of this workspace.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// File with the full output of the last run of a suite.
    pub(crate) fn suite_log(&self, suite: &str) -> PathBuf {
        self.target().join("interop").join(format!("{suite}.log"))
    }
}
