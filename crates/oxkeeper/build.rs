//! Sets the commit, its date and the target for `oxkeeper --version`.
//!
//! `OXKEEPER_BUILD_ID` and `OXKEEPER_BUILD_DATE` override what git knows. Without git, as in a tarball, the commit is
//! `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    let id = std::env::var("OXKEEPER_BUILD_ID").ok().or_else(|| git(&["rev-parse", "--short=10", "HEAD"]));
    let date = std::env::var("OXKEEPER_BUILD_DATE").ok().or_else(commit_date);
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=OXKEEPER_COMMIT={}", id.unwrap_or("unknown".to_owned()));
    println!("cargo:rustc-env=OXKEEPER_COMMIT_DATE={}", date.unwrap_or("unknown".to_owned()));
    println!("cargo:rustc-env=OXKEEPER_TARGET={target}");
    println!("cargo:rerun-if-env-changed=OXKEEPER_BUILD_ID");
    println!("cargo:rerun-if-env-changed=OXKEEPER_BUILD_DATE");
    // A new commit appends to the log of HEAD, which is in the directory of the work tree.
    for file in ["logs/HEAD", "HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
}

/// The date of the commit in the form that Apache's `srvr` shows.
fn commit_date() -> Option<String> {
    git(&["log", "-1", "--date=format-local:%Y-%m-%d %H:%M UTC", "--format=%cd"])
}

/// The output of a git command, if this is a work tree of the project and not a part of another one.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    if !root.join(".git").exists() {
        return None;
    }
    let output =
        Command::new("git").args(arguments).env("TZ", "UTC").output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
