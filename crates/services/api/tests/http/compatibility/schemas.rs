//! What breaks a client when the form of what it sends, or of what it is told, is changed. What it sends may be taken in more ways than
//! before, and what it is told may be less varied.

use super::rules::{Change, fields, texts};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the client.
    Asked,
    /// To the client.
    Told,
}

/// An enumeration that says this may gain values: whoever reads it was told so.
const OPEN: &str = "x-amita-open";

/// Two specifications, and what was found in them.
pub struct Schemas<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs that are being compared, or were: a schema may be part of itself.
    seen: BTreeSet<(Way, String, String)>,
    pub found: Vec<Change>,
}

impl<'a> Schemas<'a> {
    pub fn new(old: &'a Value, new: &'a Value) -> Schemas<'a> {
        Schemas {
            old,
            new,
            seen: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    pub fn say(&mut self, rule: &'static str, place: &str, what: &str) {
        self.found.push(Change {
            rule,
            place: place.to_owned(),
            what: what.to_owned(),
        });
    }

    /// Compares two schemas.
    pub fn compare(&mut self, way: Way, place: &str, was: &Value, is: &Value) {
        let (was, is) = (Shape::of(self.old, was), Shape::of(self.new, is));
        if way == Way::Asked && was.null && !is.null {
            self.say("null-refused", place, "null is not taken any more");
        }
        if way == Way::Told && is.null && !was.null {
            self.say("null-told", place, "it may be null");
        }
        match (&was.variants[..], &is.variants[..]) {
            ([was], [is]) => self.pair(way, place, was, is),
            (before, after) => self.many(way, place, before, after),
        }
    }

    fn pair(&mut self, way: Way, place: &str, was: &Variant<'_>, is: &Variant<'_>) {
        if let (Some(was), Some(is)) = (&was.name, &is.name)
            && !self.seen.insert((way, was.clone(), is.clone()))
        {
            return;
        }
        self.one(way, place, &was.schema, &is.schema);
    }

    /// Each way to send it is still taken; each way in which it is told was known.
    fn many(&mut self, way: Way, place: &str, before: &[Variant<'_>], after: &[Variant<'_>]) {
        let (each, known) = match way {
            Way::Asked => (before, after),
            Way::Told => (after, before),
        };
        for (number, one) in each.iter().enumerate() {
            let fits = known.iter().any(|other| {
                let (was, is) = match way {
                    Way::Asked => (one, other),
                    Way::Told => (other, one),
                };
                let mut alone = Schemas::new(self.old, self.new);
                alone.seen = self.seen.clone();
                alone.pair(way, place, was, is);
                alone.found.is_empty()
            });
            if !fits {
                let (rule, what) = match way {
                    Way::Asked => ("form-refused", "is not taken any more"),
                    Way::Told => ("form-told", "was not there before"),
                };
                self.say(rule, place, &format!("form {} of it {what}", number + 1));
            }
        }
    }

    fn one(&mut self, way: Way, place: &str, was: &Value, is: &Value) {
        self.types(way, place, was, is);
        self.values(way, place, was, is);
        if way == Way::Asked {
            self.bounds(place, was, is);
        }
        self.fields_of(way, place, was, is);
        if was.get("items").is_some() && is.get("items").is_some() {
            self.compare(way, &format!("{place}[]"), &was["items"], &is["items"]);
        }
        let (more_before, more_after) = (&was["additionalProperties"], &is["additionalProperties"]);
        if more_before.is_object() && more_after.is_object() {
            self.compare(way, &format!("{place}.*"), more_before, more_after);
        } else if way == Way::Asked && *more_after == false && *more_before != false && was["type"] == "object" {
            self.say("form-closed", place, "fields that it does not know are refused");
        }
    }

    fn types(&mut self, way: Way, place: &str, was: &Value, is: &Value) {
        let (before, after) = (types(was), types(is));
        // Without one anything goes.
        let is_within = |some: &BTreeSet<String>, others: &BTreeSet<String>| {
            others.is_empty() || !some.is_empty() && some.is_subset(others)
        };
        let fits = match way {
            Way::Asked => is_within(&before, &after),
            Way::Told => is_within(&after, &before),
        };
        if !fits {
            self.say("type-changed", place, &format!("it was {before:?}, and is {after:?}"));
        }
        let (before, after) = (&was["format"], &is["format"]);
        if was["type"] == "string" && before != after && !(way == Way::Asked && after.is_null()) {
            self.say("format-changed", place, &format!("it was {before}, and is {after}"));
        }
    }

    fn values(&mut self, way: Way, place: &str, was: &Value, is: &Value) {
        let (before, after) = (texts(&was["enum"]), texts(&is["enum"]));
        match (way, was.get("enum"), is.get("enum")) {
            (Way::Asked, None, Some(_)) => self.say("values-narrowed", place, "only some values are taken"),
            (Way::Told, Some(_), None) => self.say("values-widened", place, "it may be any value"),
            (Way::Asked, Some(_), Some(_)) => {
                for gone in before.difference(&after) {
                    self.say("values-narrowed", place, &format!("{gone} is not taken any more"));
                }
            }
            (Way::Told, Some(_), Some(_)) if was[OPEN] != true => {
                for more in after.difference(&before) {
                    self.say("values-widened", place, &format!("it may be {more}"));
                }
            }
            _ => {}
        }
    }

    fn bounds(&mut self, place: &str, was: &Value, is: &Value) {
        let at_most = ["maximum", "maxLength", "maxItems", "maxProperties"];
        let at_least = ["minimum", "minLength", "minItems", "minProperties"];
        for (names, sign) in [(at_most, 1.0), (at_least, -1.0)] {
            for name in names {
                let Some(after) = is[name].as_f64() else { continue };
                if was[name].as_f64().is_none_or(|before| after * sign < before * sign) {
                    let what = format!("{name} was {}, and is {}", was[name], is[name]);
                    self.say("bound-narrowed", place, &what);
                }
            }
        }
        if !is["pattern"].is_null() && was["pattern"] != is["pattern"] {
            self.say("bound-narrowed", place, &format!("it must match {}", is["pattern"]));
        }
        if was["default"] != is["default"] && !was["default"].is_null() {
            let what = format!(
                "where it is not said it was {}, and is {}",
                was["default"], is["default"]
            );
            self.say("default-changed", place, &what);
        }
    }

    fn fields_of(&mut self, way: Way, place: &str, was: &Value, is: &Value) {
        let (needed_before, needed_after) = (texts(&was["required"]), texts(&is["required"]));
        for (name, was) in fields(&was["properties"]) {
            let inner = format!("{place}.{name}");
            let Some(is) = is["properties"].get(name) else {
                self.say("field-removed", &inner, "it is not there any more");
                continue;
            };
            if way == Way::Told && needed_before.contains(name.as_str()) && !needed_after.contains(name.as_str()) {
                self.say("field-optional", &inner, "it may be missing");
            }
            self.compare(way, &inner, was, is);
        }
        if way == Way::Asked {
            for name in needed_after.difference(&needed_before) {
                self.say("field-required", &format!("{place}.{name}"), "it must be there");
            }
        }
    }
}

fn types(schema: &Value) -> BTreeSet<String> {
    let one = schema["type"].as_str().into_iter();
    let mut all: BTreeSet<String> = one.chain(texts(&schema["type"])).map(str::to_owned).collect();
    all.remove("null");
    if all.contains("number") {
        all.insert("integer".to_owned());
    }
    all
}

/// A schema without references: may it be null, and what else may it be?
struct Shape<'a> {
    null: bool,
    variants: Vec<Variant<'a>>,
}

/// One of what it may be.
struct Variant<'a> {
    /// Where it stands, if it has a name.
    name: Option<String>,
    schema: Cow<'a, Value>,
}

impl<'a> Shape<'a> {
    fn of(root: &'a Value, schema: &'a Value) -> Shape<'a> {
        let (mut name, mut schema) = (None, schema);
        while let Some(place) = schema["$ref"].as_str() {
            name = Some(place.to_owned());
            schema = root.pointer(place.trim_start_matches('#')).unwrap_or(&Value::Null);
        }
        let parts = ["oneOf", "anyOf"].iter().find_map(|name| schema[*name].as_array());
        if let Some(parts) = parts {
            let parts: Vec<Shape<'a>> = parts.iter().map(|part| Shape::of(root, part)).collect();
            return Shape {
                null: parts.iter().any(|part| part.null),
                variants: parts.into_iter().flat_map(|part| part.variants).collect(),
            };
        }
        let null = schema["type"] == "null" || texts(&schema["type"]).contains("null");
        let schema = match schema["allOf"].as_array() {
            Some(parts) => Cow::Owned(joined(root, parts)),
            None => Cow::Borrowed(schema),
        };
        let is_more = schema["type"] != "null";
        Shape {
            null,
            variants: is_more.then_some(Variant { name, schema }).into_iter().collect(),
        }
    }
}

/// An object that is several at once.
fn joined(root: &Value, parts: &[Value]) -> Value {
    let mut whole = json!({ "type": "object", "properties": {}, "required": [] });
    for part in parts {
        for Variant { schema: part, .. } in Shape::of(root, part).variants {
            for (name, field) in fields(&part["properties"]) {
                whole["properties"][name] = field.clone();
            }
            let needed = part["required"].as_array().cloned().unwrap_or_default();
            if let Some(all) = whole["required"].as_array_mut() {
                all.extend(needed);
            }
        }
    }
    whole
}
