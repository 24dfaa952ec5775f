//! `amita target`: what initiators log in to by iSCSI.

use super::lun::table_of;
use crate::admin::{Admin, Described, readable};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, LunStatus, SpaceWarning, TargetChange, TargetSpec};
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_types::map::{IscsiAccess, IscsiTarget};
use serde::Serialize;

/// What to do with targets.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a target; nobody may log in until initiators are allowed (`amita initiator allow`)
    Create(CreateArguments),
    /// List the targets
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a target: who serves it, who may log in, and its LUNs (who is logged in: `amita initiator sessions --target NAME`)
    Show {
        /// Its name
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change who serves a target, who may log in, and when its initiators are told that space runs out
    Set(SetArguments),
    /// Delete a target; its volumes stay
    Delete {
        /// Its name
        name: String,
        /// Also when it has LUNs, or nobody can read its record: initiators lose their disks
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
        /// Ask nothing
        #[arg(long)]
        yes: bool,
    },
}

/// `amita target create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    /// Its iSCSI name: iqn., eui. or naa. [default: made of the cluster's id and the name]
    #[arg(long, value_name = "IQN")]
    pub iqn: Option<String>,
    /// A node that serves it; once for each [default: all nodes that speak iSCSI]
    #[arg(long = "gateway", value_name = "NODE")]
    pub gateways: Vec<String>,
    /// Any initiator may log in and see all LUNs, without being allowed
    #[arg(long)]
    pub any_initiator: bool,
    /// Refuse logins without CHAP: only initiators that have a secret can log in then (`amita initiator key`)
    #[arg(long)]
    pub require_chap: bool,
    /// Initiators may have a volume moved to another gateway (explicit ALUA), once a minute at each
    #[arg(long)]
    pub initiators_move: bool,
    /// Tell its initiators that space runs out when so much of a LUN's pool is used [default: where stores are near full]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(3..=100))]
    pub space_warning: Option<u8>,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita target set`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args([
    "gateways", "all_gateways", "any_initiator", "listed_initiators", "require_chap", "allow_plain", "initiators_move",
    "operators_move", "space_warning", "usual_space_warning"]))]
pub struct SetArguments {
    /// Its name
    pub name: String,
    /// A node that serves it; once for each
    #[arg(long = "gateway", value_name = "NODE", conflicts_with = "all_gateways")]
    pub gateways: Vec<String>,
    /// All nodes that speak iSCSI serve it
    #[arg(long)]
    pub all_gateways: bool,
    /// Any initiator may log in and see all LUNs, without being allowed
    #[arg(long, conflicts_with = "listed_initiators")]
    pub any_initiator: bool,
    /// Only initiators that are allowed may log in
    #[arg(long)]
    pub listed_initiators: bool,
    /// Refuse logins without CHAP: only initiators that have a secret can log in then; those that came without are cut off
    #[arg(long, conflicts_with = "allow_plain")]
    pub require_chap: bool,
    /// Initiators without a secret log in without it
    #[arg(long)]
    pub allow_plain: bool,
    /// Initiators may have a volume moved to another gateway (explicit ALUA), once a minute at each
    #[arg(long, conflicts_with = "operators_move")]
    pub initiators_move: bool,
    /// Only operators move volumes
    #[arg(long)]
    pub operators_move: bool,
    /// Tell its initiators that space runs out when so much of a LUN's pool is used
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(3..=100),
        conflicts_with = "usual_space_warning")]
    pub space_warning: Option<u8>,
    /// Tell them where stores are near full
    #[arg(long)]
    pub usual_space_warning: bool,
    /// Say what it is now as JSON
    #[arg(long)]
    pub json: bool,
}

/// A target, with what its LUNs are.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    iqn: String,
    gateways: Vec<String>,
    any_initiator: bool,
    chap_required: bool,
    initiators_move: bool,
    space_warning_percent: Option<u8>,
    initiators: Vec<Allowed>,
    luns: Vec<LunStatus>,
}

/// An initiator that may log in.
#[derive(Debug, Serialize)]
struct Allowed {
    initiator: String,
    /// The numbers of the LUNs that it sees; null: all.
    luns: Option<Vec<u16>>,
}

impl From<IscsiAccess> for Allowed {
    fn from(access: IscsiAccess) -> Allowed {
        Allowed {
            initiator: access.initiator,
            luns: access.luns,
        }
    }
}

/// The LUNs that somebody sees, for a person.
pub(super) fn seen(luns: Option<&[u16]>) -> String {
    match luns {
        None => "all LUNs".to_owned(),
        Some([]) => "no LUN".to_owned(),
        Some([one]) => format!("LUN {one}"),
        Some(several) => {
            let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("LUNs {}", numbers.join(", "))
        }
    }
}

impl Shown {
    fn of(target: IscsiTarget, luns: Vec<LunStatus>) -> Shown {
        Shown {
            name: target.name,
            iqn: target.iqn,
            gateways: target.gateways,
            any_initiator: target.any_initiator,
            chap_required: target.chap_required,
            initiators_move: target.initiators_move,
            space_warning_percent: target.space_warning_percent,
            initiators: target.initiators.into_iter().map(Allowed::from).collect(),
            luns,
        }
    }

    fn served_by(&self) -> String {
        match &self.gateways[..] {
            [] => "all that speak iSCSI".to_owned(),
            named => named.join(", "),
        }
    }

    fn open_to(&self) -> String {
        match (self.any_initiator, self.initiators.len()) {
            (true, _) => "any".to_owned(),
            (false, 0) => "nobody".to_owned(),
            (false, count) => count.to_string(),
        }
    }

    fn text(&self) -> String {
        let warning = match self.space_warning_percent {
            Some(percent) => format!("at {percent} % of the pool"),
            None => "where stores are near full".to_owned(),
        };
        let mut text = format!(
            "target      {}\niqn         {}\ngateways    {}\nspace       warned of {warning}\ninitiators  {}{}{}\n",
            self.name,
            self.iqn,
            self.served_by(),
            if self.any_initiator {
                "any may log in"
            } else if self.initiators.is_empty() {
                "nobody may log in"
            } else {
                "these may log in"
            },
            if self.chap_required { ", by CHAP only" } else { "" },
            if self.initiators_move { ", and move volumes" } else { "" }
        );
        for known in &self.initiators {
            text += &format!("            {}: {}\n", known.initiator, seen(known.luns.as_deref()));
        }
        if !self.luns.is_empty() {
            text += &format!("\n{}", table_of(&self.luns, false).text());
        }
        text
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Create(arguments) => create(arguments, &metadata),
        Command::List { json } => list(*json, &metadata),
        Command::Show { name, json } => {
            let found = admin::target(&metadata.reader(), name).described()?;
            show(found, *json, &metadata)
        }
        Command::Set(arguments) => {
            let change = TargetChange {
                gateways: (arguments.all_gateways || !arguments.gateways.is_empty())
                    .then(|| arguments.gateways.clone()),
                any_initiator: (arguments.any_initiator || arguments.listed_initiators)
                    .then_some(arguments.any_initiator),
                chap_required: (arguments.require_chap || arguments.allow_plain).then_some(arguments.require_chap),
                initiators_move: (arguments.initiators_move || arguments.operators_move)
                    .then_some(arguments.initiators_move),
                space_warning: match arguments.space_warning {
                    Some(percent) => Some(SpaceWarning::At(percent)),
                    None => arguments.usual_space_warning.then_some(SpaceWarning::NearFull),
                },
            };
            let name = &arguments.name;
            let changed = metadata.act(Action::TargetSet, name, |meta| admin::set_target(meta, name, &change));
            show(changed.described()?, arguments.json, &metadata)
        }
        Command::Delete { name, force, json, yes } => {
            if *force {
                let mut lost = format!("Target {name} goes, and all initiators lose the disks that they have by it.");
                if let Err(AdminError::Unreadable { .. }) = admin::target(&metadata.reader(), name) {
                    lost += " Nobody can read its record: its iSCSI name, the numbers of its LUNs and who sees them go with it, and have to be \
                             said anew. Its volumes stay.";
                }
                confirm::destroys(*yes, name, &lost)?;
            }
            metadata
                .act(Action::TargetDelete, name, |meta| {
                    admin::delete_target(meta, name, *force)
                })
                .described()?;
            let found = serde_json::json!({ "name": name, "deleted": true });
            print(*json, &found, || format!("Target {name} is deleted.\n"))
        }
    }
}

fn create(arguments: &CreateArguments, metadata: &Admin) -> Result<()> {
    let spec = TargetSpec {
        name: arguments.name.clone(),
        iqn: arguments.iqn.clone(),
        gateways: arguments.gateways.clone(),
        any_initiator: arguments.any_initiator,
        chap_required: arguments.require_chap,
        initiators_move: arguments.initiators_move,
        space_warning_percent: arguments.space_warning,
    };
    let made = metadata.act(Action::TargetCreate, &spec.name, |meta| {
        admin::create_target(meta, &spec)
    });
    let shown = Shown::of(made.described()?, Vec::new());
    print(arguments.json, &shown, || {
        let open = if shown.any_initiator {
            "Any initiator may log in."
        } else {
            "Nobody may log in yet: see `amita initiator allow`."
        };
        format!("Target {} is {}.\n{open}\n", shown.name, shown.iqn)
    })
}

fn show(found: IscsiTarget, as_json: bool, metadata: &Admin) -> Result<()> {
    let luns = admin::luns_of(&metadata.reader(), &found.name).described()?;
    let shown = Shown::of(found, luns);
    print(as_json, &shown, || shown.text())
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    // Which records cannot be read is said once, with the targets.
    let luns = admin::luns(&metadata.reader()).described()?.readable;
    let targets = readable(admin::targets(&metadata.reader())).described()?;
    let shown: Vec<Shown> = targets
        .into_iter()
        .map(|target| {
            let own = luns.iter().filter(|known| known.target == target.name);
            let own = own.cloned().collect();
            Shown::of(target, own)
        })
        .collect();
    print(as_json, &shown, || {
        let mut table = Table::new(&["target", "LUNs", "initiators", "gateways", "iqn"]);
        for found in &shown {
            table.row([
                found.name.clone(),
                found.luns.len().to_string(),
                found.open_to(),
                found.served_by(),
                found.iqn.clone(),
            ]);
        }
        table.text()
    })
}
