//! The table of commands.
//!
//! Help, completion, parsing and usage errors come from here. A command is a function of the shell and its arguments; what it
//! prints goes through [`Shell::print`] and [`Shell::out`](crate::shell::Shell::out), what goes wrong comes back as a [`Failure`].

mod create;
mod delete;
mod get;
mod ls;
mod set;
mod stat;

use crate::failure::Failure;
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
    takes: 1..=usize::MAX,
    explains_options: false,
    needs_session: true,
    keeps_status: false,
    is_classic: true,
    paths: &[0],
    run: |_, _| Box::pin(async { Ok(()) }),
};

const JSON: Opt = Opt::switch("--json", "Print JSON");

/// All commands, by name. Compat: capital letters first, as `zkCli` sorts its usage.
pub const COMMANDS: &[Command] = &[
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
        name: "stat",
        syntax: "[-w] path",
        help: "Print a node's metadata",
        options: &[Opt::switch("-w", "watch"), JSON],
        run: |shell, args| Box::pin(stat::run(shell, args)),
        ..NODE
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

    /// Its options, aligned.
    pub fn option_table(&self) -> String {
        let left = |opt: &Opt| match opt.value {
            Some(value) => format!("{} <{value}>", opt.name),
            None => opt.name.to_owned(),
        };
        // Ours are for those who ask for help: scripts compare the table of `zkCli`.
        let options = self.options.iter().filter(|opt| !opt.name.starts_with("--"));
        let width = options.clone().map(|opt| left(opt).len()).max().unwrap_or(0);
        let lines = options.map(|opt| format!(" {:width$}   {}\n", left(opt), opt.help));
        lines.collect()
    }
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
