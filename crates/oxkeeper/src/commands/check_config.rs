//! `oxkeeper check-config`: what each line of a configuration means, and whether a server would start with it.
//!
//! `ox_config` decides, as when a server starts; only the directories are checked here.

use super::output::{BAD, GOOD, conclude};
use super::server::{OUTSIDE, system_properties};
use anyhow::Result;
use clap::builder::ArgAction;
use ox_config::{
    Cause, Config, ConfigError, Diagnostic, Explained, ExplainedSetting, FourLetterWhitelist, Level, Place,
    SettingEffect, StartArgs, explain,
};
use ox_proto::ensemble::Role;
use ox_store::names::{Dirs, VERSION_DIR};
use rustix::fs::{Access, access};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads its arguments, SERVER_JVMFLAGS and JVMFLAGS as oxkeeper server does.
Does not check whether ports are free or data is intact (oxkeeper log check does the latter).
Exit code: 0 if the server would start, 1 if not.")]
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
    conclude(|out| {
        let system = system_properties(&args.define);
        let explained = match StartArgs::from_args(&args.config) {
            Ok(start) => explain(&start, &system, &OUTSIDE),
            Err(error) => Explained { items: Vec::new(), diagnostics: Vec::new(), outcome: Err(error) },
        };
        let refusal = match &explained.outcome {
            Ok(config) => directories(config).into_iter().find_map(|(_, state)| state.err()),
            Err(error) => Some(error.to_string()),
        };
        if args.json {
            writeln!(out, "{}", in_json(&explained, refusal.as_deref()))?;
        } else {
            tell(&explained, refusal.as_deref(), args.quiet, out)?;
        }
        Ok(if refusal.is_none() { GOOD } else { BAD })
    })
}

fn tell(explained: &Explained, refusal: Option<&str>, quiet: bool, out: &mut dyn Write) -> Result<()> {
    let (mut file, mut told) = (None, BTreeSet::new());
    for item in &explained.items {
        let is_dull = item.effect == SettingEffect::Honoured
            && item.diagnostics.iter().all(|diagnostic| diagnostic.level == Level::Info);
        if quiet && is_dull {
            continue;
        }
        let heading = match &item.place {
            Place::File { name, .. } => name.as_str(),
            Place::Argument(_) => "command line",
            Place::Property(_) => "properties and flags",
        };
        if file.replace(heading) != Some(heading) {
            writeln!(out, "{heading}")?;
        }
        let is_new = item.key.is_none_or(|key| told.insert(key.name));
        tell_item(item, is_new, out)?;
    }
    if !explained.items.is_empty() {
        writeln!(out)?;
    }
    tell_whole(explained, out)?;
    match refusal {
        None => writeln!(out, "The server would start.")?,
        Some(why) => {
            writeln!(out, "The server would not start: {why}")?;
            if let Some(path) = missing_my_id(explained) {
                writeln!(
                    out,
                    "hint: write the number of this server, the N of its server.N line, into that file: echo N > {path}"
                )?;
            }
        }
    }
    Ok(())
}

fn missing_my_id(explained: &Explained) -> Option<&str> {
    match &explained.outcome {
        Err(ConfigError { cause: Cause::MyIdMissing(path), .. }) => Some(path),
        _ => None,
    }
}

/// Prints a line, with the meaning of its key unless an earlier line had the same key.
fn tell_item(item: &ExplainedSetting, with_meaning: bool, out: &mut dyn Write) -> Result<()> {
    let line = item.place.line().map(|line| line.to_string()).unwrap_or_default();
    writeln!(out, "  {:<10} {line:>4}  {}", item.effect.as_str(), given(item))?;
    let mut texts = Vec::new();
    if let Some(key) = item.key.filter(|_| with_meaning) {
        let default = match (key.default, key.unit) {
            ("", _) => "no default".to_owned(),
            (default, "") => format!("default {default}"),
            (default, unit) => format!("default {default} {unit}"),
        };
        texts.push(format!("{} ({default})", key.doc.trim()));
    }
    texts.extend(consequence(&item.effect));
    // Do not repeat what the verdict contains.
    let is_said = |text: &str| matches!(item.effect, SettingEffect::NotBuilt(feature) if text.starts_with(feature));
    let loud =
        item.diagnostics.iter().filter(|diagnostic| Level::Info < diagnostic.level && !is_said(&diagnostic.text));
    texts.extend(loud.map(|diagnostic| diagnostic.text.clone()));
    for text in texts {
        writeln!(out, "                   {text}")?;
    }
    Ok(())
}

fn given(item: &ExplainedSetting) -> String {
    let value = item.text.as_deref().unwrap_or("(not shown)");
    match &item.place {
        Place::Property(_) if item.name.starts_with('-') => item.name.clone(),
        Place::Property(_) => format!("-D{}={value}", item.name),
        Place::File { .. } | Place::Argument(_) => format!("{}={value}", item.name),
    }
}

fn consequence(effect: &SettingEffect) -> Option<String> {
    Some(match effect {
        SettingEffect::Honoured | SettingEffect::Ineffective | SettingEffect::Unknown => return None, // the remark has the reason
        SettingEffect::NothingToSet => "Accepted; Oxkeeper needs no such setting.".to_owned(),
        SettingEffect::EnsembleOnly => {
            "Accepted; it applies to ensembles only, and this is a standalone server.".to_owned()
        }
        SettingEffect::JavaOnly => "For a Java virtual machine only.".to_owned(),
        SettingEffect::ClientOnly => "Clients read this, servers do not.".to_owned(),
        SettingEffect::NotBuilt(feature) => format!("{feature} is not implemented yet; the server starts without it."),
        SettingEffect::Overridden(place) => {
            let place = place.to_string();
            format!("Has no effect, overridden by: {}", place.trim_end_matches([':', ' ']))
        }
        SettingEffect::Wrong(cause) => cause.to_string(),
    })
}

fn tell_whole(explained: &Explained, out: &mut dyn Write) -> Result<()> {
    if let Ok(config) = &explained.outcome {
        for (name, text) in facts(config) {
            writeln!(out, "  {name:<10} {text}")?;
        }
        for (name, state) in directories(config) {
            writeln!(out, "  {name:<10} {}", state.unwrap_or_else(|why| why))?;
        }
    }
    for Diagnostic { level, text, .. } in
        explained.diagnostics.iter().filter(|diagnostic| Level::Info < diagnostic.level)
    {
        let word = if *level == Level::Error { "error" } else { "warning" };
        writeln!(out, "  {word:<10} {text}")?;
    }
    Ok(())
}

/// Properties of the configuration as a whole.
fn facts(config: &Config) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    match &config.member {
        None => facts.push(("role", "a standalone server".to_owned())),
        Some(member) => {
            let members = member.ensemble.members();
            let voters = members.values().filter(|member| member.role == Role::Participant).count();
            let role = if member.role() == Role::Participant { "votes" } else { "observes" };
            let spare = voters.saturating_sub(1) / 2;
            let text = format!(
                "server {} of an ensemble of {} ({voters} vote); it {role}; {spare} voters may fail",
                member.server.0,
                members.len()
            );
            facts.push(("role", text));
            if let Some(own) = members.get(&member.server) {
                facts.push(("member", own.to_string()));
            }
            let files = if member.files.has_dynamic_file { "in a dynamic configuration file" } else { "in this file" };
            facts.push(("members", format!("{files}, version {:x}", member.ensemble.version())));
        }
    }
    facts.push((
        "clients",
        match config.client_port {
            None => "no client port".to_owned(),
            Some(port) => match config.client_address {
                Some(address) => std::net::SocketAddr::new(address, port).to_string(),
                None => format!("port {port} on every interface"),
            },
        },
    ));
    let (min, max) = (config.min_session_timeout_ms, config.max_session_timeout_ms);
    facts.push(("sessions", format!("time out after {min} to {max} ms")));
    facts.push((
        "commands",
        match &config.four_letter_whitelist {
            FourLetterWhitelist::All => "all four-letter commands are enabled".to_owned(),
            FourLetterWhitelist::Only(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                format!("four-letter commands enabled: {}", words.join(", "))
            }
        },
    ));
    let purge = match config.autopurge.interval_ms {
        None => "never: old snapshots and logs are kept".to_owned(),
        Some(ms) => format!("every {} h, {} snapshots are kept", ms / 3_600_000, config.autopurge.snap_retain_count),
    };
    facts.push(("purge", purge));
    facts
}

/// Remarks on the directories; an error if the server would not start with one.
fn directories(config: &Config) -> Vec<(&'static str, Result<String, String>)> {
    let create = config.storage.datadir_autocreate;
    let mut found = vec![("dataDir", directory(&config.data_dir, create))];
    if config.data_log_dir != config.data_dir {
        found.push(("dataLogDir", directory(&config.data_log_dir, create)));
    }
    found
}

fn directory(dir: &Path, create: bool) -> Result<String, String> {
    let path = dir.join(VERSION_DIR);
    let shown = dir.display();
    let Some(nearest) = path.ancestors().map(or_here).find(|ancestor| ancestor.exists()) else {
        return Err(format!("{shown} does not exist"));
    };
    if !nearest.is_dir() {
        return Err(format!("{shown} cannot be used: {} is not a directory", nearest.display()));
    }
    if nearest != path && !create {
        return Err(format!("{} does not exist, and zookeeper.datadir.autocreate is false", path.display()));
    }
    if let Err(error) = access(nearest, Access::WRITE_OK | Access::EXEC_OK) {
        return Err(format!("{shown} cannot be used: cannot write to {}: {error}", nearest.display()));
    }
    if nearest != path {
        return Ok(format!("{shown} (new: it will be created)"));
    }
    let dirs = Dirs { snapshots: path.clone(), logs: path.clone() };
    Ok(match ox_store::names::list(&ox_store::disk::RealDisk, &dirs) {
        Ok(listing) => {
            format!("{shown} (contains {} snapshots and {} logs)", listing.snapshots.len(), listing.logs.len())
        }
        Err(error) => return Err(error.to_string()),
    })
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn in_json(explained: &Explained, refusal: Option<&str>) -> Value {
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
            "effect": item.effect.as_str().to_lowercase(),
            "why": consequence(&item.effect),
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
        "starts": refusal.is_none(),
        "error": refusal,
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
