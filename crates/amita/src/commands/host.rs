//! `amita host`: who may connect to which subsystem, and what they have to prove.

pub(crate) mod keys;

use crate::admin::{Admin, Described, readable};
use crate::cli::Endpoints;
use amita_control::access::{Action, Reader};
use amita_control::admin::{self, HostKeys, Secret};
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_types::map::{Host, Subsystem};
use keys::{Generated, KeyArguments};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// What to do with hosts.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a host known, with what it has to prove; it may connect nowhere until it is allowed to
    ///
    /// Keys are read from files or from standard input, never from the command line, and are kept sealed.
    Add(AddArguments),
    /// Change what a host has to prove; it is cut off if it is connected by something else, and connects again by this
    Key(KeyChangeArguments),
    /// Let a host connect to a subsystem
    Allow {
        /// The subsystem's name
        subsystem: String,
        /// The host's NVMe qualified name
        nqn: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a host connect to a subsystem no more; it is cut off if it is connected
    Deny {
        /// The subsystem's name
        subsystem: String,
        /// The host's NVMe qualified name
        nqn: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the hosts; never their keys
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a host and its keys
    Remove {
        /// Its NVMe qualified name
        nqn: String,
        /// Also when it is allowed somewhere: it is denied there; and when nobody can read its record
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Seal the keys of all hosts and initiators anew, with the first key of the file: after a new line was put in front of it
    ///
    /// Give the file to all gateways first. After this the old line can go.
    Reseal {
        /// The file with the new sealing key and the old one
        #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
        seal_key: PathBuf,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the cluster's sealing key, which opens the keys of hosts and initiators: a new file, for all gateways and for whoever adds keys
    SealKey {
        /// The file; it must not exist yet
        file: PathBuf,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita host add`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// Its NVMe qualified name: on Linux, what /etc/nvme/hostnqn says
    pub nqn: String,
    /// Its keys
    #[command(flatten)]
    pub keys: KeyArguments,
    /// Say what was made as JSON: without any key, so none can be made on the way
    #[arg(long, conflicts_with_all = ["generate_dhchap", "generate_dhchap_controller", "generate_tls"])]
    pub json: bool,
}

/// `amita host key`.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true, id = "what", args = [
    "dhchap_key", "dhchap_controller_key", "tls_key", "generate_dhchap", "generate_dhchap_controller", "generate_tls",
    "remove_dhchap", "remove_dhchap_controller", "remove_tls"])]
pub struct KeyChangeArguments {
    /// Its NVMe qualified name
    pub nqn: String,
    /// Its keys
    #[command(flatten)]
    pub keys: KeyArguments,
    /// It need not prove itself by DH-HMAC-CHAP any more
    #[arg(long, conflicts_with_all = ["dhchap_key", "generate_dhchap"])]
    pub remove_dhchap: bool,
    /// Controllers cannot prove themselves to it any more
    #[arg(long, conflicts_with_all = ["dhchap_controller_key", "generate_dhchap_controller"])]
    pub remove_dhchap_controller: bool,
    /// It connects without TLS
    #[arg(long, conflicts_with_all = ["tls_key", "generate_tls"])]
    pub remove_tls: bool,
    /// Say what it is now as JSON: without any key, so none can be made on the way
    #[arg(long, conflicts_with_all = ["generate_dhchap", "generate_dhchap_controller", "generate_tls"])]
    pub json: bool,
}

/// A host as it is shown: which keys it has, never what they are.
#[derive(Debug, Serialize)]
struct Shown {
    nqn: String,
    dhchap: bool,
    dhchap_controller: bool,
    tls: bool,
    subsystems: Vec<String>,
}

impl Shown {
    fn of(host: &Host, subsystems: &[Subsystem]) -> Shown {
        let allowed = subsystems
            .iter()
            .filter(|subsystem| subsystem.hosts.contains(&host.nqn));
        Shown {
            nqn: host.nqn.clone(),
            dhchap: host.dhchap.is_some(),
            dhchap_controller: host.dhchap_controller.is_some(),
            tls: host.tls.is_some(),
            subsystems: allowed.map(|subsystem| subsystem.name.clone()).collect(),
        }
    }

    fn proofs(&self) -> String {
        let chap = match (self.dhchap, self.dhchap_controller) {
            (false, _) => None,
            (true, false) => Some("CHAP"),
            (true, true) => Some("CHAP both ways"),
        };
        let proofs: Vec<&str> = chap.into_iter().chain(self.tls.then_some("TLS")).collect();
        match &proofs[..] {
            [] => "nothing".to_owned(),
            some => some.join(", "),
        }
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    if let Command::SealKey { file, json } = command {
        return make_seal_key(file, *json);
    }
    let endpoints = metadata;
    let metadata = Admin::connect(endpoints)?;
    let reader = metadata.reader();
    match command {
        Command::Add(arguments) => {
            // Said before a key is read or made.
            admin::check_nqn("host", &arguments.nqn).described()?;
            let (keys, generated) = arguments.keys.sealed(&arguments.nqn, false, endpoints)?;
            let nqn = &arguments.nqn;
            let made = metadata.act(Action::HostAdd, nqn, |meta| admin::add_host(meta, nqn, &keys));
            let made = made.described()?;
            show(&reader, &made, arguments.json, &generated)
        }
        Command::Key(arguments) => {
            // A name that is not known is said before a key is read or made.
            admin::host(&reader, &arguments.nqn).described()?;
            let (mut keys, generated) =
                arguments
                    .keys
                    .sealed(&arguments.nqn, arguments.remove_dhchap_controller, endpoints)?;
            let HostKeys {
                dhchap,
                dhchap_controller,
                tls,
            } = &mut keys;
            for (remove, secret) in [
                (arguments.remove_dhchap, dhchap),
                (arguments.remove_dhchap_controller, dhchap_controller),
                (arguments.remove_tls, tls),
            ] {
                if remove {
                    *secret = Secret::Remove;
                }
            }
            let nqn = &arguments.nqn;
            let changed = metadata.act(Action::HostKey, nqn, |meta| admin::set_host_keys(meta, nqn, &keys));
            let changed = changed.described()?;
            show(&reader, &changed, arguments.json, &generated)
        }
        Command::Allow { subsystem, nqn, json } => {
            let object = format!("{nqn} in {subsystem}");
            let allowed = metadata.act(Action::HostAllow, &object, |meta| {
                admin::allow_host(meta, subsystem, nqn)
            });
            let found = allowed.described()?;
            let told = told(nqn, subsystem, &found, true);
            print(*json, &told, || format!("Host {nqn} may connect to {}.\n", found.nqn))
        }
        Command::Deny { subsystem, nqn, json } => {
            let object = format!("{nqn} in {subsystem}");
            let denied = metadata.act(Action::HostDeny, &object, |meta| admin::deny_host(meta, subsystem, nqn));
            let found = denied.described()?;
            let yet = if found.any_host {
                " by name; but any host may: see `amita subsystem set --listed-hosts`"
            } else {
                ""
            };
            let told = told(nqn, subsystem, &found, found.any_host);
            print(*json, &told, || {
                format!("Host {nqn} may not connect to {}{yet}.\n", found.nqn)
            })
        }
        Command::List { json } => {
            let subsystems = readable(admin::subsystems(&reader)).described()?;
            let hosts = readable(admin::hosts(&reader)).described()?;
            let shown: Vec<Shown> = hosts.iter().map(|host| Shown::of(host, &subsystems)).collect();
            print(*json, &shown, || {
                let mut table = Table::new(&["host", "has to prove", "allowed in"]);
                for host in &shown {
                    table.row([host.nqn.clone(), host.proofs(), host.subsystems.join(", ")]);
                }
                table.text()
            })
        }
        Command::Remove { nqn, force, json } => {
            metadata
                .act(Action::HostRemove, nqn, |meta| admin::remove_host(meta, nqn, *force))
                .described()?;
            let told = serde_json::json!({ "host": nqn, "removed": true });
            print(*json, &told, || format!("Host {nqn} is forgotten, and its keys.\n"))
        }
        Command::Reseal { seal_key, json } => reseal(&metadata, seal_key, *json),
        Command::SealKey { .. } => Ok(()),
    }
}

/// Whether a host may connect to a subsystem now, as JSON says it.
fn told(nqn: &str, name: &str, subsystem: &Subsystem, may_connect: bool) -> serde_json::Value {
    serde_json::json!({ "host": nqn, "subsystem": name, "nqn": subsystem.nqn, "may_connect": may_connect })
}

fn show(reader: &Reader<'_>, host: &Host, as_json: bool, generated: &[Generated]) -> Result<()> {
    let shown = Shown::of(host, &readable(admin::subsystems(reader)).described()?);
    print(as_json, &shown, || {
        let mut text = format!("Host {} is known; it has to prove: {}.\n", shown.nqn, shown.proofs());
        if !generated.is_empty() {
            text += "\nThe keys that were made are shown this once. Give them to the host:\n";
        }
        for made in generated {
            text += &format!("  {:<22} {}\n", made.what, *made.text);
        }
        text
    })
}

fn reseal(metadata: &Admin, file: &std::path::Path, as_json: bool) -> Result<()> {
    let key = SealKey::load(file).map_err(|why| Failure::new(why.to_string()).kind(Kind::Unreadable))?;
    let sealed = metadata.act(Action::HostReseal, &format!("with {}", key.id()), |meta| {
        reseal_all(meta, &key)
    });
    match sealed {
        Ok(count) => {
            let told = serde_json::json!({ "keys": count, "seal_key": key.id().to_string() });
            print(as_json, &told, || {
                format!("{count} keys are sealed with {} now.\n", key.id())
            })
        }
        Err(Resealing::Admin(why)) => Err(why).described(),
        Err(Resealing::Seal(why)) => Err(Failure::new(why.to_string()).advice(
            "Those before it are sealed anew, and both keys open them: put the right line into the file, and run this again.",
        )),
    }
}

/// How many keys were sealed anew.
fn reseal_all(meta: &dyn Transact, key: &SealKey) -> std::result::Result<usize, Resealing> {
    let mut count = 0;
    for host in admin::hosts(meta)?.whole()? {
        let again = |field: &'static str, sealed: &str| -> std::result::Result<String, Resealing> {
            let text = key.unseal(&host.nqn, field, sealed).map_err(Resealing::Seal)?;
            key.seal(&host.nqn, field, &text).map_err(Resealing::Seal)
        };
        if let Some(found) = admin::reseal_host(meta, &host.nqn, again)? {
            let secrets = [found.dhchap, found.dhchap_controller, found.tls];
            count += secrets.iter().flatten().count();
        }
    }
    for initiator in admin::initiators(meta)?.whole()? {
        let name = &initiator.name;
        let again = |field: &'static str, sealed: &str| -> std::result::Result<String, Resealing> {
            let text = key.unseal(name, field, sealed).map_err(Resealing::Seal)?;
            key.seal(name, field, &text).map_err(Resealing::Seal)
        };
        if let Some(found) = admin::reseal_initiator(meta, name, again)? {
            count += [found.chap, found.chap_target].iter().flatten().count();
        }
    }
    Ok(count)
}

/// What can go wrong when keys are sealed anew.
enum Resealing {
    Admin(admin::AdminError),
    Seal(amita_keys::SealError),
}

impl fmt::Display for Resealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resealing::Admin(why) => why.fmt(f),
            Resealing::Seal(why) => why.fmt(f),
        }
    }
}

impl From<admin::AdminError> for Resealing {
    fn from(why: admin::AdminError) -> Resealing {
        Resealing::Admin(why)
    }
}

fn make_seal_key(file: &std::path::Path, as_json: bool) -> Result<()> {
    if file.exists() {
        return Err(Failure::new(format!("{} exists already", file.display()))
            .kind(Kind::Conflict)
            .advice("What was sealed with the key in it would be lost: choose another file."));
    }
    let key = SealKey::generate();
    key.save(file).context(|| "cannot make the sealing key".to_owned())?;
    let told = serde_json::json!({ "file": file, "seal_key": key.id().to_string() });
    print(as_json, &told, || {
        format!(
            "The sealing key {} is in {}. Give the file to every gateway (`amita serve --seal-key`), and keep a copy: without \
             it the keys of hosts cannot be opened.\n",
            key.id(),
            file.display()
        )
    })
}

#[cfg(test)]
mod tests;
