//! `amita cert`: certificates.

use crate::cli::Folder;
use crate::commands::client::{capability_text, shown_capability};
use crate::commands::join::{CaArguments, Described, print_identity};
use amita_identity::{Authority, AuthorityClient, Clock, Identity, Live, Revoked};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to do with certificates.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show an identity: whose it is, until when it is valid, and whether it would be believed
    Show {
        /// The identity's folder [default: --identity]
        folder: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List what the authority has made and what of it is valid: on the authority's machine
    List {
        #[command(flatten)]
        ca: CaArguments,
        /// Also those that have ended or were revoked
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Renew an identity now: a new key, a new certificate, the newest list of what is trusted
    ///
    /// A node that serves with --ca-server does it by itself.
    Renew {
        /// Where the authority serves (`amita ca serve`)
        #[arg(
            long,
            env = "AMITA_CA_SERVER",
            value_name = "HOST:PORT",
            required_unless_present = "ca"
        )]
        ca_server: Option<String>,
        /// The authority's folder, on its machine; it counts before --ca-server
        #[arg(long, value_name = "DIR")]
        ca: Option<PathBuf>,
        /// Say what was made as JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke certificates: on the authority's machine
    ///
    /// Machines hear of it with their next look at the authority, half a minute later at most, and close what links they have
    /// with the holder. Tokens that are open for that name end too. The name can be given again: a new token makes a new
    /// certificate.
    Revoke {
        /// A name (NAME, ROLE/NAME or amita://...) whose certificates end, all of them; or one serial number
        which: String,
        #[command(flatten)]
        ca: CaArguments,
        /// Say what was revoked as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder) -> Result<()> {
    match command {
        Command::Show { folder, json } => match folder {
            Some(folder) => show(folder, *json),
            None => show(identity.wanted()?, *json),
        },
        Command::List { ca, all, json } => list(ca, *all, *json),
        Command::Renew { ca_server, ca, json } => renew(ca_server.as_deref(), ca.as_deref(), *json, identity),
        Command::Revoke { which, ca, json } => revoke(which, ca, *json),
    }
}

fn show(folder: &Path, as_json: bool) -> Result<()> {
    let (facts, trust) = Identity::show(folder).described()?;
    let judged = Identity::open(folder, Clock::system().now());
    let state = judged
        .as_ref()
        .err()
        .map_or_else(|| "ok".to_owned(), ToString::to_string);
    let number = trust.number();
    let shown = json!({
        "name": facts.name.to_string(), "serial": facts.serial.to_string(), "not_before": facts.not_before.0,
        "not_after": facts.not_after.0, "renews_from": facts.renew_from().0, "issuer": facts.issuer,
        "authorities": trust.roots().len(), "trust_number": number, "ok": judged.is_ok(), "state": state,
        "capability": facts.capability.as_ref().map(shown_capability),
    });
    print(as_json, &shown, || {
        let mut table = Table::new(&["name", "serial", "not after", "issuer", "trust list", "state"]);
        table.row([
            facts.name.to_string(),
            facts.serial.to_string(),
            facts.not_after.to_string(),
            facts.issuer.clone(),
            number.map_or_else(|| "none".to_owned(), |number| number.to_string()),
            state.clone(),
        ]);
        table.text() + &facts.capability.as_ref().map_or_else(String::new, capability_text)
    })?;
    match judged {
        Ok(_) => Ok(()),
        // It was said in words already.
        Err(_) => Err(Failure::new(format!("{} would not be believed", folder.display()))),
    }
}

fn list(ca: &CaArguments, all: bool, as_json: bool) -> Result<()> {
    let authority = ca.open()?;
    let now = Clock::system().now();
    let revoked = authority.revoked().described()?;
    let mut entries = Vec::new();
    for issued in authority.issued().described()? {
        let is_revoked = revoked.iter().any(|revoked| revoked.serial == issued.serial);
        let state = match (is_revoked, issued.until <= now) {
            (true, _) => "revoked",
            (false, true) => "ended",
            (false, false) => "valid",
        };
        if all || state == "valid" {
            entries.push((issued, state));
        }
    }
    let shown: Vec<_> = entries
        .iter()
        .map(|(issued, state)| {
            json!({
                "name": issued.name.to_string(), "serial": issued.serial.to_string(), "made": issued.at.0,
                "not_after": issued.until.0, "state": state,
            })
        })
        .collect();
    print(as_json, &shown, || {
        let mut table = Table::new(&["name", "serial", "made", "not after", "state"]);
        for (issued, state) in &entries {
            table.row([
                issued.name.to_string(),
                issued.serial.to_string(),
                issued.at.to_string(),
                issued.until.to_string(),
                (*state).to_owned(),
            ]);
        }
        table.text()
    })
}

fn renew(server: Option<&str>, ca: Option<&Path>, as_json: bool, identity: &Folder) -> Result<()> {
    let folder = identity.wanted()?;
    let clock = Clock::system();
    match (ca, server) {
        (Some(ca), _) => {
            let authority = Authority::open(ca, clock.clone()).described()?;
            authority.renew_identity(folder).described()?;
        }
        (None, Some(server)) => {
            let client = AuthorityClient::new(server).map_err(|why| Failure::new(why.to_string()).kind(Kind::Usage))?;
            client
                .renew(&Live::open(folder, clock.clone()).described()?)
                .described()?;
        }
        (None, None) => {
            return Err(
                Failure::new("where is the authority? Neither its server nor its folder was given")
                    .kind(Kind::Usage)
                    .advice("Pass --ca-server HOST:PORT, or --ca DIR on the authority's machine."),
            );
        }
    }
    print_identity(&Identity::open(folder, clock.now()).described()?, folder, as_json)
}

fn revoke(which: &str, ca: &CaArguments, as_json: bool) -> Result<()> {
    let authority = ca.open()?;
    let revoked = authority.revoke(which).described()?;
    let number = authority.number().described()?;
    let whose = |revoked: &Revoked| {
        revoked
            .name
            .as_ref()
            .map_or_else(|| "nobody known".to_owned(), ToString::to_string)
    };
    let shown: Vec<_> = revoked
        .certificates
        .iter()
        .map(|revoked| json!({ "name": revoked.name.as_ref().map(ToString::to_string), "serial": revoked.serial.to_string() }))
        .collect();
    let all = json!({ "revoked": shown, "tokens": revoked.tokens, "trust_number": number });
    print(as_json, &all, || {
        let line = |revoked: &Revoked| format!("Certificate {} of {} is revoked.\n", revoked.serial, whose(revoked));
        let mut text: String = revoked.certificates.iter().map(line).collect();
        text.extend(
            revoked
                .tokens
                .iter()
                .map(|token| format!("Token {token} is taken no more.\n")),
        );
        text.push_str(&format!("The list of what is trusted has number {number} now.\n"));
        text
    })
}
