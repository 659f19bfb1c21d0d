//! The guards to remove, with the code of each before and after the removal.

mod ensemble;
mod server;

/// A check or a step that protects a property, in the server or in the simulator's driver of the server.
pub(super) struct Guard {
    pub(super) file: &'static str,
    /// The rule that the guard enforces. Identifies the guard in the table of `docs/internals/testing.md`.
    pub(super) guard: &'static str,
    /// The consequence of its removal.
    pub(super) breaks: &'static str,
    /// The code with the guard, which occurs exactly once in the file.
    pub(super) with: &'static str,
    /// The code that replaces `with`.
    pub(super) without: &'static str,
}

/// All guards, in the order of the table in `docs/internals/testing.md`.
pub(super) fn all() -> impl Iterator<Item = &'static Guard> {
    server::GUARDS.iter().chain(ensemble::GUARDS)
}
