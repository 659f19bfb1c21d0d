//! The command `envi`: properties of the machine. The log shows the same lines at start.

use crate::shared::Shared;
use crate::status::os_info;
use crate::status::version::Build;

/// The value of properties that this server does not have.
pub const UNKNOWN: &str = "<NA>";

pub(super) fn envi(shared: &Shared) -> String {
    let lines: String = environment(shared.build).iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    format!("Environment:\n{lines}")
}

/// Names and values in Apache's order. Properties of a Java virtual machine have no value.
pub fn environment(build: Build) -> Vec<(&'static str, String)> {
    let memory = os_info::memory();
    let megabytes = |bytes: Option<u64>| bytes.map(|bytes| format!("{}MB", bytes >> 20));
    let directory = std::env::current_dir().ok().map(|dir| dir.display().to_string());
    let values = [
        ("zookeeper.version", Some(build.version())),
        ("host.name", os_info::host_name()),
        ("java.version", None),
        ("java.vendor", None),
        ("java.home", None),
        ("java.class.path", None),
        ("java.library.path", None),
        ("java.io.tmpdir", Some(std::env::temp_dir().display().to_string())),
        ("java.compiler", None),
        ("os.name", Some(os_name())),
        ("os.arch", Some(architecture())),
        ("os.version", os_info::kernel()),
        ("user.name", os_info::user_name().or_else(|| std::env::var("USER").ok())),
        ("user.home", std::env::var("HOME").ok()),
        ("user.dir", directory),
        ("os.memory.free", megabytes(memory.map(|memory| memory.limit.saturating_sub(memory.used)))),
        ("os.memory.max", megabytes(memory.map(|memory| memory.limit))),
        ("os.memory.total", megabytes(memory.map(|memory| memory.limit))),
    ];
    values.map(|(name, value)| (name, value.unwrap_or_else(|| UNKNOWN.to_owned()))).into()
}

/// The name that Java uses.
fn os_name() -> String {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        "windows" => "Windows",
        other => other,
    }
    .to_owned()
}

/// The name that Java uses.
fn architecture() -> String {
    if std::env::consts::ARCH == "x86_64" { "amd64".to_owned() } else { std::env::consts::ARCH.to_owned() }
}
