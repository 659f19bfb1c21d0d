//! `oxkeeper check-config`: what each line of a configuration means, and whether a server would start with it.
//!
//! `ox_config` decides, as when a server starts; only the directories and the stores of TLS are checked here.

mod facts;
mod report;

use super::output::{BAD, GOOD, UNKNOWN, conclude};
use super::server::{OUTSIDE, config_error, port_without_directory, system_properties};
use super::tls::{self, TlsProblem};
use crate::terminal::Paint;
use clap::builder::ArgAction;
use facts::{directories, facts};
use ox_config::{Cause, Config, ConfigErrors, Diagnostic, Explained, Level, StartArgs, SystemProperties, explain};
use report::{Report, Verdict};
use rustix::fs::{Access, access};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads its arguments, SERVER_JVMFLAGS and JVMFLAGS as oxkeeper server does.
Does not check whether ports are free or data is intact (oxkeeper log check does the latter).
Exit code: 0 if the server would start, 1 if not, 2 if the file cannot be read or the arguments are wrong.")]
pub(crate) struct Args {
    /// zoo.cfg, or `port datadir [ticktime] [maxcnxns]`
    #[arg(value_name = "zoo.cfg")]
    config: Vec<String>,
    /// A system property of ZooKeeper, e.g. -Dzookeeper.extendedTypesEnabled=true
    #[arg(short = 'D', value_name = "name=value", action = ArgAction::Append)]
    define: Vec<String>,
    /// Print only problems and the summary
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let paint = Paint::of(&std::io::stdout());
    conclude(|out| {
        let system = system_properties(&args.define);
        let mut explained = match StartArgs::from_args(&args.config) {
            Ok(start) => explain(&start, &system, &OUTSIDE),
            Err(error) => Explained { items: Vec::new(), diagnostics: Vec::new(), outcome: Err(error.into()) },
        };
        let is_unread = explained.items.is_empty() && explained.outcome.as_ref().is_err_and(is_unread);
        let errors: Vec<String> = match &explained.outcome {
            Ok(config) => {
                let mut errors: Vec<_> = directories(config).into_iter().filter_map(|(_, state)| state.err()).collect();
                errors.extend(audit_error(config));
                explained.diagnostics.extend(config.client_port_warning().map(|text| warning(text.to_owned())));
                explained.diagnostics.extend(reconfig_warning(config, &args.config, &|dir| {
                    access(dir, Access::WRITE_OK | Access::EXEC_OK)
                }));
                match ox_server::check_stores(config) {
                    Ok(warnings) => {
                        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
                        let certificates = certificate_warnings((config, &args.config), &system, &warnings);
                        explained.diagnostics.extend(warnings.into_iter().chain(certificates).map(warning));
                    }
                    Err(found) => errors.extend(found.iter().map(ToString::to_string)),
                }
                errors.extend(ox_admin::check_stores(config).err().map(|error| error.to_string()));
                errors
            }
            Err(errors) => match port_without_directory("check-config", &args.config) {
                Some(error) => vec![error],
                None => errors.iter().map(config_error).collect(),
            },
        };
        if args.json {
            writeln!(out, "{}", in_json(&explained, &errors))?;
        } else {
            Report { explained: &explained, errors: &errors, is_quiet: args.quiet, paint }.print(out)?;
        }
        Ok(match errors.is_empty() {
            true => GOOD,
            false if is_unread => UNKNOWN,
            false => BAD,
        })
    })
}

/// Whether there is no configuration to explain: the file cannot be read, or the arguments are not those of a server.
fn is_unread(errors: &ConfigErrors) -> bool {
    use Cause::{Arguments, FileMissing, FirstNotAPort, Unreadable};
    matches!(errors.first().cause, FileMissing(_) | Unreadable { .. } | Arguments(_) | FirstNotAPort(_))
}

/// What `oxkeeper tls check` finds in addition to what a start reports: a server starts with certificates that its peers
/// refuse.
fn certificate_warnings(
    (config, arguments): (&Config, &[String]),
    system: &SystemProperties,
    known: &[String],
) -> Vec<String> {
    let [file] = arguments else { return Vec::new() };
    let problems = tls::problems(Path::new(file), system).unwrap_or_default();
    // A standalone server has no ports for other servers.
    let is_used = |problem: &TlsProblem| config.member.is_some() || problem.ports != "servers";
    let new = problems.into_iter().filter(|problem| is_used(problem) && !known.contains(&problem.text));
    let place = |ports: &str| if ports == "servers" { "between servers" } else { "for clients" };
    new.map(|TlsProblem { ports, text }| format!("TLS {}: {text}", place(&ports))).collect()
}

fn warning(text: String) -> Diagnostic {
    Diagnostic { level: Level::Warn, place: None, text }
}

/// Why the file of the audit log cannot be written.
fn audit_error(config: &Config) -> Option<String> {
    let file = config.audit.file.as_deref().filter(|_| config.audit.enabled)?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let path = if file.exists() { file } else { parent };
    let needed = if file.exists() { Access::WRITE_OK } else { Access::WRITE_OK | Access::EXEC_OK };
    let error = if file.is_dir() { "it is a directory".to_owned() } else { access(path, needed).err()?.to_string() };
    Some(format!(
        "cannot write the audit log {}: {error}; create its directory, let the user of the server write there, or \
         change oxkeeper.audit.file",
        file.display()
    ))
}

/// Why a reconfiguration could not be stored: the server replaces its configuration file.
fn reconfig_warning(
    config: &Config,
    arguments: &[String],
    may_write: &dyn Fn(&Path) -> rustix::io::Result<()>,
) -> Option<Diagnostic> {
    let [file] = arguments else { return None };
    config.member.as_ref().filter(|_| config.reconfig_enabled)?;
    let dir = Path::new(file).parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let error = may_write(dir).err()?;
    let text = format!(
        "reconfigEnabled=true, but the server cannot write to {}: {error}; it would start with the old members after a \
         reconfig. Let its user write there",
        dir.display()
    );
    Some(warning(text))
}

fn in_json(explained: &Explained, errors: &[String]) -> Value {
    let remarks = |diagnostics: &[Diagnostic]| {
        let texts = diagnostics
            .iter()
            .map(|Diagnostic { level, text, .. }| json!({ "level": level_word(*level), "text": text }));
        texts.collect::<Vec<_>>()
    };
    let items = explained.items.iter().map(|item| {
        json!({
            "place": item.place.to_string().trim_end_matches([':', ' ']),
            "line": item.place.line(),
            "name": item.name,
            "value": item.text,
            "effect": Verdict::of(item).as_str().to_lowercase(),
            "why": report::consequence(&item.effect),
            "meaning": item.key.map(|key| key.doc.trim()),
            "default": item.key.map(|key| key.default),
            "unit": item.key.map(|key| key.unit),
            "remarks": remarks(&item.diagnostics),
        })
    });
    let facts = explained.outcome.as_ref().map(|config| {
        let mut facts = facts(config);
        facts.extend(directories(config).into_iter().map(|(name, state)| (name, state.unwrap_or_else(|why| why))));
        facts.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect::<serde_json::Map<_, _>>()
    });
    json!({
        "starts": errors.is_empty(),
        "errors": errors,
        "items": items.collect::<Vec<_>>(),
        "facts": facts.unwrap_or_default(),
        "remarks": remarks(&explained.diagnostics),
    })
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warn => "warning",
        Level::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn directory_that_a_reconfig_cannot_write_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zoo.cfg").display().to_string();
        let members = "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\ninitLimit=5\nsyncLimit=5\n";
        std::fs::write(dir.path().join("myid"), "1").unwrap();
        let text = |more: &str| {
            let lines = format!("dataDir={}\nclientPort=0\n{members}{more}", dir.path().display());
            std::fs::write(&file, lines).unwrap();
            let start = StartArgs::from_args(std::slice::from_ref(&file)).unwrap();
            let config = explain(&start, &system_properties(&[]), &OUTSIDE).outcome.unwrap();
            reconfig_warning(&config, std::slice::from_ref(&file), &|_| Err(Errno::ACCESS)).map(|found| found.text)
        };
        assert!(text("reconfigEnabled=true\n").unwrap().contains("cannot write to"));
        assert_eq!(text(""), None);
    }
}
