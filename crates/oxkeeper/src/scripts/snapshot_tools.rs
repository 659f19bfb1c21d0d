//! `zkSnapShotToolkit.sh`, `zkSnapshotComparer.sh` and `zkSnapshotRecursiveSummaryToolkit.sh`: snapshots as text, their
//! differences, and the sizes of subtrees.

use super::environment::ScriptEnvironment;
use super::options::{self, OptionSpec};
use super::print;
use crate::commands::snapshot::{SnapshotComparison, compare_as_apache, dump_as_apache, summarize_as_apache};
use ox_inspect::dump::snapshot::SnapshotFormat;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Apache's exit code of a wrong command line.
const WRONG_ARGUMENTS: u8 = 2;

pub(super) fn format(_: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let (flags, files): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| matches!(word.as_str(), "-d" | "-json"));
    let has = |name: &str| flags.iter().any(|flag| *flag == name);
    let [file] = files.as_slice() else {
        crate::say(format_args!(
            "USAGE: SnapshotFormatter [-d|-json] snapshot_file
       -d dump the data for each znode
       -json dump znode info in json format"
        ));
        return WRONG_ARGUMENTS.into();
    };
    if has("-d") && has("-json") {
        crate::say(format_args!("Cannot specify both data dump (-d) and json mode (-json) in same call"));
        return WRONG_ARGUMENTS.into();
    }
    let path = Path::new(file);
    if !path.exists() {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        crate::say(format_args!("File '{}' does not exist.", absolute.display()));
        return WRONG_ARGUMENTS.into();
    }
    let format = match (has("-d"), has("-json")) {
        (true, _) => SnapshotFormat::TextWithData,
        (_, true) => SnapshotFormat::Ncdu { now_ms: jiff::Timestamp::now().as_millisecond() },
        _ => SnapshotFormat::Text,
    };
    dump_as_apache(path, format)
}

const COMPARER: [OptionSpec; 6] = [
    OptionSpec { short: 'b', long: "bytes", takes_value: true },
    OptionSpec { short: 'd', long: "debug", takes_value: false },
    OptionSpec { short: 'i', long: "interactive", takes_value: false },
    OptionSpec { short: 'l', long: "left", takes_value: true },
    OptionSpec { short: 'n', long: "nodes", takes_value: true },
    OptionSpec { short: 'r', long: "right", takes_value: true },
];

const COMPARER_USAGE: &str = "\
usage: java -cp <classPath> org.apache.zookeeper.server.SnapshotComparer
 -b,--bytes <BYTETHRESHOLD>   (Required) The node data delta size threshold, in bytes, for printing the node.
 -d,--debug                   Use debug output.
 -i,--interactive             Enter interactive mode.
 -l,--left <LEFT>             (Required) The left snapshot file.
 -n,--nodes <NODETHRESHOLD>   (Required) The descendant node delta size threshold, in nodes, for printing the node.
 -r,--right <RIGHT>           (Required) The right snapshot file.
";

pub(super) fn compare(_: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let refused = |error: &str| {
        crate::say(format_args!("{error}"));
        print(format_args!("{COMPARER_USAGE}"));
        WRONG_ARGUMENTS.into()
    };
    let parsed = match options::parse(words, &COMPARER) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error),
    };
    let missing: Vec<String> =
        ['l', 'r', 'b', 'n'].into_iter().filter(|option| !parsed.has(*option)).map(String::from).collect();
    let (Some(left), Some(right), Some(bytes), Some(nodes)) =
        (parsed.value('l'), parsed.value('r'), parsed.value('b'), parsed.value('n'))
    else {
        let options = if missing.len() == 1 { "option" } else { "options" };
        return refused(&format!("Missing required {options}: {}", missing.join(", ")));
    };
    let (Ok(bytes), Ok(nodes)) = (bytes.parse(), nodes.parse()) else {
        return refused("the arguments of -b and -n are numbers");
    };
    compare_as_apache(&SnapshotComparison {
        left: PathBuf::from(left),
        right: PathBuf::from(right),
        bytes,
        nodes,
        is_debug: parsed.has('d'),
        is_interactive: parsed.has('i'),
    })
}

pub(super) fn summarize(_: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let depth = words.get(2).and_then(|depth| depth.parse::<usize>().ok());
    let ([file, start, _], Some(depth)) = (words, depth) else {
        crate::say(format_args!(
            "USAGE:


SnapshotRecursiveSummary  <snapshot_file>  <starting_node>  <max_depth>


snapshot_file:    path to the zookeeper snapshot
starting_node:    the path in the zookeeper tree where the traversal should begin
max_depth:        defines the depth where the tool still writes to the output. 0 means there is no depth limit, every \
             non-leaf node's stats will be displayed, 1 means it will only contain the starting node's and it's \
             children's stats, 2 ads another level and so on. This ONLY affects the level of details displayed, NOT the \
             calculation."
        ));
        return WRONG_ARGUMENTS.into();
    };
    summarize_as_apache(Path::new(file), start, depth)
}
