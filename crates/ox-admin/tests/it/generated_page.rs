//! The committed page equals the generated one; `UPDATE_DOCS=1` rewrites it.

#[test]
fn page_of_commands_is_current() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admin.md");
    let page = ox_admin::admin_commands_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == page, "docs/reference/admin.md is stale; UPDATE_DOCS=1 cargo test -p ox-admin writes it");
}
