//! `amita initiator sessions`: who is logged in by which gateway.

use crate::admin::{Admin, Described as _};
use crate::by_api::rest::{Rest, encode};
use crate::cli::Endpoints;
use crate::commands::history::first;
use crate::commands::join::Described as _;
use crate::logging::timestamp;
use amita_api::IscsiSession;
use amita_control::admin;
use amita_identity::{Clock, Live};
use amita_terminal::error::{Failure, Result};
use amita_terminal::table::{Table, print};
use serde::Deserialize;
use serde_json::Value;

/// Sessions of one answer.
const PIECE: usize = 1000;

/// `amita initiator sessions`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Of the initiator of this iSCSI name only
    #[arg(long, value_name = "IQN")]
    pub initiator: Option<String>,
    /// With the target of this name only
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// By the gateway of this name only
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What a node answers.
#[derive(Debug, Deserialize)]
struct Answer {
    items: Vec<IscsiSession>,
    missing: Vec<Missing>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Missing {
    node: String,
    why: String,
}

/// Shows them. Any node that serves the API asks all gateways.
///
/// # Errors
/// The metadata cannot be reached, there is no such target or node, no node answers, or a name is none.
pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(endpoints)?;
    if let Some(name) = &arguments.initiator {
        admin::check_iscsi_name("initiator", name).described()?;
    }
    if let Some(name) = &arguments.target {
        admin::target(&metadata.reader(), name).described()?;
    }
    let nodes = metadata.status()?.nodes;
    if let Some(name) = &arguments.node {
        let names = nodes.iter().map(|found| found.node.name.clone()).collect();
        check_node(name, names)?;
    }
    let identity = match endpoints.identity() {
        Some(folder) => Some(Live::open(folder, Clock::system()).described()?),
        None => None,
    };
    let places = nodes.into_iter().filter(|found| found.alive);
    let places: Vec<(String, String)> = places
        .filter_map(|found| found.node.api.map(|api| (found.node.name, api)))
        .collect();
    show(arguments, |path| {
        let answer: Value = first(places.iter().cloned(), path, identity.as_ref())?;
        serde_json::from_value(answer).map_err(|why| {
            Failure::new(format!("the answer is of another form: {why}")).advice("Is the node of another version?")
        })
    })
}

/// The same by the API.
///
/// # Errors
/// No node answers, there is no such target or node, or a name is none.
pub(super) fn run_by_api(arguments: &Arguments, rest: &Rest) -> Result<()> {
    if let Some(name) = &arguments.node {
        rest.get::<serde::de::IgnoredAny>(&format!("/api/v1/nodes/{}", encode(name)))?;
    }
    show(arguments, |path| rest.get(path))
}

fn check_node(name: &str, there: Vec<String>) -> Result<()> {
    match there.iter().any(|known| known == name) {
        true => Ok(()),
        false => Err(admin::AdminError::NoSuch {
            what: "node",
            name: name.to_owned(),
            there,
        })
        .described(),
    }
}

/// What is asked for.
fn path(arguments: &Arguments, after: Option<&str>) -> String {
    let mut path = format!("/api/v1/iscsi/sessions?limit={PIECE}");
    for (name, value) in [
        ("initiator", arguments.initiator.as_deref()),
        ("target", arguments.target.as_deref()),
        ("node", arguments.node.as_deref()),
        ("after", after),
    ] {
        if let Some(value) = value {
            path += &format!("&{name}={}", encode(value));
        }
    }
    path
}

fn show(arguments: &Arguments, ask: impl Fn(&str) -> Result<Answer>) -> Result<()> {
    let mut sessions = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let Answer {
            items,
            missing,
            next: behind,
        } = ask(&path(arguments, next.as_deref()))?;
        for Missing { node, why } in missing {
            log::warn!("the sessions of node {node} are not in it: {why}");
        }
        sessions.extend(items);
        // A node that tells the same place again and again would be asked for ever.
        if behind.is_none() || behind == next {
            break;
        }
        next = behind;
    }
    print(arguments.json, &sessions, || text(&sessions))
}

fn text(sessions: &[IscsiSession]) -> String {
    if sessions.is_empty() {
        return "No initiator is logged in.\n".to_owned();
    }
    let mut table = Table::new(&[
        "initiator",
        "target",
        "node",
        "core",
        "portal",
        "since (UTC)",
        "proven",
        "digests",
        "under way",
    ]);
    for session in sessions {
        let target = session.target.as_ref().or(session.iqn.as_ref());
        table.row([
            format!("{} ({})", session.initiator, session.isid),
            target.map_or("(discovers)", String::as_str).to_owned(),
            session.node.clone(),
            session.core.to_string(),
            match &session.portal {
                Some(portal) => format!("{portal},{}", session.tag),
                None => session.tag.to_string(),
            },
            timestamp(session.since, 0),
            if session.proven { "yes" } else { "" }.to_owned(),
            digests(session).to_owned(),
            format!("{} of {}", session.under_way, session.commands),
        ]);
    }
    table.text()
}

fn digests(session: &IscsiSession) -> &'static str {
    match (session.header_digest, session.data_digest) {
        (false, false) => "",
        (true, false) => "header",
        (false, true) => "data",
        (true, true) => "both",
    }
}

#[cfg(test)]
mod tests;
