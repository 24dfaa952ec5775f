//! One file a command.

pub mod alert;
pub mod audit;
pub mod backup;
pub mod ca;
pub mod cert;
mod claim;
pub mod client;
pub mod cluster;
pub mod completions;
pub mod core_dumps;
pub mod csi;
pub mod disk;
pub mod events;
pub mod explain;
pub mod history;
pub mod host;
pub mod initiator;
pub mod inspect;
pub mod job;
pub mod join;
pub mod lun;
pub mod man;
pub mod meta;
pub mod mirror;
pub mod namespace;
pub mod nbd;
pub mod node;
pub mod notify;
pub mod operator;
mod pace;
mod policies;
pub mod pool;
pub mod recover;
pub mod recovery;
pub mod serve;
pub mod snapshot_policy;
pub mod status;
pub mod store;
pub mod subsystem;
pub mod support_bundle;
pub mod target;
pub mod tenant;
pub mod token;
pub mod top;
pub mod trace;
pub mod volume;
mod wanted;
mod worker;

use amita_control::admin::Outlook;

/// What follows from a change of the topology, as people read it.
pub(crate) fn outlook(found: Outlook) -> String {
    let mut text = match found.moves {
        0 => "No copy has to move.\n".to_owned(),
        moves => format!("The coordinator moves {moves} copies of groups; `amita status` shows how far it is.\n"),
    };
    if found.unmet > 0 {
        text.push_str(&format!(
            "{} groups cannot be placed as their pool's rule wants: they stay where they are, and this waits until there \
             are stores for them.\n",
            found.unmet
        ));
    }
    text
}
