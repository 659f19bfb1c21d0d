//! How commands that look into files end: what they print, and with which code.
//!
//! | code | means |
//! |---|---|
//! | 0 | all is well |
//! | 1 | damage, or a difference |
//! | 2 | it could not be told |

use anyhow::{Context, Result};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// All is well.
pub(crate) const GOOD: u8 = 0;
/// Damage, or a difference.
pub(crate) const BAD: u8 = 1;
/// It could not be told.
pub(crate) const UNKNOWN: u8 = 2;

/// Runs a command that prints through a buffer and ends with a code. A reader that has seen enough, as `head` has, is no
/// error.
pub(crate) fn conclude(body: impl FnOnce(&mut dyn Write) -> Result<u8>) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = body(&mut out);
    let ended = match (result, out.flush()) {
        (Err(error), _) if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_enough)) => {
            return GOOD.into();
        }
        (_, Err(error)) if is_enough(&error) => return GOOD.into(),
        (Ok(code), flushed) => flushed.context("print").map(|()| code),
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

/// Says what went wrong, and what to do if somebody knows.
pub(crate) fn complain(error: &anyhow::Error) {
    let remedy = error.chain().find_map(|cause| cause.downcast_ref::<ox_store::StoreError>()?.remedy());
    let hint = remedy.map(|remedy| format!("\nhint: {remedy}")).unwrap_or_default();
    crate::say(format_args!("error: {}{hint}", crate::all_causes(error)));
}

/// `1 record`, `2 records`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
