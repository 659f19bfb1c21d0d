//! The table of commands, from which help, completion, parsing and usage errors derive.
//!
//! A command is a function of the shell and its arguments. It prints through [`Shell::print`] and
//! [`Shell::out`](crate::shell::Shell::out) and returns failures as [`CommandError`].

mod acl;
mod cp;
mod create;
mod delete;
mod deleteall;
mod diff;
mod du;
mod edit;
mod ensemble;
mod export;
mod find;
mod get;
mod grep;
mod help;
mod history;
mod import;
mod ls;
mod misc;
mod mv;
mod quota;
mod session;
mod set;
mod stat;
mod top;
mod tree;
mod txn;
mod watch;
mod watches;

pub(crate) use ensemble::ServerEntry;

use crate::acl_text;
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::shell::Shell;
use ox_client::{Client, Error, ErrorCode, Version};
use std::ops::RangeInclusive;
use std::pin::Pin;

/// The function that executes a command.
pub type CommandFn =
    for<'a> fn(&'a mut Shell, &'a CommandArgs) -> Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>>;

/// A row of the command table.
#[derive(Debug)]
pub struct CommandSpec {
    /// The name that users type.
    pub name: &'static str,
    /// Syntax after the name. Compat: as `zkCli` prints it, for its commands.
    pub syntax: &'static str,
    /// The syntax in the native style, where it differs.
    pub native_syntax: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
    /// More lines of `help`.
    pub notes: &'static [&'static str],
    /// Options that the command accepts.
    pub options: &'static [Opt],
    /// Whether all words after the name are operands, even with a dash.
    pub ignores_options: bool,
    /// Whether an operand is the data of a node, which must be quoted if it contains blanks.
    pub takes_data: bool,
    /// Whether the command runs until Ctrl-C, which is then not a failure.
    pub runs_until_ctrl_c: bool,
    /// The permitted number of operands. Compat: `zkCli` ignores superfluous ones.
    pub operands: RangeInclusive<usize>,
    /// The largest number of operands in the native style.
    pub operands_max: usize,
    /// Whether a usage error lists the options below the syntax.
    pub explains_options: bool,
    /// Whether the command requires a session.
    pub needs_session: bool,
    /// Whether the program keeps the exit status of the previous command.
    pub keeps_status: bool,
    /// Whether `zkCli` has the command.
    pub is_zkcli: bool,
    /// Which operands are node paths, for completion.
    pub paths: &'static [usize],
    /// The function that executes it.
    pub run: CommandFn,
}

/// Any number of operands: scripts for `zkCli` may pass too many.
const ANY: RangeInclusive<usize> = 0..=usize::MAX;

/// Defaults for `zkCli` commands on a node.
const NODE: CommandSpec = CommandSpec {
    name: "",
    syntax: "",
    native_syntax: None,
    help: "",
    notes: &[],
    options: &[],
    ignores_options: false,
    takes_data: false,
    runs_until_ctrl_c: false,
    operands: 1..=usize::MAX,
    operands_max: 1,
    explains_options: false,
    needs_session: true,
    keeps_status: false,
    is_zkcli: true,
    paths: &[0],
    run: |_, _| Box::pin(async { Ok(()) }),
};

const JSON: Opt = Opt::switch("--json", "Print JSON");

pub(crate) const YES: Opt = Opt::switch("--yes", "Do not ask for confirmation");

/// Defaults for `zkCli` commands on the session.
const SESSION: CommandSpec = CommandSpec { operands: ANY, operands_max: 0, paths: &[], ..NODE };

/// Defaults for `zkCli` commands that work without a session.
const LOCAL: CommandSpec = CommandSpec { needs_session: false, ignores_options: true, ..SESSION };

/// Defaults for commands that `zkCli` does not have.
const EXTENSION: CommandSpec = CommandSpec { is_zkcli: false, operands: 0..=1, operands_max: usize::MAX, ..NODE };

/// Short names, and the words that they stand for. In the style of `zkCli` only `exit` is known.
pub const ALIASES: &[(&str, &[&str])] = &[
    ("?", &["help"]),
    ("cat", &["get"]),
    ("exit", &["quit"]),
    ("ll", &["ls", "-l"]),
    ("mkdir", &["create", "-p"]),
    ("rm", &["delete"]),
    ("rmr", &["deleteall"]),
];

/// All commands, sorted by name. Compat: capital letters first, like the usage of `zkCli`.
pub const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        name: "addWatch",
        native_syntax: Some("[-m PERSISTENT|PERSISTENT_RECURSIVE] path"),
        syntax: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is \
                 PERSISTENT_RECURSIVE",
        help: "Watch all changes of a node, or of its whole subtree",
        options: &[Opt::with("-m", "mode", "PERSISTENT or PERSISTENT_RECURSIVE; becomes the default for later calls")],
        operands: 1..=1,
        run: |shell, args| Box::pin(watches::add(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "addauth",
        syntax: "scheme auth",
        help: "Authenticate, for example: addauth digest user:password",
        operands: 1..=usize::MAX,
        operands_max: 2,
        run: |shell, args| Box::pin(session::addauth(shell, args)),
        ..SESSION
    },
    CommandSpec {
        name: "cd",
        syntax: "[path]",
        help: "Change the current node; paths may be relative from then on",
        run: |shell, args| Box::pin(misc::cd(shell, args)),
        ..EXTENSION
    },
    CommandSpec {
        name: "close",
        help: "Close the session, which deletes its ephemeral nodes",
        run: |shell, args| Box::pin(session::close(shell, args)),
        ..SESSION
    },
    CommandSpec {
        name: "config",
        syntax: "[-c] [-w] [-s]",
        help: "Print the ensemble configuration",
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::switch("-w", "Watch for changes"),
            Opt::switch("-c", "Only the version and the addresses for clients"),
            JSON,
        ],
        run: |shell, args| Box::pin(ensemble::config(shell, args)),
        ..SESSION
    },
    CommandSpec {
        name: "connect",
        syntax: "host:port",
        native_syntax: Some("[host:port,...[/chroot]]"),
        operands_max: 1,
        help: "Open a new session, with other servers or the same",
        run: |shell, args| Box::pin(session::connect(shell, args)),
        ..LOCAL
    },
    cp::COMMAND,
    CommandSpec {
        name: "create",
        syntax: "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
        native_syntax: Some("[-p] [-s] [-e] [-c] [-t ttl] path [data] [acl]"),
        operands_max: 3,
        takes_data: true,
        help: "Create a node",
        notes: acl_text::FORMS,
        options: &[
            Opt::native("-p", "Create missing parents, as persistent nodes without data"),
            Opt::switch("-e", "Ephemeral: deleted when the session ends"),
            Opt::switch("-s", "Sequential: the server appends a counter to the name"),
            Opt::switch("-c", "Container: deleted some time after its last child is deleted"),
            Opt::with("-t", "ttl", "TTL: deleted when it was not modified for this many milliseconds"),
        ],
        run: |shell, args| Box::pin(create::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "delete",
        syntax: "[-v version] path",
        help: "Delete a node without children",
        options: &[Opt::with("-v", "version", "Only if its data has this version")],
        run: |shell, args| Box::pin(delete::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "deleteall",
        syntax: "path [-b batch size]",
        native_syntax: Some("[-b batch size] [--yes] path"),
        help: "Delete a node and its whole subtree",
        options: &[Opt::with("-b", "batch size", "Deletes per transaction, default 1000; 0 disables batching"), YES],
        run: |shell, args| Box::pin(deleteall::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "delquota",
        syntax: "[-n|-b|-N|-B] path",
        help: "Remove a limit of a node, or all of them",
        options: &[
            Opt::switch("-n", "num soft quota").explained("Nodes, soft limit: the server only logs a warning"),
            Opt::switch("-b", "bytes soft quota")
                .explained("Bytes of data, soft limit: the server only logs a warning"),
            Opt::switch("-N", "num hard quota").explained("Nodes, hard limit: the server refuses writes above it"),
            Opt::switch("-B", "bytes hard quota")
                .explained("Bytes of data, hard limit: the server refuses writes above it"),
        ],
        run: |shell, args| Box::pin(quota::delete(shell, args)),
        ..NODE
    },
    diff::COMMAND,
    du::COMMAND,
    edit::COMMAND,
    export::COMMAND,
    find::COMMAND,
    CommandSpec {
        name: "get",
        syntax: "[-s] [-w] [-b] [-x] path",
        native_syntax: Some("[-s] [-w] [-b|-x|--raw|--pretty] [--json] path"),
        help: "Print a node's data",
        options: &[
            Opt::switch("-b", "Output data in base64 format"),
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::switch("-w", "Watch for changes on the znode"),
            Opt::switch("-x", "Output data in hexdump format"),
            Opt::native("--raw", "Print exactly the bytes of the data, without a newline at the end"),
            Opt::native("--pretty", "Indent data that is JSON"),
            JSON,
        ],
        explains_options: true,
        run: |shell, args| Box::pin(get::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "getAcl",
        syntax: "[-s] path",
        help: "Print the ACL of a node",
        options: &[Opt::switch("-s", "Print znode stats additionally"), JSON],
        run: |shell, args| Box::pin(acl::get(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "getAllChildrenNumber",
        syntax: "path",
        help: "Print the number of descendants of a node",
        options: &[JSON],
        run: |shell, args| Box::pin(misc::count(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "getEphemerals",
        syntax: "path",
        native_syntax: Some("[--json] [path]"),
        help: "List the ephemeral nodes of this session",
        options: &[JSON],
        operands: ANY,
        run: |shell, args| Box::pin(misc::ephemerals(shell, args)),
        ..NODE
    },
    grep::COMMAND,
    CommandSpec {
        name: "help",
        syntax: "[command|all]",
        help: "List the commands, or describe one",
        needs_session: false,
        paths: &[],
        run: |shell, args| Box::pin(help::run(shell, args)),
        ..EXTENSION
    },
    CommandSpec {
        name: "history",
        help: "List recent commands with their numbers",
        run: |shell, args| Box::pin(history::history(shell, args)),
        ..LOCAL
    },
    import::COMMAND,
    CommandSpec {
        name: "listquota",
        syntax: "path",
        help: "Print the quota of a node and its usage",
        options: &[JSON],
        run: |shell, args| Box::pin(quota::list(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "ls",
        syntax: "[-s] [-w] [-R] path",
        native_syntax: Some("[-l] [-s] [-w] [-R] [--json] [path]"),
        help: "List a node's children",
        options: &[
            Opt::switch("-?", "help").explained("Describe the command"),
            Opt::native("-l", "With number of children, size and modification time"),
            Opt::switch("-R", "recurse").explained("List the whole subtree, as paths"),
            Opt::switch("-s", "stat").explained("Print the metadata of the node, too"),
            Opt::switch("-w", "watch").explained("Print one event when a child is created or deleted"),
            JSON,
        ],
        operands: ANY,
        run: |shell, args| Box::pin(ls::run(shell, args)),
        ..NODE
    },
    mv::COMMAND,
    CommandSpec {
        name: "printwatches",
        syntax: "on|off",
        native_syntax: Some("[on|off]"),
        operands_max: 1,
        help: "Turn the printing of events on or off",
        run: |shell, args| Box::pin(session::printwatches(shell, args)),
        ..LOCAL
    },
    CommandSpec {
        name: "pwd",
        help: "Print the current node",
        needs_session: false,
        operands: 0..=0,
        run: |shell, args| Box::pin(misc::pwd(shell, args)),
        ..EXTENSION
    },
    CommandSpec {
        name: "quit",
        help: "Close the session and exit",
        keeps_status: true,
        run: |shell, args| Box::pin(session::quit(shell, args)),
        ..LOCAL
    },
    CommandSpec {
        name: "reconfig",
        syntax: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add \
                 serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
        help: "Change the ensemble membership",
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "version", "Only if the configuration has this version, in hexadecimal"),
            Opt::with("-file", "path", "File with the new members"),
            Opt::with("-members", "servers", "The new members"),
            Opt::with("-add", "servers", "Members to add"),
            Opt::with("-remove", "ids", "Ids of members to remove"),
            JSON,
        ],
        run: |shell, args| Box::pin(ensemble::reconfig(shell, args)),
        ..SESSION
    },
    CommandSpec {
        name: "redo",
        syntax: "cmdno",
        operands_max: 1,
        help: "Run a command of the history again",
        run: |shell, args| Box::pin(history::redo(shell, args)),
        ..LOCAL
    },
    CommandSpec {
        name: "removewatches",
        syntax: "path [-c|-d|-a] [-l]",
        help: "Remove watches of a node",
        options: &[
            Opt::switch("-c", "Child watches"),
            Opt::switch("-d", "Data watches"),
            Opt::switch("-p", "Persistent watches"),
            Opt::switch("-r", "Persistent recursive watches"),
            Opt::switch("-a", "All watches (the default)"),
            Opt::switch("-l", "Remove local watches even if disconnected"),
        ],
        run: |shell, args| Box::pin(watches::remove(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "set",
        syntax: "path data [-s] [-v version] [-b]",
        help: "Set the data of a node",
        options: &[
            Opt::switch("-b", "Supply data in base64 format"),
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "arg", "Set with an expected version"),
        ],
        notes: &["The data - is that of standard input; after --, it is a dash"],
        operands: 2..=usize::MAX,
        operands_max: 2,
        takes_data: true,
        explains_options: true,
        run: |shell, args| Box::pin(set::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "setAcl",
        syntax: "[-s] [-v version] [-R] path acl",
        help: "Set the ACL of a node, or of its whole subtree",
        notes: acl_text::FORMS,
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "version", "Only if its ACL has this version"),
            Opt::switch("-R", "Include the whole subtree"),
            YES,
        ],
        operands: 2..=usize::MAX,
        operands_max: 2,
        run: |shell, args| Box::pin(acl::set(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "setquota",
        syntax: "-n|-b|-N|-B val path",
        help: "Limit the nodes or bytes of a subtree",
        options: &[
            Opt::with("-n", "val", "num soft quota").explained("Nodes, soft limit: the server only logs a warning"),
            Opt::with("-b", "val", "bytes soft quota")
                .explained("Bytes of data, soft limit: the server only logs a warning"),
            Opt::with("-N", "val", "num hard quota").explained("Nodes, hard limit: the server refuses writes above it"),
            Opt::with("-B", "val", "bytes hard quota")
                .explained("Bytes of data, hard limit: the server refuses writes above it"),
        ],
        operands: ANY,
        run: |shell, args| Box::pin(quota::set(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "stat",
        syntax: "[-w] path",
        help: "Print a node's metadata",
        options: &[Opt::switch("-w", "watch").explained("Print one event when the node changes"), JSON],
        run: |shell, args| Box::pin(stat::run(shell, args)),
        ..NODE
    },
    CommandSpec {
        name: "sync",
        syntax: "path",
        help: "Make the server catch up with the leader",
        run: |shell, args| Box::pin(misc::sync(shell, args)),
        ..NODE
    },
    top::COMMAND,
    tree::COMMAND,
    txn::COMMAND,
    CommandSpec {
        name: "version",
        help: "Print the version of this shell",
        ignores_options: false,
        operands: 0..=0,
        run: |shell, args| Box::pin(session::version(shell, args)),
        ..LOCAL
    },
    watch::COMMAND,
    CommandSpec {
        name: "whoami",
        help: "List the identities of this session",
        options: &[JSON],
        run: |shell, args| Box::pin(session::whoami(shell, args)),
        ..SESSION
    },
];

/// The version that `-v` names; any version without it.
fn version(args: &CommandArgs) -> Result<Version, CommandError> {
    match args.value("-v") {
        None => Ok(Version::Any),
        Some(text) => match text.parse() {
            Ok(-1) => Ok(Version::Any),
            Ok(version) => Ok(Version::Is(version)),
            Err(_) => Err(CommandError::Fatal(format!("-v must be a number, not `{text}`"))),
        },
    }
}

/// Adds to the error of a conditional write which version was expected, and which the node has.
async fn name_versions(shell: &Shell, client: &Client, path: &str, args: &CommandArgs, error: Error) -> CommandError {
    if shell.is_zkcli() || error.code() != Some(ErrorCode::BadVersion) {
        return error.into();
    }
    match (client.exists(path).await, args.value("-v")) {
        (Ok(Some(stat)), Some(expected)) => {
            let found = if error.operation() == "set acl" { stat.aversion } else { stat.version };
            CommandError::message(format!("Version does not match: {path} has version {found}, not {expected}"))
        }
        _ => error.into(),
    }
}

/// Prints the syntax, the help and the options of a command.
pub(crate) fn describe(shell: &Shell, command: &CommandSpec) -> Result<(), CommandError> {
    help::one(shell, command)
}

/// Finds a command by name or alias.
pub fn find(name: &str) -> Option<&'static CommandSpec> {
    let name = expand(name).first().copied().unwrap_or(name);
    COMMANDS.iter().find(|command| command.name == name)
}

/// The words that an alias stands for; empty for other names.
pub fn expand(name: &str) -> &'static [&'static str] {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(&[], |(_, words)| words)
}

/// Names of commands and aliases, for suggestions and completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name).chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// The usage of all commands, as `zkCli` prints it after an unknown command.
pub fn usage() -> String {
    let mut text = "ZooKeeper -server host:port -client-configuration properties-file cmd args".to_owned();
    for command in COMMANDS {
        text.push_str(&format!("\n\t{} {}", command.name, command.syntax));
    }
    text
}

impl CommandSpec {
    /// Whether the words ask for the description of the command.
    pub fn is_help_wanted(&self, words: &[String]) -> bool {
        let is_wanted = |word: &str| match word {
            "--help" | "-?" => true,
            "-h" => self.options.iter().all(|opt| opt.name != word),
            _ => false,
        };
        words.iter().take_while(|word| *word != "--").any(|word| is_wanted(word))
    }

    /// Name and syntax in the native style.
    pub fn native_usage(&self) -> String {
        format!("{} {}", self.name, self.native_syntax.unwrap_or(self.syntax)).trim_end().to_owned()
    }

    /// Refuses missing and superfluous operands, by the native syntax.
    pub(crate) fn check_operands(&self, given: &[String]) -> Result<(), CommandError> {
        let most = self.operands_max.min(*self.operands.end());
        let wrong = match (given.get(most), self.mandatory_operands().nth(given.len())) {
            (Some(word), _) => format!("Superfluous argument: {word}"),
            (None, Some(name)) => format!("Missing argument: {name}"),
            (None, None) => return Ok(()),
        };
        let hint = if most < given.len() && self.takes_data { "\nhint: quote data that contains spaces" } else { "" };
        Err(CommandError::message(format!("{wrong}\nusage: {}{hint}", self.native_usage())))
    }

    /// The names of the native syntax that are neither in brackets nor values of options.
    fn mandatory_operands(&self) -> impl Iterator<Item = &'static str> {
        let (mut depth, mut follows_option) = (0, false);
        self.native_syntax.unwrap_or(self.syntax).split(' ').filter(move |word| {
            let is_mandatory = depth == 0 && word.starts_with(char::is_alphabetic) && !follows_option;
            follows_option = depth == 0 && word.starts_with('-');
            depth += word.matches('[').count();
            depth -= word.matches(']').count();
            is_mandatory
        })
    }

    /// The aliases of the command, with the options that they imply.
    pub fn aliases(&self) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
        let own = |words: &&'static [&'static str]| words.first() == Some(&self.name);
        ALIASES.iter().filter(move |(_, words)| own(words)).map(|(alias, words)| (*alias, &words[1..]))
    }

    /// Name and syntax, as `zkCli` prints them.
    pub fn usage(&self) -> String {
        let mut text = format!("{} {}", self.name, self.syntax);
        if self.explains_options {
            text.push('\n');
            text.push_str(&self.option_table());
        }
        text
    }

    /// The options of `zkCli`, aligned. Options that only this shell has are left to `help`, because scripts compare
    /// this table.
    pub fn option_table(&self) -> String {
        let classic = self.options.iter().filter(|opt| !opt.is_native && !opt.name.starts_with("--"));
        aligned(classic, |opt| opt.help).into_iter().map(|line| format!(" {line}\n")).collect()
    }

    /// All options, aligned, for `help`.
    pub fn options_help(&self) -> Vec<String> {
        aligned(self.options.iter(), |opt| opt.native_help.unwrap_or(opt.help))
    }
}

fn aligned<'a>(options: impl Iterator<Item = &'a Opt> + Clone, help: impl Fn(&Opt) -> &'static str) -> Vec<String> {
    let left = |opt: &Opt| match opt.value {
        Some(value) => format!("{} <{value}>", opt.name),
        None => opt.name.to_owned(),
    };
    let width = options.clone().map(|opt| left(opt).len()).max().unwrap_or(0);
    options.map(|opt| format!("{:width$}   {}", left(opt), help(opt))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_table_is_sorted_and_names_are_unique() {
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        names.extend(ALIASES.iter().map(|(alias, _)| alias));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for command in COMMANDS {
            assert!(!command.help.is_empty() && !command.help.ends_with('.'), "{}", command.name);
        }
    }

    #[test]
    fn mandatory_operands_are_those_that_commands_require() {
        for command in COMMANDS {
            let count = command.mandatory_operands().count();
            assert!(count <= command.operands_max.min(*command.operands.end()), "{}", command.name);
            // Compat: some commands of `zkCli` check the number themselves, or accept too few.
            let is_lenient = command.is_zkcli && [0, 1].contains(command.operands.start());
            assert!(count == *command.operands.start() || is_lenient, "{}: {count}", command.name);
        }
        let mandatory = |name: &str| find(name).unwrap().mandatory_operands().collect::<Vec<_>>();
        assert_eq!(mandatory("set"), ["path", "data"]);
        assert_eq!(mandatory("setquota"), ["path"]);
        assert_eq!(mandatory("reconfig"), [] as [&str; 0]);
    }

    #[test]
    fn option_table_matches_zkcli() {
        let set = find("set").unwrap();
        let expected = "set path data [-s] [-v version] [-b]\n -b         Supply data in base64 format\n \
                        -s         Print znode stats additionally\n -v <arg>   Set with an expected version\n";
        assert_eq!(set.usage(), expected);
    }
}
