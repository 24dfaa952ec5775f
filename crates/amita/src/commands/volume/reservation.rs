//! `amita volume reservation`.

use crate::admin::{Admin, Described};
use crate::error::Result;
use crate::table::print;
use amita_control::admin;
use serde_json::Value;

/// `amita volume reservation`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume's name
    pub name: String,
    /// Remove the reservation and all registrations: for hosts that are gone for good. Refused while a gateway has the
    /// volume open, which goes on by what it knows
    #[arg(long)]
    pub clear: bool,
    /// Also when a gateway has it open: it goes on by what it knows until it loses the volume
    #[arg(long, requires = "clear")]
    pub force: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows it, or removes it.
pub(super) fn run(arguments: &Arguments, metadata: &Admin) -> Result<()> {
    let (client, name) = (metadata.client(), &arguments.name);
    if arguments.clear {
        let was_there = admin::clear_reservation(client, name, arguments.force).described()?;
        return print(
            arguments.json,
            &serde_json::json!({ "volume": name, "cleared": was_there }),
            || {
                if was_there {
                    format!("Volume {name} is not reserved any more, and nobody is registered.\n")
                } else {
                    format!("Nobody had reserved volume {name}.\n")
                }
            },
        );
    }
    // Shown as the record has it: what a newer version of the program adds is shown as well.
    let found: Option<Value> = admin::reservation(client, name).described()?;
    print(arguments.json, &found, || text(name, found.as_ref()))
}

fn text(name: &str, found: Option<&Value>) -> String {
    let Some(Value::Object(fields)) = found else {
        return format!("Nobody has reserved volume {name} or is registered.\n");
    };
    let mut text = format!("volume  {name}\n");
    for (field, value) in fields {
        match value {
            Value::Array(items) => {
                text += &format!("{field}\n");
                for item in items {
                    text += &format!("  {}\n", line(item));
                }
            }
            value => text += &format!("{field}  {}\n", line(value)),
        }
    }
    text
}

/// A value on one line.
fn line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key} {}", line(value)))
                .collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}
