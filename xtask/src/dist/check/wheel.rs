//! The wheel in a virtual environment of its own, used by a test with pytest and kazoo.

use super::super::{Built, Release, wheel};
use crate::interop::tool;
use anyhow::{Context, Result};
use std::process::Command;

pub(super) fn check(release: &Release, built: &Built) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let wheel = wheel::path(release, built).display().to_string();
    let programs = super::python(directory.path(), &[&wheel, "pytest", "kazoo"])?;
    std::fs::copy(release.source("python/tests/test_fixture.py"), directory.path().join("test_fixture.py"))?;
    let mut pytest = Command::new(programs.join("pytest"));
    pytest.args(["--quiet", "-p", "no:cacheprovider", "test_fixture.py"]).current_dir(directory.path());
    pytest.env_remove("OXKEEPER_BINARY").env_remove("PYTHONPATH");
    tool::run(&mut pytest).context("run pytest")?;
    tool::run(Command::new(programs.join("oxkeeper")).arg("--version")).context("run the installed program")
}
