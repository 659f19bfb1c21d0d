//! Access control lists as users write them: `scheme:id:perms,scheme:id:perms`.

use crate::command_error::CommandError;
use crate::shell::Shell;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::acl::{Acl, perms};

/// The shortest digest of a password, in bytes. SHA1, the default of servers, has 20.
const DIGEST_MIN: usize = 16;

/// The forms of an ACL, for `help`.
pub const FORMS: &[&str] = &[
    "An acl is a list: scheme:id:perms,... with perms of cdrwa (create, delete, read, write, admin)",
    "  world:anyone:r          all clients",
    "  auth::cdrwa             the identities of this session, after addauth",
    "  digest:bob:HASH:rw      the user bob, with the hash that getAcl shows",
    "  ip:10.0.0.0/8:r         the clients of a network",
    "  x509:CN=bob:rw          the owner of a certificate",
    "  sasl:bob:rw             a user of SASL",
];

/// Parses an ACL; an id may contain colons, but no comma. An invalid entry fails. Compat: with `--zkcli`, invalid entries
/// and letters are only reported and skipped, which can leave a node that no client may change.
pub fn parse(shell: &Shell, text: &str) -> Result<Vec<Acl>, CommandError> {
    let mut list = Vec::new();
    for entry in text.split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        match parts {
            Some((scheme, (id, letters))) => {
                if scheme == "digest" && !shell.is_zkcli() {
                    check_digest(id)?;
                }
                list.push(Acl::new(bits(shell, text, letters)?, scheme, id));
            }
            None if shell.is_zkcli() => shell.info(&format!("{entry} does not have the form scheme:id:perm")),
            None => return Err(invalid(text, &format!("{entry:?} does not have the form scheme:id:perms"))),
        }
    }
    Ok(list)
}

/// No password matches an id whose last part is not the hash of one: the node would be locked to all clients. The
/// message leaves that part out, because it probably is a password.
fn check_digest(id: &str) -> Result<(), CommandError> {
    let (user, hash) = id.rsplit_once(':').unwrap_or((id, ""));
    match BASE64_STANDARD.decode(hash).is_ok_and(|digest| DIGEST_MIN <= digest.len()) {
        true => Ok(()),
        false => Err(CommandError::message(format!(
            "Invalid ACL: digest:{user} is not followed by the hash of a password, so no client would match\n\
             hint: `addauth digest user:password` first, then auth::cdrwa"
        ))),
    }
}

fn bits(shell: &Shell, acl: &str, letters: &str) -> Result<i32, CommandError> {
    let mut bits = 0;
    for letter in letters.chars() {
        match perms::from_letter(letter) {
            Some(bit) => bits |= bit,
            None if shell.is_zkcli() => shell.info(&format!("Unknown perm type: {letter}")),
            None => {
                let text = format!(
                    "unknown permission {letter}: the letters are c (create), d (delete), r (read), w (write) and \
                     a (admin); cdrwa permits everything"
                );
                return Err(invalid(acl, &text));
            }
        }
    }
    match bits {
        0 if !shell.is_zkcli() => Err(invalid(acl, "it permits nothing; r, for example, permits to read")),
        bits => Ok(bits),
    }
}

fn invalid(acl: &str, cause: &str) -> CommandError {
    let hint =
        if acl.contains(':') { "" } else { "\nhint: world:anyone:r, for example; quote data that contains spaces" };
    CommandError::message(format!("Invalid ACL {acl}: {cause}{hint}"))
}
