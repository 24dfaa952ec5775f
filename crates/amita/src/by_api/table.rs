//! Which commands can be given by the API, and how they are done then: a closed list. A command that does not stand in it is done for nobody, and
//! a test wants each to stand there.

use std::collections::BTreeSet;

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A node carries it out, but with these arguments.
    Node(Does, &'static [&'static str]),
    /// It is done where it is given, by the API's own operations, but with these arguments.
    Operations(&'static [&'static str]),
    /// It is done where it is given, and needs no cluster, or has its own way to one.
    Here(&'static str),
    /// It is done where it is given, and needs the metadata.
    Metadata(&'static str),
}

/// What a command does that a node carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It changes nothing: it may be sent as often as one likes.
    Look,
    /// It changes something: sent again with the same key, it is done once.
    Change,
    /// And it answers with a secret, which is kept nowhere: it is sent once.
    Secret,
}

use Does::{Change, Look, Secret};

const SERVES: &str = "it serves from this machine";
const DISKS: &str = "it reads and writes disks of this machine";
const IDENTITIES: &str = "identities and the authority are folders of this machine";
const REPOSITORIES: &str = "the repository and its key file are folders and files of this machine";
const TELLS: &str = "it needs no cluster";
const SEALS: &str = "the sealing key is a file of this machine, and goes over no network";
const WRAPS: &str = "the volume keys are a file of this machine, and go over no network";
/// By what identity a command reads and writes the data of a volume that it reaches itself, and where.
const REACHES: &[&str] = &["client_identity", "nodes", "volume_keys"];
/// The same, and what is going on with a copy of which the metadata or a file beside knows how far it is.
const REACHES_OR_RESUMES: &[&str] = &["client_identity", "nodes", "volume_keys", "resume"];

/// Commands with arguments that name files which are sent with them, by their ids: keys, secrets, certificates.
const SENDS: &[(&str, &[&str])] = &[
    ("host add", &["dhchap_key", "dhchap_controller_key", "tls_key"]),
    ("host key", &["dhchap_key", "dhchap_controller_key", "tls_key"]),
    ("initiator key", &["chap_secret", "chap_target_secret"]),
    ("notify add webhook", &["url_file", "secret_file", "ca"]),
    ("notify add mail", &["password_file", "ca"]),
    ("notify add syslog", &["ca"]),
    ("mirror join", &["file"]),
];
/// Arguments by which keys are made, and shown once.
const MAKES: &[&str] = &[
    "generate_dhchap",
    "generate_dhchap_controller",
    "generate_tls",
    "generate_chap",
    "generate_chap_target",
];
/// Arguments with which a command goes on until it is ended: whoever gives it asks again and again.
const GOES_ON: &[(&str, &str)] = &[("status", "watch"), ("events", "follow")];

/// Why what has a secret in it is not sent.
pub const NOT_PRIVATE: &str = "keys and secrets go to nodes by HTTPS only, and are told so: here others could read them. Name nodes that have an \
                               identity, or give the command with --metadata";

/// All of them, by their words: what is done, and the arguments with which it is not done for others: files of the machine that the command
/// is given at, and what goes on until it is ended.
pub const COMMANDS: &[(&str, Way)] = &[
    ("serve", Way::Here(SERVES)),
    ("meta", Way::Here(SERVES)),
    ("cluster init", Way::Here(IDENTITIES)),
    ("cluster version", Way::Node(Look, &[])),
    ("cluster finalize", Way::Node(Change, &[])),
    ("ca serve", Way::Here(SERVES)),
    ("ca show", Way::Here(IDENTITIES)),
    ("ca rotate", Way::Here(IDENTITIES)),
    ("cert show", Way::Here(IDENTITIES)),
    ("cert list", Way::Here(IDENTITIES)),
    ("cert renew", Way::Here(IDENTITIES)),
    ("cert revoke", Way::Here(IDENTITIES)),
    ("disk format", Way::Here(DISKS)),
    ("disk list", Way::Node(Look, &["paths"])),
    ("disk drain", Way::Node(Change, &[])),
    ("disk replace", Way::Node(Change, &[])),
    ("disk weight", Way::Node(Change, &[])),
    ("disk class", Way::Node(Change, &[])),
    ("disk forget", Way::Node(Change, &[])),
    ("disk adopt", Way::Node(Change, &[])),
    ("store inspect", Way::Here(DISKS)),
    ("store check", Way::Here(DISKS)),
    ("store dump", Way::Here(DISKS)),
    ("node token", Way::Here(IDENTITIES)),
    ("node join", Way::Here(IDENTITIES)),
    ("node list", Way::Node(Look, &[])),
    ("node ready", Way::Node(Look, &[])),
    ("node maintenance", Way::Node(Change, &[])),
    ("node remove", Way::Node(Change, &[])),
    ("node place", Way::Node(Change, &[])),
    ("client create", Way::Here(IDENTITIES)),
    ("client change", Way::Here(IDENTITIES)),
    ("client list", Way::Here(IDENTITIES)),
    ("client join", Way::Here(IDENTITIES)),
    ("operator create", Way::Here(IDENTITIES)),
    ("operator join", Way::Here(IDENTITIES)),
    ("csi controller", Way::Operations(&[])),
    ("csi node", Way::Operations(&[])),
    ("token create", Way::Node(Secret, &[])),
    ("token list", Way::Node(Look, &[])),
    ("token revoke", Way::Node(Change, &[])),
    ("pool create", Way::Node(Change, &[])),
    ("pool set", Way::Node(Change, &[])),
    ("pool thresholds", Way::Node(Change, &[])),
    ("pool recycle", Way::Node(Change, &[])),
    ("pool quota", Way::Node(Change, &[])),
    ("pool limit set", Way::Node(Change, &[])),
    ("pool limit show", Way::Node(Look, &[])),
    ("pool limit clear", Way::Node(Change, &[])),
    ("tenant limit set", Way::Node(Change, &[])),
    ("tenant limit show", Way::Node(Look, &[])),
    ("tenant limit clear", Way::Node(Change, &[])),
    ("tenant key set", Way::Node(Change, &["volume_keys"])),
    ("tenant key show", Way::Node(Look, &["volume_keys"])),
    ("tenant key clear", Way::Node(Change, &["volume_keys"])),
    ("tenant add", Way::Node(Change, &[])),
    ("tenant remove", Way::Node(Change, &[])),
    ("tenant list", Way::Node(Look, &[])),
    ("pool delete", Way::Node(Change, &[])),
    ("pool show", Way::Node(Look, &[])),
    ("pool list", Way::Node(Look, &[])),
    ("volume create", Way::Node(Change, &["volume_keys"])),
    ("volume clone", Way::Node(Change, &["volume_keys"])),
    ("volume copy", Way::Node(Change, &["volume_keys"])),
    ("volume migrate", Way::Node(Change, &["volume_keys"])),
    ("volume rekey", Way::Node(Change, &["volume_keys"])),
    ("volume flatten", Way::Node(Change, &[])),
    ("volume list", Way::Node(Look, &[])),
    ("volume attach", Way::Node(Change, &[])),
    ("volume detach", Way::Node(Change, &[])),
    ("volume import", Way::Operations(REACHES_OR_RESUMES)),
    ("volume export", Way::Operations(REACHES_OR_RESUMES)),
    ("volume diff", Way::Operations(REACHES)),
    ("volume revert", Way::Operations(REACHES)),
    ("volume show", Way::Node(Look, &[])),
    ("volume label", Way::Node(Change, &[])),
    ("volume key init", Way::Here(WRAPS)),
    ("volume key list", Way::Node(Look, &[])),
    ("volume key status", Way::Node(Look, &["volume_keys"])),
    ("volume key rewrap", Way::Node(Change, &["volume_keys"])),
    ("volume limit set", Way::Node(Change, &[])),
    ("volume limit show", Way::Node(Look, &[])),
    ("volume limit clear", Way::Node(Change, &[])),
    // Smaller it is made by whoever owns its data meanwhile.
    ("volume resize", Way::Node(Change, REACHES)),
    ("volume move", Way::Node(Change, &[])),
    ("volume reservation", Way::Node(Change, &[])),
    ("volume snapshot create", Way::Node(Change, &[])),
    ("volume snapshot create-set", Way::Node(Change, &[])),
    ("volume snapshot list-sets", Way::Node(Look, &[])),
    ("volume snapshot list", Way::Node(Look, &[])),
    ("volume snapshot protect", Way::Node(Change, &[])),
    ("volume snapshot delete", Way::Node(Change, &[])),
    ("volume scrub", Way::Node(Change, &[])),
    ("volume rename", Way::Node(Change, &[])),
    ("volume protect", Way::Node(Change, &[])),
    ("volume delete", Way::Node(Change, &[])),
    ("volume undelete", Way::Node(Change, &[])),
    ("volume purge", Way::Node(Change, &[])),
    ("snapshot-policy create", Way::Node(Change, &[])),
    ("snapshot-policy list", Way::Node(Look, &[])),
    ("snapshot-policy show", Way::Node(Look, &[])),
    ("snapshot-policy set", Way::Node(Change, &[])),
    ("snapshot-policy prune", Way::Node(Change, &[])),
    ("snapshot-policy delete", Way::Node(Change, &[])),
    ("backup repository init", Way::Here(REPOSITORIES)),
    ("backup repository add", Way::Node(Change, &[])),
    ("backup repository list", Way::Node(Look, &[])),
    ("backup repository set", Way::Node(Change, &[])),
    ("backup repository remove", Way::Node(Change, &[])),
    ("backup policy create", Way::Node(Change, &[])),
    ("backup policy list", Way::Node(Look, &[])),
    ("backup policy show", Way::Node(Look, &[])),
    ("backup policy set", Way::Node(Change, &[])),
    ("backup policy run", Way::Node(Change, &[])),
    ("backup policy verify", Way::Node(Change, &[])),
    ("backup policy delete", Way::Node(Change, &[])),
    ("backup task back-up", Way::Node(Change, &[])),
    ("backup task restore", Way::Node(Change, &[])),
    ("backup task forget", Way::Node(Change, &[])),
    ("backup task list", Way::Node(Look, &[])),
    ("backup task show", Way::Node(Look, &[])),
    ("backup task cancel", Way::Node(Change, &[])),
    ("backup task remove", Way::Node(Change, &[])),
    ("backup run", Way::Metadata(REPOSITORIES)),
    ("backup list", Way::Here(REPOSITORIES)),
    ("backup show", Way::Here(REPOSITORIES)),
    ("backup verify", Way::Here(REPOSITORIES)),
    ("backup prune", Way::Here(REPOSITORIES)),
    ("backup restore", Way::Metadata(REPOSITORIES)),
    // What it answers with has a token in it, where that goes into no file.
    ("mirror add", Way::Node(Secret, &["bootstrap", "authority"])),
    ("mirror token", Way::Node(Secret, &["bootstrap", "authority"])),
    // By the node's own keys.
    (
        "mirror join",
        Way::Node(Change, &["seal_key", "volume_keys", "authority"]),
    ),
    ("mirror list", Way::Node(Look, &[])),
    ("mirror show", Way::Node(Look, &[])),
    ("mirror demote", Way::Node(Change, &[])),
    ("mirror promote", Way::Node(Change, &["seal_key"])),
    ("mirror resync", Way::Node(Change, &[])),
    ("mirror pause", Way::Node(Change, &[])),
    ("mirror resume", Way::Node(Change, &[])),
    ("mirror set", Way::Node(Change, &[])),
    ("mirror remove", Way::Node(Change, &[])),
    ("nbd export", Way::Node(Change, &[])),
    ("nbd unexport", Way::Node(Change, &[])),
    ("nbd list", Way::Node(Look, &[])),
    ("subsystem create", Way::Node(Change, &[])),
    ("subsystem list", Way::Node(Look, &[])),
    ("subsystem show", Way::Node(Look, &[])),
    ("subsystem set", Way::Node(Change, &[])),
    ("subsystem delete", Way::Node(Change, &[])),
    ("namespace add", Way::Node(Change, &[])),
    ("namespace remove", Way::Node(Change, &[])),
    ("namespace list", Way::Node(Look, &[])),
    // By its own sealing key.
    ("host add", Way::Node(Change, &["seal_key"])),
    ("host key", Way::Node(Change, &["seal_key"])),
    ("host allow", Way::Node(Change, &[])),
    ("host deny", Way::Node(Change, &[])),
    ("host list", Way::Node(Look, &[])),
    ("host remove", Way::Node(Change, &[])),
    ("host reseal", Way::Metadata(SEALS)),
    ("host seal-key", Way::Here(SEALS)),
    ("target create", Way::Node(Change, &[])),
    ("target list", Way::Node(Look, &[])),
    ("target show", Way::Node(Look, &[])),
    ("target set", Way::Node(Change, &[])),
    ("target delete", Way::Node(Change, &[])),
    ("lun add", Way::Node(Change, &[])),
    ("lun remove", Way::Node(Change, &[])),
    ("lun list", Way::Node(Look, &[])),
    ("initiator allow", Way::Node(Change, &[])),
    ("initiator deny", Way::Node(Change, &[])),
    // By its own sealing key.
    ("initiator key", Way::Node(Change, &["seal_key"])),
    ("initiator list", Way::Node(Look, &[])),
    ("initiator sessions", Way::Operations(&[])),
    ("initiator remove", Way::Node(Change, &[])),
    ("recovery show", Way::Node(Look, &[])),
    ("recovery set", Way::Node(Change, &[])),
    ("recover", Way::Metadata(DISKS)),
    ("recover collect", Way::Here(DISKS)),
    ("status", Way::Node(Look, &["watch"])),
    ("top", Way::Operations(&[])),
    ("history", Way::Operations(&[])),
    ("trace", Way::Operations(&[])),
    ("alert list", Way::Node(Look, &[])),
    ("alert show", Way::Node(Look, &[])),
    ("alert ack", Way::Node(Change, &[])),
    ("alert silence add", Way::Node(Change, &[])),
    ("alert silence list", Way::Node(Look, &[])),
    ("alert silence remove", Way::Node(Change, &[])),
    ("notify add webhook", Way::Node(Change, &["seal_key"])),
    ("notify add mail", Way::Node(Change, &["seal_key"])),
    ("notify add syslog", Way::Node(Change, &["seal_key"])),
    ("notify list", Way::Node(Look, &[])),
    ("notify remove", Way::Node(Change, &[])),
    ("notify test", Way::Node(Change, &[])),
    ("events", Way::Node(Look, &["follow"])),
    ("audit list", Way::Node(Look, &["ca"])),
    ("audit verify", Way::Node(Look, &["ca"])),
    (
        "audit ship",
        Way::Metadata("it goes on until it is ended, and notes in a file how far it is"),
    ),
    ("job list", Way::Node(Look, &[])),
    ("job show", Way::Node(Look, &[])),
    ("job pause", Way::Node(Change, &[])),
    ("job resume", Way::Node(Change, &[])),
    ("job cancel", Way::Node(Change, &[])),
    ("inspect", Way::Node(Look, &["html"])),
    (
        "support-bundle",
        Way::Metadata("it packs files of this machine, and writes one"),
    ),
    ("explain", Way::Here(TELLS)),
    ("completions", Way::Here(TELLS)),
    ("man", Way::Here(TELLS)),
    ("demo", Way::Here("it starts a cluster of its own")),
];

/// What becomes of the command of these words. None: it stands in no list.
#[must_use]
pub fn way(command: &str) -> Option<Way> {
    let found = COMMANDS.iter().find(|(name, _)| *name == command);
    found.map(|(_, way)| *way)
}

/// The arguments of a command that name files which are sent with it.
#[must_use]
pub fn sends(command: &str) -> &'static [&'static str] {
    let found = SENDS.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, ids)| *ids)
}

/// Does a command go on until it is ended, with these arguments?
#[must_use]
pub fn goes_on(command: &str, written: &BTreeSet<String>) -> bool {
    GOES_ON
        .iter()
        .any(|(name, id)| *name == command && written.contains(*id))
}

/// Is a key or a secret sent with a command, or made and told by its answer, with these arguments?
#[must_use]
pub fn is_confidential(command: &str, written: &BTreeSet<String>) -> bool {
    let sends = sends(command);
    let mut all = sends.iter().chain(MAKES);
    !sends.is_empty() && all.any(|id| written.contains(*id))
}

/// Can a command be given by the API with these arguments, however it is done then?
///
/// # Errors
/// It cannot: in words, why not.
pub fn given_by_api(command: &str, written: &BTreeSet<String>) -> Result<(), String> {
    let Some(Way::Operations(except)) = way(command) else {
        if goes_on(command, written) {
            return Ok(());
        }
        return carried_out(command, written).map(drop);
    };
    match except.iter().find(|id| written.contains(**id)) {
        None => Ok(()),
        Some(id) => Err(format!(
            "`amita {command}` is not done by the API with --{}: that takes the metadata, and what this machine has itself",
            id.replace('_', "-")
        )),
    }
}

/// What a command does, where a node carries it out with these arguments.
///
/// # Errors
/// None does: in words, why not.
pub fn carried_out(command: &str, written: &BTreeSet<String>) -> Result<Does, String> {
    let (does, except) = match way(command) {
        Some(Way::Node(does, except)) => (does, except),
        Some(Way::Operations(_)) => {
            let why = "it is done by the API's own operations, where it is given";
            return Err(format!("`amita {command}` is not carried out by nodes: {why}"));
        }
        Some(Way::Here(why) | Way::Metadata(why)) => {
            return Err(format!("`amita {command}` is not carried out by nodes: {why}"));
        }
        None => return Err(format!("`amita {command}` is not carried out by nodes")),
    };
    match except.iter().find(|id| written.contains(**id)) {
        // What was sent, or is told, is kept nowhere, so it is done once only.
        None if is_confidential(command, written) => Ok(Secret),
        None => Ok(does),
        Some(id) => Err(format!(
            "`amita {command}` is not carried out by nodes with {}: that is of this machine, or goes on until it is ended",
            id.replace('_', "-")
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;
    use std::any::TypeId;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    /// Everything that can be given as a command.
    pub(crate) fn commands() -> BTreeMap<String, clap::Command> {
        fn collect(command: &clap::Command, name: &str, found: &mut BTreeMap<String, clap::Command>) {
            if !name.is_empty() && !command.is_subcommand_required_set() {
                found.insert(name.to_owned(), command.clone());
            }
            for sub in command.get_subcommands() {
                collect(sub, format!("{name} {}", sub.get_name()).trim_start(), found);
            }
        }
        let mut found = BTreeMap::new();
        collect(&Cli::command(), "", &mut found);
        found
    }

    #[test]
    fn every_command_stands_in_one_list_and_says_why_where_it_is_not_done_for_others() {
        let there = commands();
        for name in there.keys() {
            assert!(
                way(name).is_some(),
                "{name}: is it carried out for others (by_api/table.rs)?"
            );
        }
        let mut named = BTreeSet::new();
        for (name, way) in COMMANDS {
            assert!(there.contains_key(*name), "{name} is no command");
            assert!(named.insert(*name), "{name} stands there twice");
            if let Way::Here(why) | Way::Metadata(why) = way {
                assert!(why.len() > 10, "{name}: {why:?}");
            }
        }
    }

    /// A node reads and writes no file, and opens no device, for somebody else; and nothing goes on for ever.
    #[test]
    fn no_command_for_others_takes_a_path() {
        let (mut looked_at, mut excepted) = (0, 0);
        for (name, command) in commands() {
            let Some(Way::Node(_, except)) = way(&name) else {
                continue;
            };
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                looked_at += 1;
                let is_excepted = except.contains(&id);
                excepted += usize::from(is_excepted);
                let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                let hint = argument.get_value_names().unwrap_or_default();
                let names_file = hint
                    .iter()
                    .any(|hint| ["FILE", "DIR", "PATH"].iter().any(|word| hint.contains(word)));
                let goes_on = ["follow", "watch"].contains(&id);
                // What is sent along is no file of the node's.
                let is_sent = sends(&name).contains(&id);
                let must = (is_path || names_file || goes_on) && !is_sent;
                assert!(!must || is_excepted, "{name}: {id}");
            }
            for id in except.iter().chain(sends(&name)) {
                let there = command.get_arguments().any(|argument| argument.get_id() == id);
                assert!(there, "{name} has no argument {id}");
            }
        }
        assert!(looked_at > 150 && excepted >= 10, "{looked_at}, {excepted}");
    }

    #[test]
    fn what_is_sent_along_or_made_is_a_secret_and_other_arguments_are_none() {
        let there = commands();
        for (name, ids) in SENDS {
            let command = there.get(*name).unwrap_or_else(|| panic!("{name} is no command"));
            for id in *ids {
                let argument = command.get_arguments().find(|argument| argument.get_id() == id);
                let argument = argument.unwrap_or_else(|| panic!("{name} has no argument {id}"));
                let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                assert!(is_path, "{name}: {id} names no file");
                let written = BTreeSet::from([(*id).to_owned()]);
                assert_eq!(carried_out(name, &written), Ok(Secret), "{name} {id}");
            }
            assert_eq!(carried_out(name, &BTreeSet::from(["json".to_owned()])), Ok(Change));
        }
        for id in MAKES {
            let written = BTreeSet::from([(*id).to_owned()]);
            let name = if id.contains("_chap") {
                "initiator key"
            } else {
                "host key"
            };
            let there = there[name].get_arguments().any(|argument| argument.get_id() == id);
            assert!(there, "{name} has no argument {id}");
            assert_eq!(carried_out(name, &written), Ok(Secret), "{id}");
        }
        for (name, id) in GOES_ON {
            let written = BTreeSet::from([(*id).to_owned()]);
            assert!(goes_on(name, &written) && given_by_api(name, &written).is_ok());
            assert!(carried_out(name, &written).is_err(), "a node does not go on for ever");
            assert!(!goes_on(name, &BTreeSet::new()));
        }
    }

    #[test]
    fn what_must_never_be_done_for_others_is_not() {
        for name in [
            "serve",
            "meta",
            "disk format",
            "store dump",
            "recover",
            "volume import",
            "volume export",
            "host reseal",
            "ca rotate",
            "operator create",
            "demo",
        ] {
            assert!(!matches!(way(name), Some(Way::Node(..)) | None), "{name}");
        }
        assert_eq!(way("token create"), Some(Way::Node(Secret, &[])));
        assert_eq!(way("volume"), None);
        let with = |command: &str, ids: &[&str]| {
            let ids = ids.iter().map(|&id| id.to_owned()).collect();
            carried_out(command, &ids)
        };
        assert_eq!(with("status", &["json"]), Ok(Look));
        assert!(with("status", &["watch"]).is_err_and(|why| why.contains("watch")));
        assert!(with("host add", &["nqn", "seal_key"]).is_err_and(|why| why.contains("seal-key")));
        assert_eq!(with("host add", &["nqn", "dhchap_key"]), Ok(Secret));
        assert_eq!(with("host add", &["nqn"]), Ok(Change));
        assert!(with("initiator key", &["initiator", "seal_key"]).is_err_and(|why| why.contains("seal-key")));
        assert_eq!(with("initiator key", &["initiator", "remove_chap"]), Ok(Change));
        assert!(with("top", &[]).is_err_and(|why| why.contains("own operations")));
        assert!(with("no such", &[]).is_err());
        let by_api = |command: &str, ids: &[&str]| {
            let ids = ids.iter().map(|&id| id.to_owned()).collect();
            given_by_api(command, &ids)
        };
        assert_eq!(by_api("top", &["once"]), Ok(()));
        assert_eq!(by_api("volume import", &["file", "name", "force"]), Ok(()));
        assert!(by_api("volume import", &["resume"]).is_err_and(|why| why.contains("--resume")));
        assert!(by_api("volume diff", &["client_identity"]).is_err_and(|why| why.contains("--client-identity")));
        assert!(by_api("audit ship", &[]).is_err_and(|why| why.contains("until it is ended")));
    }
}
