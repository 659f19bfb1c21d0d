//! Access control lists as users write them: `scheme:id:perms,scheme:id:perms`.

use crate::command_error::CommandError;
use crate::shell::Shell;
use ox_client::acl::{Acl, perms};

/// Parses an ACL; an id may contain colons, but no comma. An invalid entry fails. Compat: with `--zkcli`, invalid entries
/// and letters are only reported and skipped, which can leave a node that no client may change.
pub fn parse(shell: &Shell, text: &str) -> Result<Vec<Acl>, CommandError> {
    let mut list = Vec::new();
    for entry in text.split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        match parts {
            Some((scheme, (id, letters))) => list.push(Acl::new(bits(shell, text, letters)?, scheme, id)),
            None if shell.is_zkcli() => shell.info(&format!("{entry} does not have the form scheme:id:perm")),
            None => return Err(invalid(text, &format!("{entry:?} does not have the form scheme:id:perms"))),
        }
    }
    Ok(list)
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
    let hint = if acl.contains(':') { "" } else { "\nhint: quote data that contains spaces" };
    CommandError::message(format!("Invalid ACL {acl}: {cause}{hint}"))
}
