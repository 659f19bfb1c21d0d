//! Passwords and keys: wiped when dropped, compared in constant time, never printed.

use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Bytes that no log line may show: a password or a key.
#[derive(Clone)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The secret as text; empty if it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Compares in a time that depends only on the lengths.
    pub fn matches(&self, other: &[u8]) -> bool {
        self.0.ct_eq(other).into()
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for SecretBytes {}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_compared_but_not_printed() {
        let secret = SecretBytes::new("hunter2");
        assert!(secret.matches(b"hunter2") && !secret.matches(b"hunter") && !secret.matches(b"hunter3"));
        assert_eq!(format!("{secret:?}"), "SecretBytes(..)");
    }
}
