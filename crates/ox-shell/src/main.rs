//! The shell as its own program, for its tests. Users run it as `oxkeeper cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ox_shell::main(std::env::args().skip(1)))
}
