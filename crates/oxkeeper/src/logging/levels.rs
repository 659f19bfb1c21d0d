//! Log levels: one for all modules, and others for some, which can be changed while the server runs.

use super::Format;
use ox_config::{LogConfig, LogLevel, check_log_levels};
use std::collections::BTreeMap;
use std::fmt;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The first parts of the names of modules that log: a misspelt name would have no effect.
const CRATES: [&str; 18] = [
    "ox_admin",
    "ox_client",
    "ox_config",
    "ox_driver",
    "ox_kerberos",
    "ox_proto",
    "ox_replica",
    "ox_sasl",
    "ox_server",
    "ox_store",
    "ox_tls",
    "ox_tree",
    "ox_zab",
    "oxkeeper",
    "hyper",
    "mio",
    "rustls",
    "tokio",
];

fn is_known(module: &str) -> bool {
    let first = module.split("::").next().unwrap_or_default();
    CRATES.contains(&first) || [ox_server::AUDIT_LOG_TARGET, ox_server::SETTINGS_LOG_TARGET].contains(&module)
}

/// A change of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelChange {
    /// `None` for all modules that have no level of their own.
    pub(crate) module: Option<String>,
    /// `None` for the level of the configuration.
    pub(crate) level: Option<LogLevel>,
}

/// The levels in effect.
pub(super) struct Levels {
    /// Those of the command line, which override the configuration's.
    of_command_line: Option<String>,
    /// What the configuration says, when it was last read.
    configured: Option<String>,
    format: Format,
    /// Levels that were changed since, by module; those of all other modules have the empty name.
    changed: BTreeMap<String, LogLevel>,
}

impl Levels {
    pub(super) fn new(of_command_line: Option<&str>, format: Format) -> Self {
        Self { of_command_line: of_command_line.map(str::to_owned), configured: None, format, changed: BTreeMap::new() }
    }

    /// Takes the levels of a configuration. Returns false if they are as before.
    pub(super) fn configure(&mut self, config: &LogConfig) -> bool {
        let thresholds = [config.console_threshold, config.file.as_ref().and_then(|file| file.threshold)];
        let by_threshold = thresholds.into_iter().flatten().max().filter(|level| LogLevel::Info < *level);
        let configured = config.levels.clone().or_else(|| Some(by_threshold?.name().to_owned()));
        let is_changed = configured != self.configured;
        if is_changed {
            self.configured = configured;
            self.changed.clear();
        }
        is_changed
    }

    pub(super) fn change(&mut self, change: &LevelChange) -> Result<(), String> {
        let module = change.module.clone().unwrap_or_default();
        if !module.is_empty() {
            check_log_levels(&format!("{module}=info"))?;
            if !is_known(&module) {
                return Err(format!(
                    "{module} is not a module of this server; the names are those before the texts of log lines, such as \
                     ox_server or ox_server::peers"
                ));
            }
        }
        match change.level {
            Some(level) => drop(self.changed.insert(module, level)),
            None if module.is_empty() => self.changed.clear(),
            None => drop(self.changed.remove(&module)),
        }
        Ok(())
    }

    /// Levels by module; those of all other modules have the empty name.
    fn by_module(&self) -> BTreeMap<String, LogLevel> {
        let text = self.of_command_line.as_ref().or(self.configured.as_ref()).map_or("", String::as_str);
        let mut levels = BTreeMap::from([(String::new(), LogLevel::Info)]);
        for directive in text.split(',') {
            let (module, level) = directive.rsplit_once('=').unwrap_or(("", directive));
            if let Some(level) = LogLevel::parse(level.trim()) {
                levels.insert(module.trim().to_owned(), level);
            }
        }
        levels.extend(self.changed.iter().map(|(module, level)| (module.clone(), *level)));
        levels
    }

    /// Leaves out Apache's lines about environment and settings, unless they are asked for.
    pub(super) fn targets(&self) -> Targets {
        let mut levels = self.by_module();
        let settings = ox_server::SETTINGS_LOG_TARGET;
        let general = levels.remove("").unwrap_or(LogLevel::Info);
        if self.format != Format::Zookeeper && general <= LogLevel::Info {
            levels.entry(settings.to_owned()).or_insert(general.min(LogLevel::Warn));
        }
        let levels = levels.into_iter().map(|(module, level)| (module, filter_of(level)));
        Targets::new().with_targets(levels).with_default(filter_of(general))
    }
}

/// In the syntax of `--log`.
impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (module, level)) in self.by_module().iter().enumerate() {
            match module.as_str() {
                "" => write!(f, "{}", level.name())?,
                module if index == 0 => write!(f, "{module}={}", level.name())?,
                module => write!(f, ",{module}={}", level.name())?,
            }
        }
        Ok(())
    }
}

pub(super) fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn config(levels: Option<&str>, threshold: Option<LogLevel>) -> LogConfig {
        LogConfig { levels: levels.map(str::to_owned), console_threshold: threshold, file: None }
    }

    fn change(levels: &mut Levels, module: Option<&str>, level: Option<LogLevel>) -> Result<(), String> {
        levels.change(&LevelChange { module: module.map(str::to_owned), level })
    }

    #[test]
    fn command_line_overrides_configuration_and_changes_override_both() {
        let mut levels = Levels::new(None, Format::Text);
        assert_eq!(levels.to_string(), "info");
        assert!(levels.configure(&config(Some("warn,ox_server=debug"), None)));
        assert_eq!(levels.to_string(), "warn,ox_server=debug");
        change(&mut levels, Some("ox_zab"), Some(LogLevel::Trace)).unwrap();
        change(&mut levels, None, Some(LogLevel::Error)).unwrap();
        assert_eq!(levels.to_string(), "error,ox_server=debug,ox_zab=trace");
        assert!(!levels.configure(&config(Some("warn,ox_server=debug"), None)), "read again without a change");
        assert_eq!(levels.to_string(), "error,ox_server=debug,ox_zab=trace");
        change(&mut levels, Some("ox_zab"), None).unwrap();
        assert_eq!(levels.to_string(), "error,ox_server=debug");
        assert!(levels.configure(&config(Some("debug"), None)));
        assert_eq!(levels.to_string(), "debug");
        let mut levels = Levels::new(Some("warn"), Format::Text);
        levels.configure(&config(Some("debug"), None));
        assert_eq!(levels.to_string(), "warn");
    }

    #[test]
    fn detailed_threshold_raises_the_level() {
        let mut levels = Levels::new(None, Format::Text);
        levels.configure(&config(None, Some(LogLevel::Debug)));
        assert_eq!(levels.to_string(), "debug");
        levels.configure(&config(None, Some(LogLevel::Error)));
        assert_eq!(levels.to_string(), "info", "the threshold itself lets only errors through");
    }

    #[test]
    fn misspelt_module_is_refused() {
        let mut levels = Levels::new(None, Format::Text);
        let error = change(&mut levels, Some("ox_servr::io"), Some(LogLevel::Debug)).unwrap_err();
        assert!(error.starts_with("ox_servr::io is not a module"), "{error}");
        assert!(change(&mut levels, Some("ox server"), Some(LogLevel::Debug)).is_err());
        assert_eq!(levels.to_string(), "info");
    }

    #[test]
    fn apaches_lines_about_settings_appear_if_asked_for() {
        let shows = |levels: Option<&str>, format| {
            let targets = Levels::new(levels, format).targets();
            targets.would_enable(ox_server::SETTINGS_LOG_TARGET, &Level::INFO)
        };
        assert!(!shows(None, Format::Text));
        assert!(shows(None, Format::Zookeeper));
        assert!(shows(Some("debug"), Format::Text));
        assert!(shows(Some(&format!("{}=info", ox_server::SETTINGS_LOG_TARGET)), Format::Text));
        assert!(!shows(Some("off"), Format::Text));
    }
}
