//! Output and exit codes of the commands that examine files.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | no damage, no difference |
//! | 1 | damage, or a difference |
//! | 2 | the result could not be determined |

use anyhow::{Context, Result};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// No damage and no difference.
pub(crate) const GOOD: u8 = 0;
/// Damage, or a difference.
pub(crate) const BAD: u8 = 1;
/// The result could not be determined.
pub(crate) const UNKNOWN: u8 = 2;

/// Runs a command that prints through a buffer and returns an exit code. A closed pipe, as by `head`, is no error.
pub(crate) fn conclude(body: impl FnOnce(&mut dyn Write) -> Result<u8>) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = body(&mut out);
    let ended = match (result, out.flush()) {
        (Err(error), _) if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_enough)) => {
            return GOOD.into();
        }
        (_, Err(error)) if is_enough(&error) => return GOOD.into(),
        (Ok(code), flushed) => flushed.context("cannot print").map(|()| code),
        (Err(error), _) => Err(error),
    };
    match ended {
        Ok(code) => code.into(),
        Err(error) => {
            complain(&error);
            UNKNOWN.into()
        }
    }
}

fn is_enough(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Prints an error, and its remedy if there is one.
pub(crate) fn complain(error: &anyhow::Error) {
    let remedy = error.chain().find_map(|cause| cause.downcast_ref::<ox_store::StoreError>()?.remedy());
    let hint = remedy.map(|remedy| format!("\nhint: {remedy}")).unwrap_or_default();
    crate::say(format_args!("error: {}{hint}", crate::all_causes(error)));
}

/// The exit code of one file of several; an error is printed.
pub(crate) fn code_or_unknown(checked: Result<u8>) -> u8 {
    checked.unwrap_or_else(|error| {
        complain(&error);
        UNKNOWN
    })
}

/// `1 record`, `2 records` and so on.
pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
