//! Runs other programs and shows their output only if they fail.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command to its end. If it fails, the error contains its complete output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The same, and returns what the command printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start `{line}`\nhint: is it installed and on PATH?"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` ended with {}\n{stdout}{stderr}", output.status);
    }
    Ok(stdout)
}

/// Whether a program of this name is on PATH.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs `prepare`, unless the file `stamp` shows that it has run with the same `inputs`: the files, or directories of
/// files, that determine the result, such as manifests and sources.
pub(crate) fn once(stamp: &Path, inputs: &[&Path], prepare: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut wanted = Vec::new();
    for input in inputs {
        collect(input, &mut wanted).with_context(|| format!("read {}", input.display()))?;
    }
    if std::fs::read(stamp).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    prepare()?;
    if let Some(dir) = stamp.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

/// Appends the content of a file, or of all files below a directory, sorted by name.
fn collect(path: &Path, out: &mut Vec<u8>) -> Result<()> {
    if path.is_dir() {
        let mut entries = std::fs::read_dir(path)?.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
        entries.sort();
        for entry in entries {
            collect(&entry, out)?;
        }
    } else {
        out.extend_from_slice(&std::fs::read(path)?);
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
