//! The shell as its own program, for its tests. Users run it as `oxkeeper cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let style = words.next().is_some_and(|program| ox_shell::is_zkcli_name(&program)).then(|| "--zkcli".to_owned());
    ExitCode::from(ox_shell::main(style.into_iter().chain(words)))
}
