//! `amita alert`: what is wrong and told to people, who looks after it, and what is not told for a time.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::events::parse_age;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_notify::admin::{self, NewSilence, Seen};
use amita_notify::{Match, Severity, Silence, State, condition};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use serde_json::{Value, json};
use std::time::Duration;

/// What to do with alerts.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the alerts: those that are there, and with --all those that were over within the last day
    ///
    /// Alerts are what `amita status` finds, and of the log of events what it does not tell. One that is there for a moment only is
    /// pending, and not told; one that fires is told by the channels (`amita notify`).
    List {
        /// Those that are over as well
        #[arg(long)]
        all: bool,
        /// Only what matters so much, or more: info, warning or critical
        #[arg(long, value_name = "SEVERITY")]
        severity: Option<Severity>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an alert: what it is, what follows from it, what to do, and who looks after it
    Show {
        /// Its id, or the beginning of it: at least 4 digits, and as many as no other one has
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say that you look after an alert: it is not told again until it gets worse, or is over and comes back
    Ack {
        /// Its id, or the beginning of it: at least 4 digits, and as many as no other one has
        id: String,
        /// What others should know of it, in one line
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Silences: alerts that are not told for a time
    #[command(subcommand)]
    Silence(SilenceCommand),
}

/// What to do with silences.
#[derive(Debug, clap::Subcommand)]
pub enum SilenceCommand {
    /// Have alerts not be told for a time; it ends by itself
    ///
    /// All that is given has to be so of an alert. In patterns `*` stands for any text, as in `--code 'copies-*'`; `--code '*'` is all.
    Add(AddArguments),
    /// List the silences: those that hold or are to come, and those that ended within the last week
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// End a silence: what still fires is told
    Remove {
        /// Its id, or the beginning of it: at least 4 digits, and as many as no other one has
        id: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which alerts, for how long, and why.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    #[command(flatten)]
    pub matches: MatchArguments,
    /// For how long from now or from --in on: a number with s, m, h or d; at most 90d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_age)]
    pub length: Duration,
    /// It begins so much later: a number with s, m, h or d
    #[arg(long = "in", value_name = "TIME", value_parser = parse_age, default_value = "0s")]
    pub later: Duration,
    /// Why, in one line
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which alerts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MatchArguments {
    /// Those with a code like this (node-down, 'pool-*'); may be given more than once
    #[arg(long = "code", value_name = "PATTERN")]
    pub codes: Vec<String>,
    /// Those about something with a name like this; may be given more than once
    #[arg(long = "object", value_name = "PATTERN")]
    pub objects: Vec<String>,
    /// Those with a label like this: node, pool, store, volume, policy, subsystem or channel; may be given more than once
    #[arg(long = "label", value_name = "LABEL=PATTERN", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
}

fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    let (label, pattern) = text.split_once('=').ok_or("give LABEL=PATTERN, as in node=n1")?;
    Ok((label.to_owned(), pattern.to_owned()))
}

impl MatchArguments {
    /// As a record has it.
    pub(crate) fn of(&self) -> Match {
        Match {
            codes: self.codes.clone(),
            objects: self.objects.clone(),
            labels: self.labels.iter().cloned().collect(),
        }
    }
}

/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    match command {
        Command::List { all, severity, json } => list(&admin, *all, *severity, *json),
        Command::Show { id, json } => {
            let seen = admin::alert(&admin.reader(), id, amita_notify::now()).described()?;
            print(*json, &facts(&seen), || text(&seen))
        }
        Command::Ack { id, note, json } => {
            let by = admin.caller().who().name.clone();
            let seen = admin.act(Action::AlertAck, id, |meta| {
                admin::acknowledge(meta, id, &by, note, amita_notify::now())
            });
            let seen = seen.described()?;
            print(*json, &facts(&seen), || {
                let condition = &seen.alert.condition;
                format!(
                    "You look after {} ({}): it is told again only when it gets worse.\n",
                    condition.code, condition.object
                )
            })
        }
        Command::Silence(SilenceCommand::Add(arguments)) => silence(&admin, arguments),
        Command::Silence(SilenceCommand::List { json }) => silences(&admin, *json),
        Command::Silence(SilenceCommand::Remove { id, json }) => {
            let gone = admin.act(Action::SilenceRemove, id, |meta| admin::remove_silence(meta, id));
            let gone = gone.described()?;
            print(*json, &silence_facts(&gone), || {
                format!(
                    "The silence of {} ({}) has ended: what fires is told.\n",
                    gone.matches.text(),
                    gone.id
                )
            })
        }
    }
}

fn facts(seen: &Seen) -> Value {
    let alert = &seen.alert;
    let condition = &alert.condition;
    json!({
        "id": alert.id,
        "code": condition.code,
        "severity": condition.severity,
        "object": condition.object,
        "labels": condition.labels,
        "state": alert.state,
        "since": alert.since,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "came_back": alert.came_back,
        "what": condition.what,
        "impact": condition.severity.impact(),
        "advice": condition.advice,
        "runbook": condition::runbook(&condition.code),
        "acknowledged": alert.acknowledged.as_ref().map(|known| json!({ "by": known.by, "at": known.at, "note": known.note })),
        "silenced_by": seen.silenced_by,
    })
}

fn list(admin: &Admin, all: bool, severity: Option<Severity>, as_json: bool) -> Result<()> {
    let (mut found, left_out) = admin::alerts(&admin.reader(), amita_notify::now()).described()?;
    found.retain(|seen| {
        let alert = &seen.alert;
        (all || alert.state != State::Resolved) && severity.is_none_or(|least| alert.condition.severity >= least)
    });
    let shown: Vec<Value> = found.iter().map(facts).collect();
    print(as_json, &shown, || {
        if found.is_empty() {
            return "There are no alerts.\n".to_owned();
        }
        let mut table = Table::new(&["id", "state", "severity", "code", "about", "since", "who"]);
        for seen in &found {
            let (alert, condition) = (&seen.alert, &seen.alert.condition);
            let who = match (&seen.silenced_by, &alert.acknowledged) {
                (Some(id), _) => format!("silenced ({id})"),
                (None, Some(known)) => known.by.clone(),
                (None, None) => String::new(),
            };
            table.row([
                alert.id.clone(),
                alert.state.text().to_owned(),
                condition.severity.to_string(),
                condition.code.clone(),
                condition.object.clone(),
                timestamp(alert.since, 0),
                who,
            ]);
        }
        let mut text = table.text();
        if left_out > 0 {
            text += &format!("And {left_out} more, for which there is no room: `amita status` has all.\n");
        }
        text
    })
}

fn text(seen: &Seen) -> String {
    let (alert, condition) = (&seen.alert, &seen.alert.condition);
    let labels: Vec<String> = condition
        .labels
        .iter()
        .map(|(label, value)| format!("{label}={value}"))
        .collect();
    let mut lines = vec![
        format!(
            "{}  {} {}, {}",
            alert.id,
            condition.severity,
            condition.code,
            alert.state.text()
        ),
        format!("  about       {}  {}", condition.object, labels.join(" ")),
        format!("  since       {}", timestamp(alert.since, 0)),
        format!("  what        {}", condition.what),
        format!("  impact      {}", condition.severity.impact()),
        format!("  what to do  {}", condition.advice),
    ];
    if let Some(page) = condition::runbook(&condition.code) {
        lines.push(format!("  runbook     docs/operating/runbooks/{page}.md"));
    }
    if alert.came_back > 0 {
        lines.push(format!("  came back   {} times", alert.came_back));
    }
    if let Some(at) = alert.resolved_at {
        lines.push(format!("  over since  {}", timestamp(at, 0)));
    }
    if let Some(known) = &alert.acknowledged {
        lines.push(format!(
            "  looked after by {} since {}  {}",
            known.by,
            timestamp(known.at, 0),
            known.note
        ));
    }
    if let Some(id) = &seen.silenced_by {
        lines.push(format!("  silenced by {id} (`amita alert silence list`)"));
    }
    lines.join("\n") + "\n"
}

fn silence(admin: &Admin, arguments: &AddArguments) -> Result<()> {
    let now = amita_notify::now();
    let from = now.saturating_add(arguments.later.as_secs());
    let wanted = NewSilence {
        matches: arguments.matches.of(),
        from,
        until: from.saturating_add(arguments.length.as_secs()),
        by: admin.caller().who().name.clone(),
        why: arguments.why.clone(),
    };
    if wanted.matches.is_empty() {
        return Err(
            Failure::new("which alerts? Nothing was given that they have to be like")
                .kind(Kind::Usage)
                .advice("Pass --code, --object or --label; --code '*' is all of them."),
        );
    }
    let object = wanted.matches.text();
    let made = admin.act(Action::SilenceAdd, &object, |meta| {
        admin::add_silence(meta, wanted, now)
    });
    let made = made.described()?;
    print(arguments.json, &silence_facts(&made), || {
        format!(
            "Silence {}: {} is not told until {}. `amita alert silence remove {}` ends it before.\n",
            made.id,
            made.matches.text(),
            timestamp(made.until, 0),
            made.id
        )
    })
}

fn silence_facts(silence: &Silence) -> Value {
    json!({
        "id": silence.id,
        "matches": { "codes": silence.matches.codes, "objects": silence.matches.objects, "labels": silence.matches.labels },
        "from": silence.from,
        "until": silence.until,
        "holds": silence.holds(amita_notify::now()),
        "by": silence.by,
        "why": silence.why,
        "made_at": silence.made_at,
    })
}

fn silences(admin: &Admin, as_json: bool) -> Result<()> {
    let all = admin::silences(&admin.reader()).described()?;
    let shown: Vec<Value> = all.iter().map(silence_facts).collect();
    print(as_json, &shown, || {
        if all.is_empty() {
            return "There are no silences.\n".to_owned();
        }
        let now = amita_notify::now();
        let mut table = Table::new(&["id", "which", "from", "until", "by", "why"]);
        for silence in &all {
            let ended = if silence.until <= now { " (ended)" } else { "" };
            table.row([
                silence.id.clone(),
                silence.matches.text(),
                timestamp(silence.from, 0),
                format!("{}{ended}", timestamp(silence.until, 0)),
                silence.by.clone(),
                silence.why.clone(),
            ]);
        }
        table.text()
    })
}
