//! Where things are: the sources of the client programs, the download cache, the build output.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

/// The folders of the checkout that interop works with.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The checkout this xtask was built from.
    pub(crate) fn find() -> Self {
        let manifest_dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = manifest_dir.parent().expect("xtask lies in the workspace root").to_path_buf();
        Workspace { root }
    }

    /// The workspace root.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// The paths that git knows, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let listed =
            Command::new("git").args(["ls-files", "-z"]).current_dir(&self.root).output().context("run git")?;
        let listed = String::from_utf8(listed.stdout).context("names of files")?;
        Ok(listed.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Sources of one client program or peer: `interop/<name>`.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.root.join("interop").join(name)
    }

    /// Downloads and builds of one peer, not under version control: `interop/cache/<name>`.
    pub(crate) fn cache(&self, name: &str) -> PathBuf {
        self.root.join("interop/cache").join(name)
    }

    /// Cargo's output folder of this workspace.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// Full output of the last run of a suite.
    pub(crate) fn suite_log(&self, suite: &str) -> PathBuf {
        self.target().join("interop").join(format!("{suite}.log"))
    }
}
