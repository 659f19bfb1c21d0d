//! The generated pages in `docs/` are up to date.

use std::path::Path;

fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/reference/{name} is stale; run UPDATE_DOCS=1 cargo test -p ox-server");
}

#[test]
fn generated_pages_are_up_to_date() {
    check("metrics.md", &ox_server::metrics_page());
    check("commands.md", &ox_server::commands_page());
}
