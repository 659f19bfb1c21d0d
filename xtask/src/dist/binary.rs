//! The static binary: musl, profile `dist`, stripped.
//!
//! The C parts (jemalloc, the TLS library) are compiled with musl's headers. On the architecture of this machine that is
//! `musl-gcc` of Debian's `musl-tools`; for another one, Debian's cross compiler with the headers of `musl-dev` of that
//! architecture, in `interop/cache/dist/musl-<arch>`. Rust's own target brings the library that is linked.

use super::arch::Arch;
use super::archive::{Entry, gzip, tar};
use super::{Built, Release, assets};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The largest binary that is released.
const BYTES_MAX: usize = 20 << 20;

/// Builds the binary and returns its path.
pub(super) fn build(release: &Release, arch: Arch) -> Result<PathBuf> {
    let target = arch.target();
    tool::run(Command::new("rustup").args(["target", "add", &target]).current_dir(release.workspace.root()))
        .with_context(|| format!("install the standard library of {target}"))?;
    eprintln!("building the binary for {target} (fat LTO: about seven minutes of CPU time)");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--profile", "dist", "--target", &target, "-p", "oxkeeper"]);
    cargo.current_dir(release.workspace.root());
    // The profile keeps line tables for measurements. A package must not contain paths of this machine either.
    cargo.env("CARGO_PROFILE_DIST_STRIP", "symbols").env("CARGO_PROFILE_DIST_DEBUG", "false");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(release).join("\x1f"));
    compiler(release, arch, &mut cargo)?;
    tool::run(&mut cargo).with_context(|| format!("build oxkeeper for {target}"))?;
    let path = release.workspace.target().join(target).join("dist/oxkeeper");
    verify(&path, arch)?;
    Ok(path)
}

/// Flags that replace the paths of sources in panic messages.
fn flags(release: &Release) -> Vec<String> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![remap(&release.workspace.root(), "oxkeeper")];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    if let Some(home) = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))) {
        flags.push(remap(&home.join("registry/src"), "crates"));
    }
    flags
}

/// Tells the build scripts of C code which compiler makes objects for musl.
fn compiler(release: &Release, arch: Arch, cargo: &mut Command) -> Result<()> {
    let underscored = arch.target().replace('-', "_");
    if arch.is_native() {
        ensure!(tool::exists("musl-gcc"), "musl-gcc is missing\nhint: apt-get install musl-tools");
        cargo.env(format!("CC_{underscored}"), "musl-gcc");
        return Ok(());
    }
    let gcc = format!("{}-linux-gnu-gcc", arch.name());
    ensure!(tool::exists(&gcc), "{gcc} is missing\nhint: apt-get install gcc-{}-linux-gnu", arch.name());
    let headers = musl_headers(release, arch)?.display().to_string();
    // glibc's headers must not be seen: they redirect functions to names that musl does not have.
    let flags = format!("-nostdinc -isystem {headers} -isystem {}", gcc_headers(&gcc)?);
    cargo.env(format!("CC_{underscored}"), &gcc).env(format!("CFLAGS_{underscored}"), flags);
    cargo.env(format!("CARGO_TARGET_{}_LINKER", underscored.to_uppercase()), &gcc);
    // Kernels of this architecture have pages of up to 64 KiB; a binary with smaller ones does not start there.
    cargo.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
    Ok(())
}

/// The directory of the compiler's own headers, such as `stddef.h`.
fn gcc_headers(gcc: &str) -> Result<String> {
    let path = tool::output(Command::new(gcc).arg("-print-file-name=include")).context("ask the compiler")?;
    Ok(path.trim().to_owned())
}

/// musl's headers for another architecture, from its Debian package.
fn musl_headers(release: &Release, arch: Arch) -> Result<PathBuf> {
    let root = release.cache(&format!("musl-{}", arch.name()));
    let include = root.join(format!("usr/include/{}-linux-musl", arch.name()));
    if include.is_dir() {
        return Ok(include);
    }
    std::fs::create_dir_all(&root)?;
    let package = format!("musl-dev:{}", arch.debian());
    tool::run(Command::new("dpkg").args(["--add-architecture", arch.debian()]))?;
    tool::run(Command::new("apt-get").args(["update", "-qq"]))?;
    tool::run(Command::new("apt-get").args(["download", "-qq", &package]).current_dir(&root))
        .with_context(|| format!("download {package}"))?;
    for file in super::files_below(&root)?.iter().filter(|file| file.extension().is_some_and(|found| found == "deb")) {
        tool::run(Command::new("dpkg-deb").arg("--extract").arg(root.join(file)).arg(&root))?;
    }
    ensure!(include.is_dir(), "{package} has no headers in {}", include.display());
    Ok(include)
}

/// Checks that a binary is static, stripped and small, and runs.
fn verify(path: &Path, arch: Arch) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    ensure!(bytes.len() <= BYTES_MAX, "{} has {} bytes, more than {BYTES_MAX}", path.display(), bytes.len());
    ensure!(is_static(&bytes)?, "{} is not static: it names a dynamic linker", path.display());
    let sections = tool::output(Command::new("readelf").args(["--section-headers", "--wide"]).arg(path))?;
    ensure!(!sections.contains(".symtab") && !sections.contains(".debug_"), "{} is not stripped", path.display());
    let version = tool::output(runs(path, arch).arg("--version")).context("run the binary")?;
    let expected = format!("oxkeeper {} (", env!("CARGO_PKG_VERSION"));
    ensure!(version.starts_with(&expected) && version.contains(&arch.target()), "it reports {version}");
    Ok(())
}

/// A command that runs a binary, emulated if necessary.
pub(super) fn runs(path: &Path, arch: Arch) -> Command {
    match arch.emulator() {
        None => Command::new(path),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(path);
            command
        }
    }
}

/// Whether an ELF file of 64 bits, little endian, names no dynamic linker.
fn is_static(elf: &[u8]) -> Result<bool> {
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "not an ELF file of 64 bits");
    let number = |at: usize, size: usize| -> Result<usize> {
        let bytes = elf.get(at..at + size).context("the file ends early")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    };
    const INTERPRETER: usize = 3;
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for at in (0..count).map(|index| table + index * size) {
        if number(at, 4)? == INTERPRETER {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the archive with binary, completions, man pages and licence.
pub(super) fn archive(release: &Release, built: &Built) -> Result<()> {
    let assets = assets::generate(release, built)?;
    let mut entries = vec![
        Entry::file("bin/oxkeeper", 0o755, built.read()?),
        Entry::from_disk("LICENSE", &release.workspace.root().join("LICENSE"))?,
        Entry::from_disk("README.md", &release.workspace.root().join("README.md"))?,
        Entry::file("oxkeeper.service", 0o644, release.text("debian/oxkeeper.service")?),
        Entry::file("zoo.cfg", 0o644, release.text("debian/zoo.cfg")?),
    ];
    for (name, text) in &assets.man {
        entries.push(Entry::file(format!("share/man/man1/{name}"), 0o644, text.clone()));
    }
    for completion in &assets.completions {
        entries.push(Entry::file(completion.path("share"), 0o644, completion.text.clone()));
    }
    let name = format!("oxkeeper-{}-linux-{}", release.version, built.arch.name());
    let archive = gzip(&tar(&format!("{name}/"), &entries, release.seconds)?)?;
    release.write(&format!("{name}.tar.gz"), &archive).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_binary_is_recognised() {
        // The test itself is linked dynamically with Debian's toolchain.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own).unwrap());
        assert!(is_static(b"#!/bin/sh").is_err());
        assert!(is_static(&own[..40]).is_err(), "a truncated file");
    }
}
