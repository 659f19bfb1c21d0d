//! What the program around a server can change while the server runs.

/// Functions of the program. Those that read files may take long; each runs on a thread for commands.
pub struct AdminControl {
    /// Reads the configuration again, and applies what can change.
    pub reload: Box<dyn Fn() -> ReloadReport + Send + Sync>,
    pub log_levels: Box<dyn Fn() -> String + Send + Sync>,
    /// Changes the level of a module, or of all others without one; without a level back to the configured one. Returns
    /// the levels.
    pub change_log_level: ChangeLogLevel,
}

/// Takes a module and a level.
pub type ChangeLogLevel = Box<dyn Fn(Option<&str>, Option<&str>) -> Result<String, String> + Send + Sync>;

/// What a reload has applied, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Names of changed settings that are in effect now.
    pub applied: Vec<String>,
    /// Names of settings that differ from those of the running server, and need a restart.
    pub needs_restart: Vec<String>,
    /// Ports whose certificates have changed.
    pub certificates: Vec<String>,
    /// Why something was not applied. With an error of the configuration, nothing was.
    pub errors: Vec<String>,
}
