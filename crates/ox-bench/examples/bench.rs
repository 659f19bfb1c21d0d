//! The load generator as a separate program; the product has it as `oxkeeper bench`.

use clap::Parser;
use ox_bench::BenchArgs;
use std::process::ExitCode;

fn main() -> ExitCode {
    match ox_bench::run(BenchArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
