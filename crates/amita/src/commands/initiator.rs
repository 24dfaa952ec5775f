//! `amita initiator`: who may log in to which target by iSCSI, what they see there, and what they have to prove.

mod keys;
mod sessions;

use super::target::seen;
use crate::admin::{Admin, Described, readable};
use crate::by_api::rest::Rest;
use crate::cli::Endpoints;
use amita_control::access::{Action, Reader};
use amita_control::admin::{self, ChapUser, InitiatorKeys, Mask};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_types::map::{IscsiInitiator, IscsiTarget, MAX_LUN_NUMBER};
use keys::{Generated, SecretArguments};
use serde::Serialize;

/// What to do with initiators.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Let an initiator log in to a target, and see its LUNs or some of them; said again, what is said last counts
    Allow {
        /// The target's name
        target: String,
        /// The initiator's iSCSI name: on Linux, what /etc/iscsi/initiatorname.iscsi says
        initiator: String,
        /// A LUN that it sees; once for each [default: all, those that come later too]
        #[arg(long = "lun", value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MAX_LUN_NUMBER)))]
        luns: Vec<u16>,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let an initiator log in to a target no more; it is cut off if it is logged in
    Deny {
        /// The target's name
        target: String,
        /// The initiator's iSCSI name
        initiator: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what an initiator has to prove by CHAP; sessions that it has by something else are cut off, and it logs in again by this
    ///
    /// Secrets are read from files or from standard input, never from the command line, and are kept sealed.
    Key(KeyArguments),
    /// List the initiators; never their secrets
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List who is logged in: by which gateway, since when, and what was agreed on
    Sessions(sessions::Arguments),
    /// Forget an initiator and its secrets
    Remove {
        /// Its iSCSI name
        initiator: String,
        /// Also when it is allowed somewhere: it is denied there; and when nobody can read its record
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita initiator key`.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true, id = "what", args = [
    "chap_secret", "chap_target_secret", "generate_chap", "generate_chap_target", "remove_chap", "remove_chap_target",
    "chap_user", "own_chap_user", "chap_target_user", "own_chap_target_user"])]
pub struct KeyArguments {
    /// The initiator's iSCSI name
    pub initiator: String,
    /// Its secrets
    #[command(flatten)]
    pub secrets: SecretArguments,
    /// It need not prove itself any more
    #[arg(long, conflicts_with_all = ["chap_secret", "generate_chap", "one_way"])]
    pub remove_chap: bool,
    /// Targets cannot prove themselves to it any more
    #[arg(long, conflicts_with_all = ["chap_target_secret", "generate_chap_target"])]
    pub remove_chap_target: bool,
    /// The name that it gives for CHAP
    #[arg(long, value_name = "NAME", conflicts_with = "own_chap_user")]
    pub chap_user: Option<String>,
    /// It gives its iSCSI name for CHAP, as initiators do by themselves
    #[arg(long)]
    pub own_chap_user: bool,
    /// The name that targets give it for CHAP, all the same one: ESXi cannot be told another for each
    #[arg(long, value_name = "NAME", conflicts_with = "own_chap_target_user")]
    pub chap_target_user: Option<String>,
    /// Each target gives it its own iSCSI name, as they do by themselves
    #[arg(long)]
    pub own_chap_target_user: bool,
    /// Say what it is now as JSON: without any secret, so none can be made on the way
    #[arg(long, conflicts_with_all = ["generate_chap", "generate_chap_target"])]
    pub json: bool,
}

/// An initiator as it is shown: which secrets it has, never what they are.
#[derive(Debug, Serialize)]
struct Shown {
    initiator: String,
    chap_user: String,
    /// The name that targets give it; null: each its own.
    chap_target_user: Option<String>,
    chap: bool,
    chap_target: bool,
    targets: Vec<Sees>,
}

/// What it sees of a target.
#[derive(Debug, Serialize)]
struct Sees {
    target: String,
    /// The numbers of LUNs; null: all.
    luns: Option<Vec<u16>>,
}

impl Shown {
    fn of(initiator: &IscsiInitiator, targets: &[IscsiTarget]) -> Shown {
        let sees = targets.iter().filter_map(|target| {
            let access = target.access(&initiator.name)?;
            Some(Sees {
                target: target.name.clone(),
                luns: access.luns.clone(),
            })
        });
        Shown {
            initiator: initiator.name.clone(),
            chap_user: initiator.user().to_owned(),
            chap_target_user: initiator.chap_target_user.clone(),
            chap: initiator.chap.is_some(),
            chap_target: initiator.chap_target.is_some(),
            targets: sees.collect(),
        }
    }

    fn proofs(&self) -> String {
        let how = match (self.chap, self.chap_target) {
            (false, _) => return "nothing".to_owned(),
            (true, false) => "CHAP",
            (true, true) => "CHAP both ways",
        };
        match self.chap_user == self.initiator {
            true => how.to_owned(),
            false => format!("{how} as {}", self.chap_user),
        }
    }

    fn allowed(&self) -> String {
        let of = |sees: &Sees| match &sees.luns {
            None => sees.target.clone(),
            Some(luns) => format!("{} ({})", sees.target, seen(Some(luns))),
        };
        let all: Vec<String> = self.targets.iter().map(of).collect();
        all.join(", ")
    }
}

/// Does by the API's own operations what other nodes are asked for.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run_by_api(command: &Command, rest: &Rest) -> Result<()> {
    match command {
        Command::Sessions(arguments) => sessions::run_by_api(arguments, rest),
        // The table has no others.
        _ => Err(Failure::new("this command is not done by the API's own operations").kind(Kind::Usage)),
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let endpoints = metadata;
    if let Command::Sessions(arguments) = command {
        return sessions::run(arguments, endpoints);
    }
    let metadata = Admin::connect(endpoints)?;
    let reader = metadata.reader();
    match command {
        Command::Allow {
            target,
            initiator,
            luns,
            json,
        } => allow(target, initiator, luns, *json, &metadata),
        Command::Deny {
            target,
            initiator,
            json,
        } => {
            let object = format!("{initiator} in {target}");
            let denied = metadata.act(Action::InitiatorDeny, &object, |meta| {
                admin::deny_initiator(meta, target, initiator)
            });
            let found = denied.described()?;
            let yet = if found.any_initiator {
                " by name; but any initiator may: see `amita target set --listed-initiators`"
            } else {
                ""
            };
            let told = serde_json::json!({
                "initiator": initiator, "target": target, "iqn": found.iqn, "may_log_in": found.any_initiator
            });
            print(*json, &told, || {
                format!("Initiator {initiator} may not log in to {}{yet}.\n", found.iqn)
            })
        }
        Command::Key(arguments) => {
            let (keys, generated) = wanted(arguments, &reader, endpoints)?;
            let name = &arguments.initiator;
            let changed = metadata.act(Action::InitiatorKey, name, |meta| {
                admin::set_initiator_keys(meta, name, &keys)
            });
            show(&reader, &changed.described()?, arguments.json, &generated)
        }
        Command::List { json } => {
            let targets = readable(admin::targets(&reader)).described()?;
            let initiators = readable(admin::initiators(&reader)).described()?;
            let shown: Vec<Shown> = initiators.iter().map(|known| Shown::of(known, &targets)).collect();
            print(*json, &shown, || {
                let mut table = Table::new(&["initiator", "has to prove", "allowed in"]);
                for known in &shown {
                    table.row([known.initiator.clone(), known.proofs(), known.allowed()]);
                }
                table.text()
            })
        }
        // Done above.
        Command::Sessions(_) => Ok(()),
        Command::Remove { initiator, force, json } => {
            metadata
                .act(Action::InitiatorRemove, initiator, |meta| {
                    admin::remove_initiator(meta, initiator, *force)
                })
                .described()?;
            let told = serde_json::json!({ "initiator": initiator, "removed": true });
            print(*json, &told, || {
                format!("Initiator {initiator} is forgotten, and its secrets.\n")
            })
        }
    }
}

fn allow(target: &str, initiator: &str, luns: &[u16], as_json: bool, metadata: &Admin) -> Result<()> {
    let name = admin::check_iscsi_name("initiator", initiator).described()?;
    let mask = match luns {
        [] => Mask::All,
        some => Mask::These(some.to_vec()),
    };
    let object = format!("{name} in {target}");
    let allowed = metadata.act(Action::InitiatorAllow, &object, |meta| {
        admin::allow_initiator(meta, target, &name, &mask)
    });
    let found = allowed.described()?;
    let known = admin::initiator(&metadata.reader(), &name).described()?;
    let luns = found.access(&name).and_then(|access| access.luns.clone());
    let told = serde_json::json!({
        "initiator": name, "target": target, "iqn": found.iqn, "luns": luns, "may_log_in": true
    });
    print(as_json, &told, || {
        let mut text = format!(
            "Initiator {name} may log in to {} and sees {}.\n",
            found.iqn,
            seen(luns.as_deref())
        );
        text += match (known.chap.is_some(), found.chap_required) {
            (true, _) => "",
            (false, false) => {
                "It has nothing to prove: whoever gives that name is let in. `amita initiator key` gives it a secret.\n"
            }
            (false, true) => {
                "It has no secret, and the target wants CHAP: it cannot log in before it has one (`amita initiator key`).\n"
            }
        };
        text
    })
}

/// What is to be changed, with secrets read, made and sealed.
fn wanted(
    arguments: &KeyArguments,
    reader: &Reader<'_>,
    endpoints: &Endpoints,
) -> Result<(InitiatorKeys, Vec<Generated>)> {
    // Said before a secret is read or made.
    let name = admin::check_iscsi_name("initiator", &arguments.initiator).described()?;
    let known = match admin::initiator(reader, &name) {
        Ok(known) => Some(known),
        Err(admin::AdminError::NoSuch { .. }) => None,
        Err(why) => return Err(why).described(),
    };
    let removes = keys::Removes {
        chap: arguments.remove_chap,
        chap_target: arguments.remove_chap_target,
    };
    let (mut keys, generated) = arguments.secrets.sealed(&name, known.as_ref(), removes, endpoints)?;
    keys.user = user(arguments.chap_user.as_deref(), arguments.own_chap_user);
    keys.target_user = user(arguments.chap_target_user.as_deref(), arguments.own_chap_target_user);
    Ok((keys, generated))
}

fn user(named: Option<&str>, own: bool) -> ChapUser {
    match named {
        Some(name) => ChapUser::Named(name.to_owned()),
        None if own => ChapUser::Own,
        None => ChapUser::Keep,
    }
}

fn show(reader: &Reader<'_>, initiator: &IscsiInitiator, as_json: bool, generated: &[Generated]) -> Result<()> {
    let shown = Shown::of(initiator, &readable(admin::targets(reader)).described()?);
    print(as_json, &shown, || {
        let mut text = format!(
            "Initiator {} is known; it has to prove: {}.\n",
            shown.initiator,
            shown.proofs()
        );
        if !generated.is_empty() {
            text += "\nThe secrets that were made are shown this once. Give them to the initiator:\n";
        }
        for made in generated {
            text += &format!("  {:<22} {}\n", made.what, made.secret.text());
        }
        text
    })
}

#[cfg(test)]
mod tests;
