//! Reads the configuration again while the server runs, by SIGHUP or by the AdminServer's command `reload`.

use super::restart_on_full_disk::Stop;
use super::{OUTSIDE, log_diagnostic, system_properties};
use crate::logging::{LevelChange, Logging};
use ox_admin::{AdminControl, ReloadReport};
use ox_config::{Config, GivenSettings, LogLevel, SettingChanges, StartArgs};
use parking_lot::Mutex;
use std::sync::Arc;

/// What a reload reads and changes.
pub(super) struct Reload {
    start: StartArgs,
    define: Vec<String>,
    stop: Arc<Stop>,
    logging: Logging,
    /// The settings of the running server. Also keeps two reloads apart.
    running: Mutex<GivenSettings>,
}

impl Reload {
    pub(super) fn new(start: StartArgs, define: Vec<String>, stop: Arc<Stop>, logging: Logging) -> Arc<Self> {
        Arc::new(Self { start, define, stop, logging, running: Mutex::default() })
    }

    /// Sets the settings of the server that is about to start.
    pub(super) fn set_running(&self, config: &Config) {
        *self.running.lock() = config.given.clone();
    }

    /// Opens the log files again, for programs that have renamed them.
    pub(super) fn reopen_logs(&self) {
        self.logging.reopen();
        self.stop.running().iter().for_each(ox_server::ServerHandle::reopen_audit_log);
    }

    /// Applies what can change. A configuration with errors changes nothing.
    pub(super) fn run(&self) -> ReloadReport {
        let mut running = self.running.lock();
        let (system, mut diagnostics) = (system_properties(&self.define), Vec::new());
        let config = match Config::load(&self.start, &system, &OUTSIDE, &mut diagnostics) {
            Ok(config) => config,
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                errors.iter().for_each(|error| tracing::error!(error, "configuration not reloaded"));
                return ReloadReport { errors, ..ReloadReport::default() };
            }
        };
        diagnostics.iter().for_each(log_diagnostic);
        let SettingChanges { applied, needs_restart } = running.changes(&config.given);
        self.logging.configure(&config.log);
        let mut report = ReloadReport { applied, needs_restart, ..ReloadReport::default() };
        if let Some(server) = self.stop.running() {
            server.apply_settings(&config);
            for stores in server.reload_certificates() {
                match stores.is_replaced {
                    Ok(true) => report.certificates.push(stores.port.to_owned()),
                    Ok(false) => (),
                    Err(error) => report.errors.push(format!("certificates of the {} port: {error}", stores.port)),
                }
            }
        }
        running.apply(&config.given);
        log(&report);
        report
    }
}

fn log(report: &ReloadReport) {
    let (applied, certificates) = (report.applied.join(", "), report.certificates.join(", "));
    tracing::info!(applied, certificates, "configuration reloaded");
    if !report.needs_restart.is_empty() {
        let settings = report.needs_restart.join(", ");
        tracing::warn!(settings, "changed settings need a restart; until then the server uses the old values");
    }
}

/// What the AdminServer's commands use.
pub(super) fn control(reload: &Arc<Reload>, logging: &Logging) -> Arc<AdminControl> {
    let (reload, of_levels, of_change) = (Arc::clone(reload), logging.clone(), logging.clone());
    Arc::new(AdminControl {
        reload: Box::new(move || reload.run()),
        log_levels: Box::new(move || of_levels.levels()),
        change_log_level: Box::new(move |module, level| {
            let level = level.map(|text| {
                let expected = "use off, error, warn, info, debug or trace";
                LogLevel::parse(text).ok_or_else(|| format!("`{text}` is not a log level: {expected}"))
            });
            of_change.change_level(&LevelChange { module: module.map(str::to_owned), level: level.transpose()? })
        }),
    })
}
