//! Parses the `server.N`, `group.N` and `weight.N` lines of `zoo.cfg` or of a dynamic configuration file.

use std::collections::BTreeMap;

use ox_proto::ServerId;
use ox_proto::ensemble::{Addresses, EnsembleBuilder, EnsembleError, Role};

use crate::address::Address;
use crate::error::{ErrorCollector, Place};
use crate::settings::Entry;
use crate::start_args::Environment;

/// The value of a `server.N` line.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) role: Role,
    /// The part after the semicolon.
    pub(crate) client: Option<Address>,
}

/// Context for parsing member lines.
#[derive(Clone, Copy)]
pub(crate) struct ParseContext<'a> {
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) addresses: Addresses,
}

/// All members by id, with their groups checked, and the ensemble that they form; `None` if a line is wrong.
pub(crate) fn read<'e>(
    lines: impl IntoIterator<Item = (&'e str, &'e Entry)>,
    context: ParseContext<'_>,
    errors: &mut ErrorCollector,
) -> Option<(BTreeMap<i64, Member>, EnsembleBuilder)> {
    let mut is_complete = true;
    let mut builder = EnsembleBuilder::new(context.addresses);
    let mut places: BTreeMap<ServerId, &Place> = BTreeMap::new();
    for (key, entry) in lines {
        // Compat: a version in zoo.cfg is parsed although nothing uses it (probed case "version in static file").
        let added = builder.add(key, &entry.raw).map_err(|error| entry.place.error(error.into()));
        is_complete &= errors.check(added).is_some();
        if let Some(id) = key.strip_prefix("server.").and_then(|id| id.parse().ok()) {
            places.insert(ServerId(id), &entry.place);
        }
    }
    if !is_complete {
        return None;
    }
    if let Some(id) = builder.participant_without_group() {
        errors.add(places[&id].error(EnsembleError::InNoGroup(id).into()));
        return None;
    }
    let members = builder.members().iter().map(|(id, member)| {
        let client = member.client.as_ref().map(|client| Address::new(&client.host, client.port, context.environment));
        (id.0, Member { role: member.role, client })
    });
    Some((members.collect(), builder))
}
