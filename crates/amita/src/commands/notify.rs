//! `amita notify`: whom alerts are told, by webhook, mail and syslog.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::alert::MatchArguments;
use crate::commands::events::parse_age;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_notify::channel::{self, Channel, GroupBy, Protection, Secrets, SyslogBy};
use amita_notify::delivery::Delivery;
use amita_notify::{ChannelKind, Severity, admin};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest secret, in bytes.
const MAX_SECRET: u64 = 4096;
/// The longest file of authorities, in bytes.
const MAX_AUTHORITY: u64 = 64 << 10;

/// What to do with channels.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a channel: alerts are told by it from now on
    #[command(subcommand)]
    Add(Box<AddCommand>),
    /// List the channels, and how it went with them; never their secrets
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a channel: nobody is told by it any more
    Remove {
        /// Its name
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have the node that tells of alerts send a test message now, and say what the receiver answers
    Test {
        /// Its name
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// How a channel tells.
#[derive(Debug, clap::Subcommand)]
pub enum AddCommand {
    /// By POST requests with JSON, signed where there is a secret
    Webhook(WebhookArguments),
    /// By mail
    Mail(MailArguments),
    /// By syslog (RFC 5424)
    Syslog(SyslogArguments),
}

/// What channels have in common.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// What matters less is not told: info, warning or critical
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    pub severity: Severity,
    #[command(flatten)]
    pub matches: MatchArguments,
    /// What is told together: alerts of one code, of one node, of one pool, or all
    #[arg(long, value_name = "WHAT", default_value = "code")]
    pub group_by: GroupBy,
    /// For how long more of a group is waited for: a number with s, m, h or d; at most 1h
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "15s")]
    pub group_wait: Duration,
    /// What still fires, and nobody looks after, is told again after this: a number with s, m, h or d; 60s to 30d
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "4h")]
    pub repeat: Duration,
    /// Do not tell when an alert is over
    #[arg(long)]
    pub no_resolved: bool,
    /// A file with the certificates of the authorities that are believed instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The receiver may be on the node's own machine, where it is spoken to plainly if its address says so
    #[arg(long)]
    pub allow_loopback: bool,
    /// The file with the cluster's sealing key (`amita host seal-key`); needed with any secret
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// A webhook.
#[derive(Debug, clap::Args)]
pub struct WebhookArguments {
    /// The channel's name
    pub name: String,
    /// Where: https://HOST[:PORT]/PATH
    #[arg(
        long,
        value_name = "URL",
        required_unless_present = "url_file",
        conflicts_with = "url_file"
    )]
    pub url: Option<String>,
    /// A file with the address, or - for standard input: where its path is a secret
    #[arg(long, value_name = "FILE|-")]
    pub url_file: Option<PathBuf>,
    /// A file with the key by which requests are signed (HMAC-SHA256), or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// A mail.
#[derive(Debug, clap::Args)]
pub struct MailArguments {
    /// The channel's name
    pub name: String,
    /// The mail server: HOST, or HOST:PORT (587 by starttls, 465 by tls, 25 without either)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: String,
    /// How the connection is protected: starttls, tls, or none, which is for a server on the node's own machine
    #[arg(long, value_name = "HOW", default_value = "starttls")]
    pub protection: Protection,
    /// Who the cluster is to the server
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// A file with the user's password, or - for standard input
    #[arg(long, value_name = "FILE|-", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Whom the mail is from
    #[arg(long, value_name = "ADDRESS")]
    pub from: String,
    /// Whom it is for; may be given up to 16 times
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub to: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

/// A syslog.
#[derive(Debug, clap::Args)]
pub struct SyslogArguments {
    /// The channel's name
    pub name: String,
    /// By what: udp, tcp, tls, or local, which is the log of the machine of the node that tells
    #[arg(long, value_name = "HOW")]
    pub by: SyslogBy,
    /// The server: HOST:PORT
    #[arg(long, value_name = "HOST:PORT", required_if_eq_any = [("by", "udp"), ("by", "tcp"), ("by", "tls")])]
    pub server: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Add(how) => add(how, metadata),
        Command::List { json } => list(*json, metadata),
        Command::Remove { name, json } => {
            let admin = Admin::connect(metadata)?;
            let gone = admin.act(Action::ChannelRemove, name, |meta| admin::remove_channel(meta, name));
            gone.described()?;
            let told = json!({ "channel": name, "removed": true });
            print(*json, &told, || {
                format!("Channel {name} is gone: nobody is told by it any more.\n")
            })
        }
        Command::Test { name, json } => test(name, *json, metadata),
    }
}

fn usage(why: impl Into<String>) -> Failure {
    Failure::new(why).kind(Kind::Usage)
}

/// A secret of a file, or of standard input: its first line.
fn secret(path: &Path, from: &Endpoints) -> Result<String> {
    let read = from.read_file(path, MAX_SECRET);
    let text = read.context(|| format!("{} cannot be read", path.display()))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(usage(format!("{} has nothing in its first line", path.display())));
    }
    Ok(line.to_owned())
}

fn add(how: &AddCommand, metadata: &Endpoints) -> Result<()> {
    let (name, common) = match how {
        AddCommand::Webhook(arguments) => (&arguments.name, &arguments.common),
        AddCommand::Mail(arguments) => (&arguments.name, &arguments.common),
        AddCommand::Syslog(arguments) => (&arguments.name, &arguments.common),
    };
    let (kind, secrets) = match how {
        AddCommand::Webhook(arguments) => webhook(arguments, metadata)?,
        AddCommand::Mail(arguments) => mail(arguments, metadata)?,
        AddCommand::Syslog(arguments) => {
            let (by, server) = (arguments.by, arguments.server.clone().unwrap_or_default());
            (ChannelKind::Syslog { by, server }, Secrets::default())
        }
    };
    let admin = Admin::connect(metadata)?;
    let mut made = Channel::new(name, kind, &admin.caller().who().name, amita_notify::now());
    let read = |path: &PathBuf| {
        let text = metadata.read_file(path, MAX_AUTHORITY);
        text.map(|text| text.to_string())
            .context(|| format!("{} cannot be read", path.display()))
    };
    made.authority = common.ca.as_ref().map(read).transpose()?;
    (made.allow_loopback, made.least, made.matches) = (common.allow_loopback, common.severity, common.matches.of());
    (made.group_by, made.resolved) = (common.group_by, !common.no_resolved);
    (made.wait_s, made.repeat_s) = (common.group_wait.as_secs(), common.repeat.as_secs());
    let seal = metadata.seal_key(common.seal_key.as_deref())?;
    made.seal(&secrets, seal.as_ref())
        .map_err(|why| usage(format!("channel {name}: {why}")))?;
    let done = admin.act(Action::ChannelAdd, name, |meta| admin::add_channel(meta, &made));
    done.described()?;
    print(common.json, &facts(&made, None), || {
        format!(
            "Channel {name}: alerts of {} and worse are told to {}. `amita notify test {name}` tries it.\n",
            made.least,
            made.kind.target()
        )
    })
}

fn webhook(arguments: &WebhookArguments, from: &Endpoints) -> Result<(ChannelKind, Secrets)> {
    let url = match (&arguments.url, &arguments.url_file) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => secret(path, from)?,
        (None, None) => return Err(usage("where is the webhook? Pass --url or --url-file")),
    };
    let (origin, path) = channel::split_url(&url).map_err(usage)?;
    let mut secrets = Secrets::default();
    secrets.path = Some(path);
    let key = arguments.secret_file.as_deref().map(|path| secret(path, from));
    secrets.key = key.transpose()?;
    Ok((ChannelKind::Webhook { origin }, secrets))
}

fn mail(arguments: &MailArguments, from: &Endpoints) -> Result<(ChannelKind, Secrets)> {
    let (server, port) = match channel::place(&arguments.server) {
        Some((server, port)) => (server, port),
        None => (arguments.server.clone(), arguments.protection.usual_port()),
    };
    let kind = ChannelKind::Mail {
        server,
        port,
        protection: arguments.protection,
        user: arguments.user.clone(),
        from: arguments.from.clone(),
        to: arguments.to.clone(),
    };
    let mut secrets = Secrets::default();
    let key = arguments.password_file.as_deref().map(|path| secret(path, from));
    secrets.key = key.transpose()?;
    Ok((kind, secrets))
}

fn facts(channel: &Channel, delivery: Option<&Delivery>) -> Value {
    let none = Delivery::default();
    let delivery = delivery.unwrap_or(&none);
    json!({
        "name": channel.name,
        "kind": channel.kind.text(),
        "target": channel.kind.target(),
        "has_secret": channel.has_key,
        "allow_loopback": channel.allow_loopback,
        "least_severity": channel.least,
        "matches": { "codes": channel.matches.codes, "objects": channel.matches.objects, "labels": channel.matches.labels },
        "group_by": channel.group_by,
        "group_wait_s": channel.wait_s,
        "repeat_s": channel.repeat_s,
        "send_resolved": channel.resolved,
        "made_by": channel.made_by,
        "made_at": channel.made_at,
        "delivered": delivery.delivered,
        "delivered_at": delivery.delivered_at,
        "waiting": delivery.groups.values().filter(|group| group.outgoing.is_some()).count(),
        "failures": delivery.failures,
        "why": delivery.why,
        "failed_at": delivery.failed_at,
    })
}

fn list(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let channels = admin::channels(&admin.reader()).described()?;
    let deliveries = admin::deliveries(&admin.reader()).described()?;
    let leader = admin::leader(&admin.reader()).described()?;
    let shown: Vec<Value> = channels
        .iter()
        .map(|found| facts(found, deliveries.get(&found.name)))
        .collect();
    print(as_json, &shown, || {
        if channels.is_empty() {
            return "There are no channels: nobody is told of alerts. `amita notify add` makes one.\n".to_owned();
        }
        let mut table = Table::new(&["channel", "how", "where", "from", "which", "told", "state"]);
        for found in &channels {
            let delivery = deliveries.get(&found.name).cloned().unwrap_or_default();
            let state = match (&delivery.why, delivery.delivered_at) {
                (Some(why), _) => format!("fails ({} times): {why}", delivery.failures),
                (None, Some(at)) => format!("well, last at {}", timestamp(at, 0)),
                (None, None) => "nothing was told yet".to_owned(),
            };
            table.row([
                found.name.clone(),
                found.kind.text().to_owned(),
                found.kind.target(),
                found.least.to_string(),
                found.matches.text(),
                delivery.delivered.to_string(),
                state,
            ]);
        }
        let who = leader.map_or_else(
            || "No node tells at this moment.".to_owned(),
            |leader| format!("Node {} tells.", leader.node),
        );
        format!("{}{who}\n", table.text())
    })
}

fn test(name: &str, as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let by = admin.caller().who().name.clone();
    let answer = admin.act(Action::ChannelTest, name, |meta| admin::test_channel(meta, name, &by));
    let answer = answer.described()?;
    let answer = answer.ok_or_else(|| Failure::new(format!("channel {name}: {}", admin::NOT_TESTED)))?;
    if !answer.taken {
        let what = format!(
            "channel {name} does not work: node {} sent a test, and {}",
            answer.node, answer.said
        );
        return Err(Failure::new(what).advice("Mend the receiver, or remove the channel and make it anew."));
    }
    let told =
        json!({ "channel": name, "taken": true, "said": answer.said, "took_ms": answer.took_ms, "node": answer.node });
    print(as_json, &told, || {
        format!(
            "Channel {name} works: node {} sent a test, and the receiver answered {} within {} ms.\n",
            answer.node, answer.said, answer.took_ms
        )
    })
}
