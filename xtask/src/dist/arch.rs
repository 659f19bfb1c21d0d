//! The architectures, and their names in each format.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Arch {
    /// Processors of Intel and AMD, 64 bit
    X86_64,
    /// Processors of ARM, 64 bit
    Aarch64,
}

impl Arch {
    /// In names of files, and of Java's resources.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// In Debian packages and in OCI images.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The target of rustc.
    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }

    pub(super) fn is_native(self) -> bool {
        self.name() == std::env::consts::ARCH
    }

    /// The program that runs its binaries on this machine.
    pub(super) fn emulator(self) -> Option<String> {
        (!self.is_native()).then(|| format!("qemu-{}", self.name()))
    }
}
