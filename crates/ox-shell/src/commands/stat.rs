//! `stat`: prints the metadata of a node.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use crate::stat_text::{self, StatJson};

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let mut watches = args.has("-w");
    if args.operand(1).is_some() {
        shell.info("'stat path [watch]' has been deprecated. Please use 'stat [-w] path' instead.");
        watches = true;
    }
    let path = shell.path(args.required(0)?)?;
    let client = shell.connected_client().await?;
    let stat = match watches {
        true => {
            let (stat, watch) = client.exists_and_watch(&path).await?;
            shell.watches.push(ActiveWatch { path: path.clone(), watch: WatchHandle::Data(watch) });
            stat
        }
        false => client.exists(&path).await?,
    };
    let stat = stat.ok_or_else(|| CommandError::message(format!("Node does not exist: {path}")))?;
    shell.catch_up();
    if shell.is_json(args) { shell.out.json(&StatJson::from(&stat)) } else { stat_text::print(&shell.out, &stat) }
}
