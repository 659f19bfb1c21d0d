//! whoAmI: the connection's identities.

use super::Requester;
use crate::auth::user_name;
use ox_proto::jute::{put_count, put_text};

pub(super) fn put(requester: Requester<'_>, out: &mut Vec<u8>) {
    put_count(out, requester.ids.iter().count());
    for identity in requester.ids.iter() {
        put_text(out, &identity.scheme);
        put_text(out, user_name(identity));
    }
}
