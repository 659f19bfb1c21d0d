//! Access control lists as users write them: `scheme:id:perms,scheme:id:perms`.

use crate::shell::Shell;
use ox_client::acl::{Acl, perms};

/// Parses an ACL. Compat: invalid entries are reported and skipped; an id may contain colons, but no comma.
pub fn parse(shell: &Shell, text: &str) -> Vec<Acl> {
    let mut list = Vec::new();
    for entry in text.split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        match parts {
            Some((scheme, (id, letters))) => list.push(Acl::new(bits(shell, letters), scheme, id)),
            None => shell.info(&format!("{entry} does not have the form scheme:id:perm")),
        }
    }
    list
}

fn bits(shell: &Shell, letters: &str) -> i32 {
    let mut bits = 0;
    for letter in letters.chars() {
        match perms::from_letter(letter) {
            Some(bit) => bits |= bit,
            None => shell.info(&format!("Unknown perm type: {letter}")),
        }
    }
    bits
}
