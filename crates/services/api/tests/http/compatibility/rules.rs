//! What breaks a client when it is changed: operations, parameters, bodies, answers, roles.

use super::schemas::{Schemas, Way};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A change that breaks somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// By which rule.
    pub rule: &'static str,
    /// Where: an operation, and what of it.
    pub place: String,
    /// What is another.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.place, self.what)
    }
}

/// Which roles may do an operation.
const ROLES: &str = "x-amita-roles";

/// What of the changes from `old` to `new` breaks a client that was written for `old`.
pub fn breaks(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    let (before, after) = (operations(old), operations(new));
    for (key, was) in &before {
        let place = format!("{} {}", key.1.to_uppercase(), key.0);
        let mut say = |rule, place: &str, what: String| {
            let place = place.to_owned();
            found.push(Change { rule, place, what });
        };
        let Some(is) = after.get(key) else {
            say("operation-removed", &place, "it is not there".to_owned());
            continue;
        };
        if was["operationId"] != is["operationId"] {
            let what = format!(
                "{} is {} now: generated clients call it so",
                was["operationId"], is["operationId"]
            );
            say("operation-renamed", &place, what);
        }
        for role in texts(&was[ROLES]).difference(&texts(&is[ROLES])) {
            say("role-raised", &place, format!("{role} may no more"));
        }
        let mut schemas = Schemas::new(old, new);
        parameters(&mut schemas, &place, was, is);
        body(&mut schemas, &place, was, is);
        answers(&mut schemas, &place, was, is);
        found.extend(schemas.found);
    }
    found
}

/// By path and method. What a part of a path is called matters to nobody who asks.
fn operations(all: &Value) -> BTreeMap<(String, String), &Value> {
    let mut found = BTreeMap::new();
    for (path, methods) in fields(&all["paths"]) {
        let parts = path
            .split('/')
            .map(|part| if part.starts_with('{') { "{}" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for (method, operation) in fields(methods).filter(|(_, operation)| operation.is_object()) {
            found.insert((path.clone(), method.clone()), operation);
        }
    }
    found
}

/// The fields of an object; of anything else none.
pub fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The texts of a list.
pub fn texts(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn parameters(schemas: &mut Schemas<'_>, place: &str, was: &Value, is: &Value) {
    let of = |operation: &Value| -> BTreeMap<(String, String), Value> {
        let all = operation["parameters"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.filter(|parameter| parameter["in"] != "path")
            .map(|parameter| ((text(&parameter["in"]), text(&parameter["name"])), parameter.clone()))
            .collect()
    };
    let (before, after) = (of(was), of(is));
    for (key, was) in &before {
        let place = format!("{place}, {} {}", key.0, key.1);
        match after.get(key) {
            None => schemas.say("parameter-removed", &place, "it is not taken any more"),
            Some(is) => schemas.compare(Way::Asked, &place, &was["schema"], &is["schema"]),
        }
    }
    for (key, is) in &after {
        let was_required = before.get(key).is_some_and(|was| was["required"] == true);
        if is["required"] == true && !was_required {
            let place = format!("{place}, {} {}", key.0, key.1);
            schemas.say("parameter-required", &place, "it must be there");
        }
    }
}

fn body(schemas: &mut Schemas<'_>, place: &str, was: &Value, is: &Value) {
    let place = format!("{place}, body");
    let (was, is) = (&was["requestBody"], &is["requestBody"]);
    if is["required"] == true && was["required"] != true {
        schemas.say("body-required", &place, "it must be there");
    }
    for (kind, was) in fields(&was["content"]) {
        match is["content"].get(kind) {
            None => schemas.say("body-removed", &place, &format!("{kind} is not taken any more")),
            Some(is) => schemas.compare(Way::Asked, &place, &was["schema"], &is["schema"]),
        }
    }
}

fn answers(schemas: &mut Schemas<'_>, place: &str, was: &Value, is: &Value) {
    let (was, is) = (&was["responses"], &is["responses"]);
    for (status, was) in fields(was) {
        let place = format!("{place}, answer {status}");
        let Some(is) = is.get(status) else {
            schemas.say("answer-removed", &place, "it does not come any more");
            continue;
        };
        for (name, _) in fields(&was["headers"]).filter(|(name, _)| is["headers"].get(*name).is_none()) {
            schemas.say("header-removed", &place, &format!("{name} does not come any more"));
        }
        for (kind, was) in fields(&was["content"]) {
            match is["content"].get(kind) {
                None => schemas.say("answer-retyped", &place, &format!("it is not {kind} any more")),
                Some(is) => schemas.compare(Way::Told, &place, &was["schema"], &is["schema"]),
            }
        }
    }
    // Whoever knows one way in which it goes well does not know another.
    let is_new = |status: &&String| status.starts_with('2') && was.get(*status).is_none();
    for status in fields(is).map(|(status, _)| status).filter(is_new) {
        schemas.say(
            "answer-added",
            &format!("{place}, answer {status}"),
            "it is another that says that it went well",
        );
    }
}
