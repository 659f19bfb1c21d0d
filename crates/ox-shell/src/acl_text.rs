//! Access control lists as users write them: `scheme:id:perms,scheme:id:perms`.

use crate::shell::Shell;
use ox_client::acl::{Acl, perms};

/// Compat: the letters in the order in which `getAcl` prints them.
const LETTERS: [(char, i32); 5] =
    [('c', perms::CREATE), ('d', perms::DELETE), ('r', perms::READ), ('w', perms::WRITE), ('a', perms::ADMIN)];

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
        match LETTERS.iter().find(|(known, _)| *known == letter) {
            Some((_, bit)) => bits |= bit,
            None => shell.info(&format!("Unknown perm type: {letter}")),
        }
    }
    bits
}

/// Permission bits as letters, for example `cdrwa`.
pub fn letters(bits: i32) -> String {
    LETTERS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter).collect()
}
