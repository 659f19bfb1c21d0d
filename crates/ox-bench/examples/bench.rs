//! The load generator as a program of its own; in the product it is `oxkeeper bench`.

use clap::Parser;
use ox_bench::Args;
use std::process::ExitCode;

fn main() -> ExitCode {
    match ox_bench::run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
