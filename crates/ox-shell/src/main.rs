//! The shell alone. Users have it as `oxkeeper cli`; its tests start it in a terminal.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ox_shell::main(std::env::args().skip(1)))
}
