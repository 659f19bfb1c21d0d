//! `get`: prints the data of a node.

use crate::command_error::CommandError;
use crate::json_indent;
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use crate::stat_text::{self, StatJson};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::Node;
use serde::Serialize;

/// A node as JSON.
#[derive(Serialize)]
pub(super) struct NodeJson {
    path: String,
    /// Text or null; omitted if the data is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

impl NodeJson {
    pub(super) fn new(path: &str, node: &Node, as_base64: bool, with_stat: bool) -> Self {
        let text = if node.is_null { Some(None) } else { String::from_utf8(node.data.clone()).ok().map(Some) };
        let data = text.filter(|text| !as_base64 || text.is_none());
        let base64 = data.is_none().then(|| BASE64_STANDARD.encode(&node.data));
        Self { path: path.to_owned(), data, base64, stat: with_stat.then(|| StatJson::from(&node.stat)) }
    }
}

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let mut watches = args.has("-w");
    if args.operand(1).is_some() {
        shell.info("'get path [watch]' has been deprecated. Please use 'get [-s] [-w] path' instead.");
        watches = true;
    }
    let path = shell.path(args.required(0)?)?;
    let client = shell.connected_client().await?;
    let node = match watches {
        true => {
            let (node, watch) = client.get_and_watch(&path).await?;
            shell.watches.push(ActiveWatch { path: path.clone(), watch: WatchHandle::Data(watch) });
            node
        }
        false => client.get(&path).await?,
    };
    shell.catch_up();
    if shell.is_json(args) {
        return shell.out.json(&NodeJson::new(&path, &node, args.has("-b"), args.has("-s")));
    }
    if !shell.is_zkcli() && !args.has("-x") && !args.has("-b") {
        print(shell, args, &node)?;
        return if args.has("-s") { stat_text::print(&shell.out, &node.stat) } else { Ok(()) };
    }
    let data = if node.is_null { b"null" } else { &*node.data };
    match () {
        () if args.has("-x") => shell.out.bytes(hex_dump(data).as_bytes())?,
        () if args.has("-b") => shell.out.line(&BASE64_STANDARD.encode(data))?,
        () => shell.out.line(&shell.out.escape_untrusted(&String::from_utf8_lossy(data)))?,
    }
    if args.has("-s") { stat_text::print(&shell.out, &node.stat) } else { Ok(()) }
}

/// Prints data in the native style: unchanged bytes into pipes, escaped on a terminal.
fn print(shell: &Shell, args: &CommandArgs, node: &Node) -> Result<(), CommandError> {
    if args.has("--raw") {
        return shell.out.bytes(&node.data);
    }
    if args.has("--pretty")
        && let Some(text) = json_indent::indent(&node.data)
    {
        return shell.out.line(&shell.out.escape_untrusted(&text));
    }
    if !shell.out.is_terminal() {
        shell.out.bytes(&node.data)?;
        return shell.out.bytes(b"\n");
    }
    match node.data.as_slice() {
        _ if node.is_null => shell.out.line(&shell.out.paint(Paint::Faint, "(null)")),
        [] => shell.out.line(&shell.out.paint(Paint::Faint, "(empty)")),
        data => shell.out.line(&shell.out.escape_untrusted(&String::from_utf8_lossy(data))),
    }
}

/// A hex dump, sixteen bytes per line, as `zkCli` prints it.
fn hex_dump(data: &[u8]) -> String {
    const RULE: &str = "+--------+-------------------------------------------------+----------------+\n";
    if data.is_empty() {
        return "\n".to_owned();
    }
    let mut text = format!(
        "         +-------------------------------------------------+\n         \
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n{RULE}"
    );
    for (row, bytes) in data.chunks(16).enumerate() {
        let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let letters: String =
            bytes.iter().map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' }).collect();
        text.push_str(&format!("|{:08x}|{hex:48} |{letters:16}|\n", row * 16));
    }
    text + RULE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_dump_matches_zkcli() {
        let text = hex_dump(b"0123456789abcdef\x00\xff z");
        let rows: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(rows[0], "|00000000| 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 |0123456789abcdef|");
        assert_eq!(rows[1], "|00000010| 00 ff 20 7a                                     |.. z            |");
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn json_distinguishes_text_bytes_and_null() {
        let json = |node: &Node, as_base64| {
            serde_json::to_string(&NodeJson::new("/a", node, as_base64, false)).expect("plain strings")
        };
        let text = Node { data: b"hi".to_vec(), ..Node::default() };
        assert_eq!(json(&text, false), r#"{"path":"/a","data":"hi"}"#);
        assert_eq!(json(&text, true), r#"{"path":"/a","base64":"aGk="}"#);
        let bytes = Node { data: vec![0xff], ..Node::default() };
        assert_eq!(json(&bytes, false), r#"{"path":"/a","base64":"/w=="}"#);
        let null = Node { is_null: true, ..Node::default() };
        assert_eq!(json(&null, true), r#"{"path":"/a","data":null}"#);
    }
}
