//! `amita token`: who may use the API without a certificate.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::events::parse_age;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, NewToken};
use amita_identity::OperatorRole;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_types::map::ApiToken;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to do with tokens.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a token: it is shown this once, and kept nowhere
    ///
    /// Whoever has it may use the REST API of every node as its role says (`Authorization: Bearer TOKEN`), until it ends or is
    /// revoked.
    Create {
        /// Who will hold it
        name: String,
        /// What they may: admin, operator, viewer or auditor
        #[arg(long, value_name = "ROLE")]
        role: OperatorRole,
        /// For how long: a number with s, m, h or d; at most 366d
        #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "30d")]
        life: Duration,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tokens that there are, without their secrets
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a token be good for nothing, within five seconds at every node
    Revoke {
        /// Its id, or the beginning of it: at least 8 digits, and as many as no other one has
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Create { name, role, life, json } => create(name, *role, *life, *json, metadata),
        Command::List { json } => list(*json, metadata),
        Command::Revoke { id, json } => revoke(id, *json, metadata),
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn create(name: &str, role: OperatorRole, life: Duration, as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let wanted = NewToken {
        name: name.to_owned(),
        role,
        life,
        made_by: admin.caller().who().name.clone(),
    };
    // Nobody makes their own token last for longer by it.
    let ends_at = metadata.lent().and_then(|lent| lent.ends_at);
    if admin.caller().may(Action::TokenCreate)
        && ends_at.is_some_and(|ends_at| now().saturating_add(life).as_secs() > ends_at)
    {
        return Err(Failure::new("it would be good for longer than the token that makes it")
            .kind(Kind::Usage)
            .advice("Give a shorter --life, or make it by a certificate."));
    }
    let made = admin.act(Action::TokenCreate, name, |meta| {
        admin::create_token(meta, &wanted, now())
    });
    let (record, secret) = made.described()?;
    let secret = secret.to_text();
    let mut shown = facts(&record);
    shown["secret"] = json!(*secret);
    print(as_json, &shown, || {
        format!(
            "{}\n\nIt is for {} ({}), and good until {}. Keep it: nobody can show it again.\n`amita token revoke {}` ends it before.\n",
            *secret,
            record.name,
            record.role,
            timestamp(record.ends_at, 0),
            &record.id[..8],
        )
    })
}

/// What may be known of a token.
fn facts(record: &ApiToken) -> Value {
    json!({
        "id": record.id,
        "name": record.name,
        "role": record.role,
        "made_by": record.made_by,
        "made_at": record.made_at,
        "ends_at": record.ends_at,
        "ended": record.ends_at <= now().as_secs(),
    })
}

fn list(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let all = admin::tokens(&Admin::connect(metadata)?.reader()).described()?;
    let shown: Vec<Value> = all.iter().map(facts).collect();
    print(as_json, &shown, || {
        if all.is_empty() {
            return "There are no tokens. `amita token create NAME --role ROLE` makes one.\n".to_owned();
        }
        let mut table = Table::new(&["id", "name", "role", "made by", "good until"]);
        for token in &all {
            let ended = if token.ends_at <= now().as_secs() {
                " (ended)"
            } else {
                ""
            };
            table.row([
                token.id[..8].to_owned(),
                token.name.clone(),
                token.role.clone(),
                token.made_by.clone(),
                format!("{}{ended}", timestamp(token.ends_at, 0)),
            ]);
        }
        table.text()
    })
}

fn revoke(id: &str, as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let gone = admin.act(Action::TokenRevoke, id, |meta| admin::revoke_token(meta, id));
    let gone = gone.described()?;
    print(as_json, &facts(&gone), || {
        format!(
            "The token of {} ({}) is good for nothing any more.\n",
            gone.name,
            &gone.id[..8]
        )
    })
}
