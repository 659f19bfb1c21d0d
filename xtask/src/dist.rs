//! `cargo xtask dist`: builds what users install. One module per artefact; [`check`] installs and starts the results.
//!
//! Everything is written to `target/packages`. Files carry the time of the commit (or `SOURCE_DATE_EPOCH`), so that the
//! same commit, toolchain and system make the same bytes.

mod arch;
mod archive;
mod assets;
mod binary;
mod chart;
mod check;
mod checksums;
mod crates;
mod deb;
mod image;
mod jar;
mod sbom;
mod wheel;

use crate::interop::tool;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use arch::Arch;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Artefact to build; may be repeated. All by default.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Artefact>,

    /// Architecture to build for; may be repeated. Others than that of this machine need its cross compiler.
    #[arg(long, value_enum, value_name = "ARCH", default_value = "x86-64")]
    arch: Vec<Arch>,

    /// A static binary to package instead of building one with the profile `dist`.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Install what was built on bare systems, start it, and remove it. Needs root and Debian's tools.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Artefact {
    /// The static binary with completions and man pages, as an archive.
    Binary,
    /// The package for Debian and its derivatives.
    Deb,
    /// The container image, as an archive of an OCI layout.
    Image,
    /// The Helm chart for Kubernetes.
    Chart,
    /// The crates for applications, checked as `cargo publish` would.
    Crates,
    /// The list of all dependencies (CycloneDX).
    Sbom,
    /// The Python wheel with a pytest fixture.
    Wheel,
    /// The Java library with a server for tests.
    Jar,
}

impl Artefact {
    /// Whether it contains the binary.
    fn has_binary(self) -> bool {
        !matches!(self, Self::Chart | Self::Crates | Self::Sbom)
    }
}

/// What all artefacts have in common.
struct Release {
    workspace: Workspace,
    version: String,
    /// Time of all files, in seconds since 1970.
    seconds: u64,
    output: PathBuf,
}

impl Release {
    fn new(workspace: Workspace) -> Result<Self> {
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text.trim().parse().context("SOURCE_DATE_EPOCH is not a number of seconds")?,
            Err(_) => commit_seconds(&workspace)?,
        };
        let output = workspace.target().join("packages");
        std::fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
        Ok(Self { workspace, version: env!("CARGO_PKG_VERSION").to_owned(), seconds, output })
    }

    /// A file below `ops/`.
    fn source(&self, path: &str) -> PathBuf {
        self.workspace.root().join("ops").join(path)
    }

    /// The text of such a file, with `@VERSION@` replaced.
    fn text(&self, path: &str) -> Result<String> {
        let path = self.source(path);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(text.replace("@VERSION@", &self.version))
    }

    /// Writes an artefact and reports it.
    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.output.join(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        println!("{:>10} {}", content.len(), path.display());
        Ok(path)
    }

    /// Downloads and test systems, kept between runs.
    fn cache(&self, name: &str) -> PathBuf {
        self.workspace.cache("dist").join(name)
    }
}

/// A binary, and the architecture that it runs on.
struct Built {
    arch: Arch,
    path: PathBuf,
}

impl Built {
    fn read(&self) -> Result<Vec<u8>> {
        std::fs::read(&self.path).with_context(|| format!("read {}", self.path.display()))
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let release = Release::new(Workspace::find())?;
    let artefacts = if args.only.is_empty() { Artefact::value_variants() } else { &args.only };
    let needs_binary = artefacts.iter().any(|artefact| artefact.has_binary());
    let built = if needs_binary { binaries(&release, args)? } else { Vec::new() };
    for artefact in artefacts {
        build(&release, *artefact, &built).with_context(|| format!("{artefact:?}"))?;
    }
    checksums::write(&release)?;
    if args.check {
        for artefact in artefacts {
            check::run(&release, *artefact, &built).with_context(|| format!("check of {artefact:?}"))?;
        }
    }
    Ok(())
}

fn binaries(release: &Release, args: &Args) -> Result<Vec<Built>> {
    if let Some(path) = &args.binary {
        ensure!(args.arch.len() == 1, "--binary is for one --arch only");
        let path = path.canonicalize().with_context(|| format!("find {}", path.display()))?;
        return Ok(vec![Built { arch: args.arch[0], path }]);
    }
    let mut built = Vec::new();
    for arch in &args.arch {
        built.push(Built { arch: *arch, path: binary::build(release, *arch)? });
    }
    Ok(built)
}

fn build(release: &Release, artefact: Artefact, built: &[Built]) -> Result<()> {
    match artefact {
        Artefact::Binary => built.iter().try_for_each(|built| binary::archive(release, built)),
        Artefact::Deb => built.iter().try_for_each(|built| deb::write(release, built)),
        Artefact::Image => image::write(release, built),
        Artefact::Chart => chart::write(release),
        Artefact::Crates => crates::check(release),
        Artefact::Sbom => sbom::write(release),
        Artefact::Wheel => built.iter().try_for_each(|built| wheel::write(release, built)),
        Artefact::Jar => jar::write(release, built),
    }
}

fn commit_seconds(workspace: &Workspace) -> Result<u64> {
    let mut git = Command::new("git");
    let text = tool::output(git.args(["log", "-1", "--format=%ct"]).current_dir(workspace.root()))
        .context("find the time of the commit\nhint: outside a clone, set SOURCE_DATE_EPOCH")?;
    text.trim().parse().context("parse the time of the commit")
}

/// All files below a directory, relative to it, sorted.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| format!("list {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(directory)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}
