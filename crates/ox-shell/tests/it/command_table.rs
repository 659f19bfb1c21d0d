//! The committed page matches the command table.

const BEGIN: &str =
    "<!-- Generated from crates/ox-shell/src/commands.rs; UPDATE_DOCS=1 cargo test -p ox-shell writes it. -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn shell_page_matches_the_command_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/develop/shell.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let fresh = format!("{head}{BEGIN}{}{END}{tail}", ox_shell::command_table::command_table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/develop/shell.md is stale; run UPDATE_DOCS=1 cargo test -p ox-shell");
}
