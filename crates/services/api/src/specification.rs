//! What the specification says beside what stands at each route: who may, what the tags are, the bounds of numbers, and a sentence for each
//! answer.
//!
//! It is made when somebody asks for it: what answers does not need it.

use amita_control::access::{Action, Role};
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// What each tag is about, in the order in which they are shown.
const TAGS: &[(&str, &str)] = &[
    (
        "cluster",
        "The cluster as a whole: its health, its versions, and what changes.",
    ),
    ("nodes", "Machines that serve stores, or volumes to hosts."),
    ("stores", "Disks."),
    ("pools", "How many copies there are, and where they lie."),
    ("tenants", "Whose volumes are, and how much all of one may do."),
    ("volumes", "What hosts use as disks."),
    ("snapshots", "Volumes as they were, and what is cloned from them."),
    ("deleted volumes", "What was deleted, and can be had back for a time."),
    (
        "snapshot policies",
        "Snapshots that are taken and deleted by themselves.",
    ),
    (
        "backups",
        "Volumes that are backed up, by themselves or once: into which repositories, when, and what is kept; and restored.",
    ),
    (
        "mirrors",
        "Volumes that are mirrored to another cluster, and what its end asks of this one.",
    ),
    ("jobs", "What takes long: how far it is, and how it is taken back."),
    ("nbd", "Volumes that are served by NBD."),
    (
        "nvme",
        "Volumes that are served by NVMe over TCP: subsystems, namespaces and hosts.",
    ),
    (
        "iscsi",
        "Volumes that are served by iSCSI: targets, LUNs and initiators.",
    ),
    ("settings", "Settings of the whole cluster."),
    (
        "alerts",
        "What is wrong, who was told of it, and what is not to be told.",
    ),
    ("events", "What happened, and why."),
    (
        "history",
        "Figures of the last 30 days, and single I/Os: where their time went.",
    ),
    ("audit", "Who did what."),
    ("tokens", "Who may use the API without a certificate."),
    ("commands", "The command line, carried out by a node."),
];

/// Operations that ask for more, or for less, than others of their method do.
const RIGHTS: &[(&str, Action)] = &[
    ("listAudit", Action::AuditRead),
    ("createToken", Action::TokenCreate),
    ("revokeToken", Action::TokenRevoke),
    // Each command has its own right.
    ("runCommand", Action::View),
    ("finalizeCluster", Action::ClusterFinalize),
    ("adoptStore", Action::DiskAdopt),
    ("addChannel", Action::ChannelAdd),
    ("removeChannel", Action::ChannelRemove),
    ("testChannel", Action::ChannelTest),
    ("exportVolumeData", Action::VolumeExportData),
    ("createMirror", Action::MirrorAdd),
    ("createMirrorToken", Action::MirrorAdd),
    ("joinMirror", Action::MirrorAdd),
    ("removeMirror", Action::MirrorRemove),
    ("lookAtMirrorLink", Action::MirrorLook),
    ("tellMirrorPeer", Action::MirrorPeer),
    ("cutMirrorPoint", Action::MirrorCut),
    ("declineMirrorDemotion", Action::MirrorDecline),
    ("renewMirrorToken", Action::MirrorToken),
    ("readMirrorPoint", Action::MirrorRead),
    ("compareVolume", Action::VolumeExportData),
    ("addChannel", Action::ChannelAdd),
    ("removeChannel", Action::ChannelRemove),
    ("testChannel", Action::ChannelTest),
];

/// Enumerations of answers that will gain values.
const OPEN: &[&str] = &["BackupTaskState", "JobAction", "JobKind", "JobState", "JobUnit"];

/// An operation's roles, in the specification.
pub(crate) const ROLES: &str = "x-amita-roles";

/// The whole of it.
pub(crate) fn finish(raw: &OpenApi) -> OpenApi {
    let mut said = serde_json::to_value(raw).unwrap_or_default();
    let mut used = Vec::new();
    for_each_operation(&mut said, |method, operation| {
        describe(method, operation);
        used.extend(operation["tags"][0].as_str().map(str::to_owned));
    });
    said["tags"] = tags(&used);
    said["servers"] = json!([{ "url": "/", "description": "The node that is asked: every one answers the same." }]);
    for name in OPEN {
        said["components"]["schemas"][name]["x-amita-open"] = true.into();
    }
    bound(&mut said);
    // What utoipa has written it reads.
    serde_json::from_value(said).unwrap_or_else(|_| raw.clone())
}

fn for_each_operation(said: &mut Value, mut work: impl FnMut(&str, &mut Value)) {
    let paths = said["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for path in paths.filter_map(Value::as_object_mut) {
        for (method, operation) in path.iter_mut().filter(|(_, operation)| operation.is_object()) {
            work(method, operation);
        }
    }
}

fn describe(method: &str, operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let special = RIGHTS.iter().find(|(name, _)| *name == id).map(|(_, action)| *action);
    let usual = if method == "get" {
        Action::View
    } else {
        Action::VolumeCreate
    };
    let roles: Vec<&str> = special
        .unwrap_or(usual)
        .roles()
        .iter()
        .copied()
        .map(Role::text)
        .collect();
    operation[ROLES] = json!(roles);
    if let Some(summary) = operation["summary"].as_str() {
        operation["summary"] = summary.replace('\n', " ").into();
    }
    let Some(answers) = operation["responses"].as_object_mut() else {
        return;
    };
    for (status, answer) in answers {
        let text = answer["description"].as_str().unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            answer["description"] = usual_description(status).into();
        }
    }
}

fn usual_description(status: &str) -> &'static str {
    match status {
        "default" => "It was not done, and why: `code` is for programs, `detail` for people.",
        "201" => "It was made, and is so.",
        "202" => "It was begun, and goes on by itself.",
        "204" => "It was done; there is nothing to say.",
        _ => "It was done, or is so.",
    }
}

fn tags(used: &[String]) -> Value {
    let is_used = |name: &str| used.iter().any(|tag| tag == name);
    let known = TAGS.iter().filter(|(name, _)| is_used(name));
    known
        .map(|(name, text)| json!({ "name": name, "description": text }))
        .collect()
}

/// Makes each form as exact as the type behind it is, in words that others know.
fn bound(said: &mut Value) {
    match said {
        Value::Array(items) => items.iter_mut().for_each(bound),
        Value::Object(fields) => {
            fields.values_mut().for_each(bound);
            bound_number(fields);
            close_tuple(fields);
        }
        _ => {}
    }
}

/// What a field of a record holds, in the formats that OpenAPI itself has (3.1.0, 4.4): those of unsigned numbers are registered, and
/// OpenAPI Generator takes what it does not know for 32 bits, in which no size has room. So each has the smallest signed format that
/// holds all of it; and of 64 bits what is positive there, for a bound beyond it does not compile in Go and Java. No size, number,
/// count or time of a cluster comes near that.
fn bound_number(fields: &mut Map<String, Value>) {
    let (format, most) = match fields.get("format").and_then(Value::as_str) {
        Some("u-int8") => ("int32", u64::from(u8::MAX)),
        Some("u-int16") => ("int32", u64::from(u16::MAX)),
        Some("u-int32") => ("int64", u64::from(u32::MAX)),
        Some("u-int64") => ("int64", i64::MAX.unsigned_abs()),
        _ => return,
    };
    fields.insert("format".to_owned(), format.into());
    fields.entry("maximum").or_insert_with(|| most.into());
    fields.entry("minimum").or_insert_with(|| 0.into());
}

/// A pair has so many items, which says more to most programs than `items: false` behind them.
fn close_tuple(fields: &mut Map<String, Value>) {
    let Some(first) = fields.get("prefixItems").and_then(Value::as_array).cloned() else {
        return;
    };
    if let (Some(Value::Bool(false)), Some(item)) = (fields.get("items"), first.first()) {
        fields.insert("items".to_owned(), item.clone());
        fields.insert("maxItems".to_owned(), first.len().into());
        fields.insert("minItems".to_owned(), first.len().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Nothing is lost between the text and what utoipa makes of it.
    #[test]
    fn what_is_added_is_there_and_all_else_stays() {
        let raw = serde_json::to_value(crate::raw_specification()).unwrap();
        let whole = serde_json::to_value(crate::specification()).unwrap();
        let names = |said: &Value| -> BTreeSet<String> {
            let schemas = said["components"]["schemas"].as_object().unwrap();
            schemas.keys().cloned().collect()
        };
        assert_eq!(names(&raw), names(&whole));
        assert_eq!(raw["security"], whole["security"]);
        assert_eq!(
            raw["components"]["securitySchemes"],
            whole["components"]["securitySchemes"]
        );
        let volume = &whole["paths"]["/api/v1/volumes/{name}"]["delete"];
        assert_eq!(volume[ROLES], json!(["admin", "operator"]));
        assert!(whole["servers"][0]["url"] == "/", "{}", whole["servers"]);
        for name in OPEN {
            let schema = &whole["components"]["schemas"][name];
            assert!(
                schema["x-amita-open"] == true && schema["enum"].is_array(),
                "{name}: {schema}"
            );
        }
        let mut used = BTreeSet::new();
        for_each_operation(&mut whole.clone(), |_, operation| {
            used.insert(operation["tags"][0].as_str().unwrap().to_owned());
            for answer in operation["responses"].as_object().unwrap().values() {
                assert!(!answer["description"].as_str().unwrap().is_empty(), "{operation}");
            }
        });
        let told: BTreeSet<String> = whole["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(used, told, "each tag has its line in TAGS");
        assert_eq!(told.len(), whole["tags"].as_array().unwrap().len(), "and one only");
    }

    /// Every schema of an integer.
    fn integers(said: &Value, what: &mut dyn FnMut(&Value)) {
        match said {
            Value::Array(items) => items.iter().for_each(|item| integers(item, what)),
            Value::Object(fields) => {
                let of = said["type"].as_str().into_iter();
                let either = said["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
                if of.chain(either).any(|of| of == "integer") {
                    what(said);
                }
                fields.values().for_each(|field| integers(field, what));
            }
            _ => {}
        }
    }

    #[test]
    fn numbers_have_the_bounds_of_what_holds_them() {
        let mut said = json!({ "a": [{ "format": "u-int8" }], "b": { "format": "u-int32", "maximum": 7 } });
        bound(&mut said);
        assert_eq!(said["a"][0], json!({ "format": "int32", "minimum": 0, "maximum": 255 }));
        assert_eq!(said["b"]["maximum"], 7);
        let mut pair = json!({ "items": false, "prefixItems": [{ "type": "integer" }, { "type": "number" }] });
        bound(&mut pair);
        assert_eq!(
            (&pair["items"], &pair["minItems"], &pair["maxItems"]),
            (&json!({ "type": "integer" }), &json!(2), &json!(2))
        );
        // The real ones.
        let whole = serde_json::to_value(crate::specification()).unwrap();
        let text = whole.to_string();
        assert!(!text.contains("u-int") && !text.contains("\"items\":false"));
        let percent = &whole["components"]["schemas"]["Thresholds"]["properties"]["near_full_percent"];
        assert_eq!(
            (&percent["format"], &percent["maximum"]),
            (&json!("int32"), &json!(255)),
            "{percent}"
        );
        let size = &whole["components"]["schemas"]["Volume"]["properties"]["size_bytes"];
        assert_eq!(
            (&size["format"], &size["maximum"]),
            (&json!("int64"), &json!(i64::MAX)),
            "{size}"
        );
        let mut count = 0;
        integers(&whole, &mut |schema| {
            count += 1;
            let most = match schema["format"].as_str() {
                Some("int32") => i64::from(i32::MAX),
                Some("int64") | None => i64::MAX,
                other => panic!("generators do not know the format {other:?}: {schema}"),
            };
            for bound in ["minimum", "maximum"] {
                let told = &schema[bound];
                let fits = told
                    .as_i64()
                    .is_some_and(|told| told.unsigned_abs() <= most.unsigned_abs());
                assert!(told.is_null() || fits, "{bound} has no room in the format: {schema}");
            }
        });
        assert!(count > 100, "{count}");
    }
}
