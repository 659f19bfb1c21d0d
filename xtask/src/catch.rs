//! Panics of test helpers as errors.

use anyhow::{Result, anyhow};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a case. `ox_testkit` panics if a test cannot continue; here that fails one case only.
pub(crate) fn catching<T>(case: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(case)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(anyhow!("{}", text.unwrap_or("panicked without a message")))
    })
}

#[cfg(test)]
mod tests {
    use super::catching;

    #[test]
    fn panic_becomes_an_error_with_its_message() {
        let error = catching::<()>(|| panic!("case {}", 7)).unwrap_err();
        assert_eq!(error.to_string(), "case 7");
        assert_eq!(catching(|| Ok(1)).unwrap(), 1);
    }
}
