//! Decides whether the configuration describes a standalone server or a member of an ensemble, and determines the
//! client port.
//!
//! Runs after all other checks, as in Apache, and reads two more files: `myid` and the dynamic configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use ox_proto::ServerId;
use ox_proto::ensemble::{Addresses, Ensemble, EnsembleBuilder, Role, is_member_key};

use crate::address::Address;
use crate::diagnostic::Diagnostic;
use crate::error::{self, Cause, ConfigError, DataDirState, ErrorCollector, Place};
use crate::java_values;
use crate::member_config::{MemberConfig, Members};
use crate::server_lines::{self, Member, ParseContext};
use crate::settings::{self, Settings};
use crate::start_args::Environment;

/// Returns the client address, from `zoo.cfg` or from the server's `server.N` line, and the settings of an ensemble
/// member.
pub(crate) fn read(
    settings: &Settings,
    fixed: Option<Address>,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) -> (Option<Address>, Option<MemberConfig>) {
    let Place::File { .. } = settings.place() else {
        return (fixed, None);
    };
    let addresses = addresses(settings);
    let members = read_members(settings, environment, addresses, errors);
    let count = members.as_ref().map(|(members, _)| Count::of(members));
    if let Some(count) = &count {
        errors.check(check_count(settings, count, diagnostics));
    }
    if is_ensemble(settings, count.as_ref()) {
        check_limits(settings, errors);
    }
    let my_id = errors.check(read_my_id(settings, environment));
    let (Some((members, builder)), Some(count), Some(my_id)) = (members, count, my_id) else {
        return (None, None);
    };
    let mine = my_id.and_then(|id| members.get(&id));
    let address = errors.check(reconcile(settings, my_id, fixed, mine)).flatten();
    check_role(settings, mine, diagnostics);
    warn_of_equal_addresses(settings, &builder, diagnostics);
    if !is_ensemble(settings, Some(&count)) {
        diagnostics.push(Diagnostic::info(
            None,
            "Either no config or no quorum defined in config, running in standalone mode",
        ));
        return (address, None);
    }
    let place = members_place(settings);
    let (path, ids) = (my_id_path(settings), members.keys().copied().collect());
    let data_dir = Box::new(data_dir_state(settings, environment));
    let id = match (my_id, mine) {
        (None, _) => Err(settings.place().error(Cause::MyIdMissing { path, data_dir, ids })),
        (Some(id), None) => Err(settings.place().error(Cause::NotAMember { path, id })),
        (Some(id), Some(_)) => Ok(ServerId(id)),
    };
    if settings.text("dataDir").is_none_or(|dir| dir.is_empty()) {
        return (address, None); // an error already, and `myid` cannot be found
    }
    let id = errors.check(id);
    warn_of_unknown_host(settings, &builder, my_id, environment, diagnostics);
    let ensemble = errors.check(builder.finish().map_err(|error| place.error(error.into())));
    let (Some(id), Some(ensemble)) = (id, ensemble) else {
        return (address, None);
    };
    let proposed =
        if settings.flag("reconfigEnabled") { read_proposed(settings, environment, diagnostics) } else { None };
    let members = Members { ensemble, proposed, addresses };
    (address, Some(MemberConfig::new(settings, id, members)))
}

/// Whether the server is a member of an ensemble. If the members cannot be read (`count` is `None`), the number of
/// their lines decides, so that missing settings of an ensemble are reported together with the errors in these lines.
fn is_ensemble(settings: &Settings, count: Option<&Count>) -> bool {
    let lines = || settings.lines().iter().filter(|(name, _)| name.starts_with("server.")).count();
    let voters = match count {
        Some(count) => count.participants,
        None if settings.line("dynamicConfigFile").is_some() => return true,
        None => lines(),
    };
    1 < voters || !settings.flag("standaloneEnabled")
}

/// Two servers with one quorum or election address: the second of them cannot bind it, or both reach the first.
fn warn_of_equal_addresses(settings: &Settings, builder: &EnsembleBuilder, diagnostics: &mut Vec<Diagnostic>) {
    let mut owners: BTreeMap<String, ServerId> = BTreeMap::new();
    for (id, member) in builder.members() {
        for address in member.quorum.iter().chain(&member.election) {
            let address = address.to_string();
            if let Some(other) = owners.get(&address) {
                let text =
                    format!("server.{other} and server.{id} have the same address {address}; only one can start");
                let place =
                    settings.line(&format!("server.{id}")).map_or(members_place(settings), |entry| &entry.place);
                diagnostics.push(Diagnostic::warn(place, text));
            } else {
                owners.insert(address, *id);
            }
        }
    }
}

/// The server binds its ports at the host of its own line, so that the name must resolve before it can start.
fn warn_of_unknown_host(
    settings: &Settings,
    builder: &EnsembleBuilder,
    my_id: Option<i64>,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let own = my_id.and_then(|id| builder.members().iter().find(|(server, _)| server.0 == id));
    let Some((id, member)) = own.filter(|_| !settings.flag("quorumListenOnAllIPs")) else { return };
    let hosts: BTreeSet<&str> = member.quorum.iter().chain(&member.election).map(|address| &*address.host).collect();
    for host in hosts.into_iter().filter(|host| Address::new(host, 0, environment).ip.is_none()) {
        let text = format!(
            "server.{id}: the host {host} of this server does not resolve, and its ports cannot be opened until it \
             does: correct the name, or add it to the DNS or to /etc/hosts"
        );
        let place = settings.line(&format!("server.{id}")).map_or(members_place(settings), |entry| &entry.place);
        diagnostics.push(Diagnostic::warn(place, text));
    }
}

/// Checks the settings that every member of an ensemble needs.
fn check_limits(settings: &Settings, errors: &mut ErrorCollector) {
    for key in ["initLimit", "syncLimit"] {
        if settings.optional_int(key).unwrap_or(0) == 0 {
            let is_given = settings.line(key).is_some();
            let cause = if is_given { Cause::Zero(key) } else { Cause::NotSet(key) };
            errors.add(settings.place_of(key).error(cause));
        }
    }
}

/// The proposed configuration in the `.next` file beside the configuration. An unreadable file counts as absent: the
/// log may hold the proposal too.
fn read_proposed(
    settings: &Settings,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Ensemble> {
    settings.line("dynamicConfigFile")?;
    let path = format!("{}.dynamic.next", settings.place().file()?);
    let bytes = (environment.read)(Path::new(&path)).ok()?;
    let text: String = bytes.iter().copied().map(char::from).collect();
    match Ensemble::parse(&text, Addresses::Several) {
        Ok(proposed) => Some(proposed),
        Err(error) => {
            diagnostics.push(Diagnostic::warn(settings.place(), format!("{path} is ignored: {error}")));
            None
        }
    }
}

/// The configuration version in the name of a dynamic file: its hexadecimal suffix.
fn version_of(file: &str) -> i64 {
    // Compat: a suffix that is not a number counts as none.
    let suffix = file.rsplit_once('.').map(|(_, suffix)| suffix);
    suffix.and_then(|suffix| i64::from_str_radix(suffix, 16).ok()).unwrap_or(0)
}

fn addresses(settings: &Settings) -> Addresses {
    // Compat: Apache ignores the key in `zoo.cfg` here (recorded case "multiple addresses, key only in zoo.cfg").
    let property = settings.property("zookeeper.multiAddress.enabled");
    let several = property.is_some_and(|entry| entry.text.eq_ignore_ascii_case("true"));
    if several { Addresses::Several } else { Addresses::One }
}

/// The place to blame for errors in the member list: its first line, or the line that names the dynamic file.
pub(crate) fn members_place(settings: &Settings) -> &Place {
    let lines = settings.lines();
    let member = lines.iter().find(|(name, _)| is_member_key(name));
    let entry = member.map(|(_, entry)| *entry).or_else(|| settings.line("dynamicConfigFile"));
    entry.map_or(settings.place(), |entry| &entry.place)
}

/// Parses the members in `zoo.cfg`, or in the dynamic file that it names. `None` if there are errors.
fn read_members(
    settings: &Settings,
    environment: &Environment<'_>,
    addresses: Addresses,
    errors: &mut ErrorCollector,
) -> Option<(BTreeMap<i64, Member>, EnsembleBuilder)> {
    let context = ParseContext { environment, addresses };
    let Some(dynamic) = settings.line("dynamicConfigFile") else {
        return server_lines::read(settings.lines(), context, errors);
    };
    let name = &dynamic.text;
    let bytes = (environment.read)(Path::new(name))
        .map_err(|error| dynamic.place.error(error::unreadable(name.clone(), &error)));
    let bytes = errors.check(bytes)?;
    let mut lines = errors.check(settings::parse_file(name, &bytes))?;
    let is_complete = lines.keys().all(|key| is_member_key(key));
    if let Some(version) = lines.remove("version") {
        errors.add(version.place.error(Cause::VersionInDynamicFile));
    }
    for (key, entry) in lines.extract_if(.., |key, _| !is_member_key(key)) {
        errors.add(entry.place.error(Cause::NotDynamic(key)));
    }
    let members = lines.iter().map(|(key, entry)| (key.as_str(), entry));
    let (members, mut builder) = server_lines::read(members, context, errors)?;
    builder.set_version(version_of(name));
    is_complete.then_some((members, builder))
}

struct Count {
    participants: usize,
    observers: usize,
}

impl Count {
    fn of(members: &BTreeMap<i64, Member>) -> Count {
        let participants = members.values().filter(|member| member.role == Role::Participant);
        let participants = participants.count();
        Count { participants, observers: members.len() - participants }
    }
}

fn check_count(settings: &Settings, count: &Count, diagnostics: &mut Vec<Diagnostic>) -> Result<(), ConfigError> {
    let place = members_place(settings);
    let error = |cause| Err(place.error(cause));
    // A member whose dynamic file was truncated must not serve its data as a standalone server.
    if let Some(dynamic) = settings.line("dynamicConfigFile").filter(|_| count.participants + count.observers == 0) {
        return error(Cause::NoMembersInDynamicFile(dynamic.text.clone()));
    }
    match (count.participants, settings.flag("standaloneEnabled")) {
        (0, false) => return Err(settings.place_of("standaloneEnabled").error(Cause::NoParticipants)),
        (0, true) if 0 < count.observers => return error(Cause::ObserversAlone),
        (0, true) => (),
        (1, true) => {
            diagnostics.push(Diagnostic::error(place, "Invalid configuration, only one server specified (ignoring)"));
            if 0 < count.observers {
                return error(Cause::ObserversOfOne);
            }
        }
        (1 | 2, _) => {
            let text = "No server failure will be tolerated. You need at least 3 servers.";
            diagnostics.push(Diagnostic::warn(place, text));
        }
        (even, _) if even % 2 == 0 => {
            let text = "Non-optimal configuration, consider an odd number of servers.";
            diagnostics.push(Diagnostic::warn(place, text));
        }
        _ => (),
    }
    Ok(())
}

fn my_id_path(settings: &Settings) -> String {
    let data_dir = settings.text("dataDir").unwrap_or_default();
    Path::new(&data_dir).join("myid").display().to_string()
}

fn data_dir_state(settings: &Settings, environment: &Environment<'_>) -> DataDirState {
    let dir = settings.text("dataDir").unwrap_or_default();
    match (environment.read)(Path::new(&dir)) {
        Ok(_) => DataDirState::NotADirectory(dir),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => DataDirState::NotADirectory(dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => DataDirState::Missing(dir),
        Err(_) => DataDirState::Exists,
    }
}

/// The id in the first line of `myid`, without surrounding blanks; `None` if the file does not exist.
fn read_my_id(settings: &Settings, environment: &Environment<'_>) -> Result<Option<i64>, ConfigError> {
    use io::ErrorKind as K;
    let path = my_id_path(settings);
    let bytes = match (environment.read)(Path::new(&path)) {
        Ok(bytes) => bytes,
        // Whether `dataDir` is a directory is checked when the data is opened.
        Err(error) if matches!(error.kind(), K::NotFound | K::IsADirectory | K::NotADirectory) => return Ok(None),
        Err(error) => return Err(settings.place().error(error::unreadable(path, &error))),
    };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split(['\n', '\r']).next().unwrap_or_default().to_owned();
    match java_values::long(&text) {
        Some(id) => Ok(Some(id)),
        None => Err(settings.place().error(Cause::MyIdNotANumber { text, path })),
    }
}

/// The client address of this server, which `zoo.cfg` and the `server.N` line may both set.
fn reconcile(
    settings: &Settings,
    my_id: Option<i64>,
    fixed: Option<Address>,
    mine: Option<&Member>,
) -> Result<Option<Address>, ConfigError> {
    let Some(dynamic) = mine.and_then(|member| member.client.clone()) else {
        return Ok(fixed);
    };
    match (my_id, fixed) {
        (Some(id), Some(fixed)) if !dynamic.agrees_with(&fixed) => {
            let (fixed, dynamic) = (fixed.java_text(), dynamic.java_text());
            let cause = Cause::ClientAddressesDiffer { id, fixed, dynamic };
            Err(settings.place_of("clientPort").error(cause))
        }
        _ => Ok(Some(dynamic)),
    }
}

fn check_role(settings: &Settings, mine: Option<&Member>, diagnostics: &mut Vec<Diagnostic>) {
    let configured = settings.text("peerType").and_then(|text| Role::parse(&text).ok());
    let role = mine.map_or(Role::Participant, |member| member.role);
    if let Some(configured) = configured.filter(|configured| *configured != role) {
        let text = format!(
            "Peer type from servers list ({}) doesn't match peerType ({}). Defaulting to servers list.",
            role.upper_name(),
            configured.upper_name()
        );
        diagnostics.push(Diagnostic::warn(settings.place_of("peerType"), text));
    }
}
