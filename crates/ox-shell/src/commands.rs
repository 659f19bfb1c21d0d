//! The table of commands.
//!
//! Help, completion, parsing and usage errors come from here. A command is a function of the shell and its arguments; what it
//! prints goes through [`Shell::print`] and [`Shell::out`](crate::shell::Shell::out), what goes wrong comes back as a [`Failure`].

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
mod watch;
mod watches;

use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::shell::Shell;
use ox_client::Version;
use std::ops::RangeInclusive;
use std::pin::Pin;

/// What a command does.
pub type Run = for<'a> fn(&'a mut Shell, &'a Args) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// What is typed.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What follows the name. Compat: in the words of `zkCli` where it has the command.
    pub syntax: &'static str,
    /// One line for those who do not know it.
    pub help: &'static str,
    /// Options it takes.
    pub options: &'static [Opt],
    /// Whether nothing behind its name is an option.
    pub is_plain: bool,
    /// Whether it goes on until Ctrl-C, which is then no failure.
    pub is_endless: bool,
    /// How many operands it takes.
    pub takes: RangeInclusive<usize>,
    /// Whether the options are listed below the syntax when it is used wrongly.
    pub explains_options: bool,
    /// Whether it makes no sense without a session.
    pub needs_session: bool,
    /// Whether the program exits with the status of the command before it.
    pub keeps_status: bool,
    /// Whether `zkCli` has it.
    pub is_classic: bool,
    /// Which of its operands are paths of nodes, for completion.
    pub paths: &'static [usize],
    /// What it does.
    pub run: Run,
}

/// Any number of operands; scripts for `zkCli` may give too many.
const ANY: RangeInclusive<usize> = 0..=usize::MAX;

/// A command of `zkCli` that is about a node: what rows of the table begin with.
const NODE: Command = Command {
    name: "",
    aliases: &[],
    syntax: "",
    help: "",
    options: &[],
    is_plain: false,
    is_endless: false,
    takes: 1..=usize::MAX,
    explains_options: false,
    needs_session: true,
    keeps_status: false,
    is_classic: true,
    paths: &[0],
    run: |_, _| Box::pin(async { Ok(()) }),
};

const JSON: Opt = Opt::switch("--json", "Print JSON");

pub(crate) const YES: Opt = Opt::switch("--yes", "Do not ask");

/// A command of `zkCli` about the session: what rows of the table begin with.
const SESSION: Command = Command { takes: ANY, paths: &[], ..NODE };

/// A command of `zkCli` that works without a session.
const LOCAL: Command = Command { needs_session: false, is_plain: true, ..SESSION };

/// A command that `zkCli` does not have.
const OURS: Command = Command { is_classic: false, takes: 0..=1, ..NODE };

/// All commands, by name. Compat: capital letters first, as `zkCli` sorts its usage.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "addWatch",
        syntax: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is \
                 PERSISTENT_RECURSIVE",
        help: "Be told of every change of a node, or of all below it",
        options: &[Opt::with("-m", "mode", "PERSISTENT or PERSISTENT_RECURSIVE; stays for the next time")],
        takes: 1..=1,
        run: |shell, args| Box::pin(watches::add(shell, args)),
        ..NODE
    },
    Command {
        name: "addauth",
        syntax: "scheme auth",
        help: "Prove an identity, for example: addauth digest user:password",
        takes: 1..=usize::MAX,
        run: |shell, args| Box::pin(session::addauth(shell, args)),
        ..SESSION
    },
    Command {
        name: "cd",
        syntax: "[path]",
        help: "Go to a node: paths may be relative from then on",
        run: |shell, args| Box::pin(misc::cd(shell, args)),
        ..OURS
    },
    Command {
        name: "close",
        help: "End the session, with its ephemeral nodes",
        run: |shell, args| Box::pin(session::close(shell, args)),
        ..SESSION
    },
    Command {
        name: "config",
        syntax: "[-c] [-w] [-s]",
        help: "Print the members of the ensemble",
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::switch("-w", "Watch for changes"),
            Opt::switch("-c", "Only the version and the addresses for clients"),
            JSON,
        ],
        run: |shell, args| Box::pin(ensemble::config(shell, args)),
        ..SESSION
    },
    Command {
        name: "connect",
        syntax: "host:port",
        help: "Begin another session, with other servers or the same",
        run: |shell, args| Box::pin(session::connect(shell, args)),
        ..LOCAL
    },
    cp::COMMAND,
    Command {
        name: "create",
        syntax: "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
        help: "Create a node",
        options: &[
            Opt::switch("-e", "Ephemeral: goes with the session"),
            Opt::switch("-s", "Sequential: a number is appended to the name"),
            Opt::switch("-c", "Container: goes when its last child has gone"),
            Opt::with("-t", "ttl", "Goes when nobody has changed it for so many milliseconds"),
        ],
        run: |shell, args| Box::pin(create::run(shell, args)),
        ..NODE
    },
    Command {
        name: "delete",
        syntax: "[-v version] path",
        help: "Delete a node without children",
        options: &[Opt::with("-v", "version", "Only if its data has this version")],
        run: |shell, args| Box::pin(delete::run(shell, args)),
        ..NODE
    },
    Command {
        name: "deleteall",
        syntax: "path [-b batch size]",
        help: "Delete a node and everything below it",
        options: &[Opt::with("-b", "batch size", "Deletes in one transaction, 1000 unless told; 0 for none"), YES],
        run: |shell, args| Box::pin(deleteall::run(shell, args)),
        ..NODE
    },
    Command {
        name: "delquota",
        syntax: "[-n|-b|-N|-B] path",
        help: "Remove a limit of a node, or all of them",
        options: &[
            Opt::switch("-n", "num soft quota"),
            Opt::switch("-b", "bytes soft quota"),
            Opt::switch("-N", "num hard quota"),
            Opt::switch("-B", "bytes hard quota"),
        ],
        run: |shell, args| Box::pin(quota::delete(shell, args)),
        ..NODE
    },
    diff::COMMAND,
    du::COMMAND,
    edit::COMMAND,
    export::COMMAND,
    find::COMMAND,
    Command {
        name: "get",
        syntax: "[-s] [-w] [-b] [-x] path",
        help: "Print a node's data",
        options: &[
            Opt::switch("-b", "Output data in base64 format"),
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::switch("-w", "Watch for changes on the znode"),
            Opt::switch("-x", "Output data in hexdump format"),
            JSON,
        ],
        explains_options: true,
        run: |shell, args| Box::pin(get::run(shell, args)),
        ..NODE
    },
    Command {
        name: "getAcl",
        syntax: "[-s] path",
        help: "Print who may do what with a node",
        options: &[Opt::switch("-s", "Print znode stats additionally"), JSON],
        run: |shell, args| Box::pin(acl::get(shell, args)),
        ..NODE
    },
    Command {
        name: "getAllChildrenNumber",
        syntax: "path",
        help: "Print the number of all nodes below a node",
        options: &[JSON],
        run: |shell, args| Box::pin(misc::count(shell, args)),
        ..NODE
    },
    Command {
        name: "getEphemerals",
        syntax: "path",
        help: "List the ephemeral nodes of this session",
        options: &[JSON],
        takes: ANY,
        run: |shell, args| Box::pin(misc::ephemerals(shell, args)),
        ..NODE
    },
    grep::COMMAND,
    Command {
        name: "help",
        syntax: "[command]",
        help: "Tell what there is, or how a command is used",
        needs_session: false,
        paths: &[],
        run: |shell, args| Box::pin(help::run(shell, args)),
        ..OURS
    },
    Command {
        name: "history",
        help: "List the last commands with their numbers",
        run: |shell, args| Box::pin(history::history(shell, args)),
        ..LOCAL
    },
    import::COMMAND,
    Command {
        name: "listquota",
        syntax: "path",
        help: "Print the limits of a node, and what is used",
        options: &[JSON],
        run: |shell, args| Box::pin(quota::list(shell, args)),
        ..NODE
    },
    Command {
        name: "ls",
        syntax: "[-s] [-w] [-R] path",
        help: "List a node's children",
        options: &[
            Opt::switch("-?", "help"),
            Opt::switch("-R", "recurse"),
            Opt::switch("-s", "stat"),
            Opt::switch("-w", "watch"),
            JSON,
        ],
        takes: ANY,
        run: |shell, args| Box::pin(ls::run(shell, args)),
        ..NODE
    },
    mv::COMMAND,
    Command {
        name: "printwatches",
        syntax: "on|off",
        help: "Print events, or do not",
        run: |shell, args| Box::pin(session::printwatches(shell, args)),
        ..LOCAL
    },
    Command {
        name: "pwd",
        help: "Print where relative paths begin",
        needs_session: false,
        takes: 0..=0,
        run: |shell, args| Box::pin(misc::pwd(shell, args)),
        ..OURS
    },
    Command {
        name: "quit",
        aliases: &["exit"],
        help: "End the session and the shell",
        keeps_status: true,
        run: |shell, args| Box::pin(session::quit(shell, args)),
        ..LOCAL
    },
    Command {
        name: "reconfig",
        syntax: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add \
                 serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
        help: "Change the members of the ensemble",
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "version", "Only if the configuration has this version, in hexadecimal"),
            Opt::with("-file", "path", "The new members, in a file"),
            Opt::with("-members", "servers", "The new members"),
            Opt::with("-add", "servers", "Members that join"),
            Opt::with("-remove", "ids", "Members that leave"),
            JSON,
        ],
        run: |shell, args| Box::pin(ensemble::reconfig(shell, args)),
        ..SESSION
    },
    Command {
        name: "redo",
        syntax: "cmdno",
        help: "Run a command of the history again",
        run: |shell, args| Box::pin(history::redo(shell, args)),
        ..LOCAL
    },
    Command {
        name: "removewatches",
        syntax: "path [-c|-d|-a] [-l]",
        help: "Be told no more",
        options: &[
            Opt::switch("-c", "Watches of children"),
            Opt::switch("-d", "Watches of data"),
            Opt::switch("-p", "Persistent watches"),
            Opt::switch("-r", "Persistent recursive watches"),
            Opt::switch("-a", "All, as without any of these"),
            Opt::switch("-l", "Also when there is no connection"),
        ],
        run: |shell, args| Box::pin(watches::remove(shell, args)),
        ..NODE
    },
    Command {
        name: "set",
        syntax: "path data [-s] [-v version] [-b]",
        help: "Change a node's data",
        options: &[
            Opt::switch("-b", "Supply data in base64 format"),
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "arg", "Set with an expected version"),
        ],
        takes: 2..=usize::MAX,
        explains_options: true,
        run: |shell, args| Box::pin(set::run(shell, args)),
        ..NODE
    },
    Command {
        name: "setAcl",
        syntax: "[-s] [-v version] [-R] path acl",
        help: "Change who may do what with a node, or with all below it",
        options: &[
            Opt::switch("-s", "Print znode stats additionally"),
            Opt::with("-v", "version", "Only if its list has this version"),
            Opt::switch("-R", "Everything below it, too"),
            YES,
        ],
        takes: 2..=usize::MAX,
        run: |shell, args| Box::pin(acl::set(shell, args)),
        ..NODE
    },
    Command {
        name: "setquota",
        syntax: "-n|-b|-N|-B val path",
        help: "Limit the nodes or bytes below a node",
        options: &[
            Opt::with("-n", "val", "num soft quota"),
            Opt::with("-b", "val", "bytes soft quota"),
            Opt::with("-N", "val", "num hard quota"),
            Opt::with("-B", "val", "bytes hard quota"),
        ],
        takes: ANY,
        run: |shell, args| Box::pin(quota::set(shell, args)),
        ..NODE
    },
    Command {
        name: "stat",
        syntax: "[-w] path",
        help: "Print a node's metadata",
        options: &[Opt::switch("-w", "watch"), JSON],
        run: |shell, args| Box::pin(stat::run(shell, args)),
        ..NODE
    },
    Command {
        name: "sync",
        syntax: "path",
        help: "Let the server catch up with the others",
        run: |shell, args| Box::pin(misc::sync(shell, args)),
        ..NODE
    },
    top::COMMAND,
    tree::COMMAND,
    Command {
        name: "version",
        help: "Print the version of this shell",
        is_plain: false,
        takes: 0..=0,
        run: |shell, args| Box::pin(session::version(shell, args)),
        ..LOCAL
    },
    watch::COMMAND,
    Command {
        name: "whoami",
        help: "List the identities of this session",
        options: &[JSON],
        run: |shell, args| Box::pin(session::whoami(shell, args)),
        ..SESSION
    },
];

/// The version that `-v` asks for.
fn version(args: &Args) -> Result<Version, Failure> {
    match args.value("-v") {
        None => Ok(Version::Any),
        Some(text) => match text.parse() {
            Ok(-1) => Ok(Version::Any),
            Ok(version) => Ok(Version::Is(version)),
            Err(_) => Err(Failure::Fatal(format!("-v must be a number, not `{text}`"))),
        },
    }
}

/// The command of a name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name || command.aliases.contains(&name))
}

/// How all commands are used, as `zkCli` lists them when it does not know one.
pub fn usage() -> String {
    let mut text = "ZooKeeper -server host:port -client-configuration properties-file cmd args".to_owned();
    for command in COMMANDS {
        text.push_str(&format!("\n\t{} {}", command.name, command.syntax));
    }
    text
}

impl Command {
    /// How it is used.
    pub fn usage(&self) -> String {
        let mut text = format!("{} {}", self.name, self.syntax);
        if self.explains_options {
            text.push('\n');
            text.push_str(&self.option_table());
        }
        text
    }

    /// Its options, aligned. Ours are for those who ask for help: scripts compare the table of `zkCli`.
    pub fn option_table(&self) -> String {
        let classic = self.options.iter().filter(|opt| !opt.name.starts_with("--"));
        aligned(classic).into_iter().map(|line| format!(" {line}\n")).collect()
    }

    /// All its options, aligned.
    pub fn options_help(&self) -> Vec<String> {
        aligned(self.options.iter())
    }
}

fn aligned<'a>(options: impl Iterator<Item = &'a Opt> + Clone) -> Vec<String> {
    let left = |opt: &Opt| match opt.value {
        Some(value) => format!("{} <{value}>", opt.name),
        None => opt.name.to_owned(),
    };
    let width = options.clone().map(|opt| left(opt).len()).max().unwrap_or(0);
    options.map(|opt| format!("{:width$}   {}", left(opt), opt.help)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_name_is_used_once() {
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        names.extend(COMMANDS.iter().flat_map(|command| command.aliases));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for command in COMMANDS {
            assert!(!command.help.is_empty() && !command.help.ends_with('.'), "{}", command.name);
        }
    }

    #[test]
    fn options_are_explained_as_zkcli_does() {
        let set = find("set").unwrap();
        let expected = "set path data [-s] [-v version] [-b]\n -b         Supply data in base64 format\n \
                        -s         Print znode stats additionally\n -v <arg>   Set with an expected version\n";
        assert_eq!(set.usage(), expected);
    }
}
