//! What a policy's snapshots are called.

use amita_types::map::{MAX_SNAPSHOT_NAME, Policy, SnapshotWish};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The name of the snapshot of a policy that is due at a time, in seconds since 1970.
///
/// The time is UTC, whatever the policy's zone is: an hour that comes twice has two names.
#[must_use]
pub fn name(policy: &str, template: &str, due: u64) -> String {
    let at = i64::try_from(due).ok().and_then(|due| Timestamp::from_second(due).ok());
    let time = at.map_or_else(|| due.to_string(), |at| at.strftime("%Y%m%dT%H%M%SZ").to_string());
    template.replace("{policy}", policy).replace("{time}", &time)
}

/// May a policy call its snapshots so?
///
/// # Errors
/// What is wrong with the template, and what would be right.
pub fn check(policy: &Policy) -> Result<(), String> {
    let template = &policy.template;
    if !template.contains("{time}") {
        return Err(format!(
            "the names {template:?} would all be the same: {{time}} must stand in them, as in \"{{policy}}-{{time}}\""
        ));
    }
    let wish = SnapshotWish {
        volume: String::new(),
        name: name(&policy.name, template, 0),
        asked_at: 0,
        labels: BTreeMap::new(),
        refused: None,
        hold_ms: None,
    };
    let why = |why| format!("the names {template:?} cannot be: {why}");
    wish.check().map_err(why)?;
    debug_assert!(wish.name.len() <= MAX_SNAPSHOT_NAME);
    Ok(())
}

#[cfg(test)]
mod tests;
