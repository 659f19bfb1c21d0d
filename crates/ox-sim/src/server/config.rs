//! Configuration files. As in production, the log job writes them, in order with all other disk work, and every start
//! reads them.

use crate::plan::Plan;
use crate::server::member::server_id;
use ox_proto::ensemble::{Addresses, Ensemble};
use ox_proto::properties;
use ox_store::ConfigFiles;
use ox_store::config_files::NEXT;
use ox_store::disk::{Disk, OpenMode, SimDisk};
use ox_zab::ConfigPair;
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "/conf/zoo.cfg";

/// The `server.N` line of a server.
pub(crate) fn member(number: usize, role: &str) -> String {
    let id = server_id(number);
    format!("server.{id}=server{id}:2888:3888:{role};2181")
}

/// The initial configuration of a plan.
pub(crate) fn first(plan: &Plan) -> Ensemble {
    let role = |number: usize| if number < plan.voters { "participant" } else { "observer" };
    let mut lines: Vec<String> = (0..plan.servers()).map(|number| member(number, role(number))).collect();
    if plan.groups && 3 <= plan.voters && !plan.is_dynamic() {
        lines.extend(groups(plan.voters));
    }
    Ensemble::parse(&lines.join("\n"), Addresses::One).expect("a plan has voters")
}

/// Three groups, any two of which are a quorum. Voter 4 has weight 0, voter 5 has weight 2.
fn groups(voters: usize) -> impl Iterator<Item = String> {
    let members = move |group: usize| {
        let ids: Vec<String> = (group..voters).step_by(3).map(|number| server_id(number).to_string()).collect();
        format!("group.{}={}", group + 1, ids.join(":"))
    };
    let weight = |number: usize| match number {
        3 => 0,
        4 => 2,
        _ => 1,
    };
    let weights = (0..voters).map(move |number| format!("weight.{}={}", server_id(number), weight(number)));
    (0..3).map(members).chain(weights)
}

/// Installs the configuration file for the first start of a server.
pub(crate) fn install(disk: &SimDisk, plan: &Plan) {
    let text = first(plan).to_string();
    let members = text.lines().filter(|line| !line.starts_with("version=")).collect::<Vec<_>>().join("\n");
    disk.install(Path::new(FILE), format!("tickTime={}\n{members}\n", plan.tick_ms).as_bytes());
}

/// The configuration files of a server.
pub(crate) fn files(disk: Arc<dyn Disk>, number: usize) -> ConfigFiles {
    ConfigFiles::new(disk, Path::new(FILE), server_id(number)).expect("the file has a name")
}

/// The committed and the proposed configuration in the files.
pub(crate) fn read(disk: &dyn Disk) -> Result<(Ensemble, Option<Ensemble>), String> {
    let lines = text(disk, FILE)?.ok_or("the configuration file is missing")?;
    let named = properties::parse_text(&lines).map_err(|error| format!("{error:?}"))?;
    let named = named.into_iter().find(|pair| pair.key == "dynamicConfigFile").map(|pair| pair.value.to_string());
    let ensemble = match named {
        None => {
            let is_member = |line: &&str| ["server.", "group.", "weight."].iter().any(|key| line.starts_with(key));
            let members: Vec<&str> = lines.lines().filter(is_member).collect();
            parse(&members.join("\n"))?
        }
        Some(path) => {
            let members = text(disk, &path)?.ok_or_else(|| format!("{path} is missing"))?;
            let version = path.rsplit('.').next().unwrap_or_default();
            parse(&format!("{members}\nversion={version}"))?
        }
    };
    let proposed = text(disk, &format!("{FILE}{}", NEXT))?;
    Ok((ensemble, proposed.map(|text| parse(&text)).transpose()?))
}

fn parse(text: &str) -> Result<Ensemble, String> {
    Ensemble::parse(text, Addresses::One).map_err(|error| format!("{error}: {text}"))
}

fn text(disk: &dyn Disk, path: &str) -> Result<Option<String>, String> {
    let file = match disk.open(Path::new(path), OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let length = file.len().map_err(|error| error.to_string())?;
    let (mut bytes, mut read) = (vec![0; usize::try_from(length).unwrap_or(0)], 0);
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], read as u64).map_err(|error| error.to_string())? {
            0 => break,
            count => read += count,
        }
    }
    bytes.truncate(read);
    String::from_utf8(bytes).map(Some).map_err(|error| error.to_string())
}

/// The configurations at a start. A proposed one may be in the log and not in a file, or in a file and not in the log.
pub(crate) fn configs((committed, proposed): (Ensemble, Option<Ensemble>), logged: Option<&[u8]>) -> ConfigPair {
    let logged = logged.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| parse(text).ok());
    let proposed = logged.into_iter().chain(proposed).max_by_key(Ensemble::version);
    ConfigPair::dynamic(committed, proposed)
}
