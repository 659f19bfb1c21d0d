//! States in the form of the golden sets' `expected.json`.

use ox_tree::State;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory of the golden sets.
pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

#[derive(Deserialize)]
pub(crate) struct IndexEntry {
    pub(crate) set: String,
    #[serde(rename = "dataDir")]
    pub(crate) data_dir: String,
    #[serde(rename = "dataLogDir")]
    pub(crate) log_dir: String,
    pub(crate) required_outcome: String,
    pub(crate) properties: BTreeMap<String, String>,
}

pub(crate) fn index() -> Vec<IndexEntry> {
    serde_json::from_slice(&std::fs::read(testdata().join("index.json")).unwrap()).unwrap()
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Expected {
    pub(crate) last_zxid: Option<String>,
    pub(crate) tree_digest: Option<i64>,
    pub(crate) tree_ref: Option<String>,
    #[serde(default)]
    pub(crate) sessions: BTreeMap<String, i32>,
    #[serde(default)]
    pub(crate) ephemerals: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) nodes: Vec<Value>,
}

/// Reads `expected.json` of a set, and resolves a reference to another set's tree.
pub(crate) fn expected(set: &str) -> Expected {
    let path = testdata().join(set).join("expected.json");
    let own: Expected = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    match own.tree_ref.clone() {
        None => own,
        Some(other) => {
            let path = testdata().join(set).join(other);
            let mut tree: Expected = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            tree.last_zxid = own.last_zxid.or(tree.last_zxid);
            tree
        }
    }
}

fn hex(number: i64) -> String {
    format!("{number:#x}")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn unzip(text: &str) -> String {
    use base64::Engine;
    use std::io::Read;
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    base64(&bytes)
}

/// Every node of a state, sorted by path.
pub(crate) fn nodes_of(state: &State) -> Vec<Value> {
    let frozen = state.freeze();
    let entry = |acl: &ox_proto::Acl| json!({"perms": acl.perms, "scheme": *acl.scheme, "id": *acl.id});
    let lists: BTreeMap<i64, Vec<Value>> =
        frozen.acls().map(|(id, acls)| (id, acls.iter().map(entry).collect())).collect();
    let open = vec![json!({"perms": 31, "scheme": "world", "id": "anyone"})];
    let mut nodes = Vec::new();
    let visit = |node: ox_tree::FrozenNode<'_>| {
        let path = if node.path.is_empty() { "/" } else { node.path };
        let stat = state.stat(path).unwrap();
        nodes.push(json!({
            "path": path,
            "data": node.data.map(base64),
            "acl": if node.acl == -1 { &open } else { &lists[&node.acl] },
            "stat": {
                "czxid": hex(stat.czxid.0),
                "mzxid": hex(stat.mzxid.0),
                "ctime": stat.ctime,
                "mtime": stat.mtime,
                "version": stat.version,
                "cversion": stat.cversion,
                "aversion": stat.aversion,
                "ephemeralOwner": hex(stat.ephemeral_owner),
                "dataLength": stat.data_length,
                "numChildren": stat.num_children,
                "pzxid": hex(stat.pzxid.0),
            },
            "disk": {"cversion": node.stat.cversion, "ephemeralOwner": hex(node.stat.ephemeral_owner)},
        }));
        Ok::<(), ()>(())
    };
    frozen.for_each_node(visit).unwrap();
    sorted(nodes)
}

fn sorted(mut nodes: Vec<Value>) -> Vec<Value> {
    nodes.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    nodes
}

/// The node with its data uncompressed.
fn unpacked(mut node: Value) -> Value {
    let fields = node.as_object_mut().unwrap();
    if let Some(packed) = fields.remove("data_zlib") {
        fields.remove("data_sha256");
        fields.insert("data".to_owned(), unzip(packed.as_str().unwrap()).into());
    }
    node
}

pub(crate) fn check_state(state: &State, expected: &Expected, what: &str) {
    if let Some(last) = &expected.last_zxid {
        assert_eq!(hex(state.last_zxid().0), *last, "{what}: last zxid");
    }
    let wanted = sorted(expected.nodes.iter().cloned().map(unpacked).collect());
    let found = nodes_of(state);
    let paths = |nodes: &[Value]| nodes.iter().map(|node| node["path"].clone()).collect::<Vec<_>>();
    assert_eq!(paths(&found), paths(&wanted), "{what}: paths");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted, "{what}");
    }
    let sessions: BTreeMap<_, _> = state.sessions().map(|(id, timeout)| (hex(id.0), timeout)).collect();
    assert_eq!(sessions, expected.sessions, "{what}: sessions");
    let mut ephemerals = BTreeMap::new();
    for (session, paths) in state.ephemerals() {
        ephemerals.extend(paths.into_iter().map(|path| (path, hex(session.0))));
    }
    assert_eq!(ephemerals, expected.ephemerals, "{what}: ephemerals");
    if let Some(digest) = expected.tree_digest {
        assert_eq!(state.digest(), digest, "{what}: digest");
    }
}
