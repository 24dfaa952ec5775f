//! Each rule finds what it is for, and nothing harmless.

use super::rules::breaks;
use serde_json::{Value, json};

/// A small API.
fn base() -> Value {
    json!({
        "paths": { "/things/{name}": {
            "get": {
                "operationId": "showThing",
                "x-amita-roles": ["admin", "viewer"],
                "parameters": [
                    { "in": "path", "name": "name", "required": true, "schema": { "type": "string" } },
                    { "in": "query", "name": "all", "required": false, "schema": { "type": "boolean", "default": false } },
                ],
                "responses": {
                    "200": {
                        "headers": { "ETag": { "schema": { "type": "string" } } },
                        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } },
                    },
                    "default": { "content": { "application/problem+json": { "schema": { "type": "object" } } } },
                },
            },
            "patch": {
                "operationId": "changeThing",
                "x-amita-roles": ["admin"],
                "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Change" } } } },
                "responses": { "204": {} },
            },
        } },
        "components": { "schemas": {
            "Thing": {
                "type": "object",
                "required": ["name", "state", "size", "parts", "mood"],
                "properties": {
                    "name": { "type": "string" },
                    "state": { "type": "string", "enum": ["good", "bad"] },
                    "mood": { "type": "string", "enum": ["gay"], "x-amita-open": true },
                    "size": { "type": "integer" },
                    "note": { "type": ["string", "null"] },
                    "parent": { "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Thing" }] },
                    "parts": { "type": "array", "items": { "type": "string" } },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                },
            },
            "Change": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "minimum": 1, "maximum": 100 },
                    "state": { "type": "string", "enum": ["good", "bad"] },
                    "note": { "type": ["string", "null"] },
                    "where": { "oneOf": [
                        { "type": "object", "required": ["pool"], "properties": { "pool": { "type": "string" } } },
                        { "type": "object", "required": ["label"], "properties": { "label": { "type": "string" } } },
                    ] },
                },
            },
        } },
    })
}

const GET: &str = "/paths/~1things~1{name}/get";
const PATCH: &str = "/paths/~1things~1{name}/patch";
const THING: &str = "/components/schemas/Thing";
const CHANGE: &str = "/components/schemas/Change";

/// The same with another value at a place, which is made where it is not there.
fn with(place: &str, value: Value) -> Value {
    let mut spec = base();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap_or_else(|| panic!("{place}"));
    let name = name.replace("~1", "/");
    match parent {
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
        parent => parent[&name] = value,
    }
    spec
}

fn without(place: &str) -> Value {
    let mut spec = base();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap_or_else(|| panic!("{place}"));
    let name = name.replace("~1", "/");
    match parent {
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        parent => drop(parent.as_object_mut().unwrap().remove(&name).unwrap()),
    }
    spec
}

fn of(parent: &str, place: &str) -> String {
    format!("{parent}{place}")
}

#[test]
fn each_change_that_breaks_somebody_is_found_by_its_rule() {
    let needed = |name: &str| json!({ "in": "query", "name": name, "required": true, "schema": { "type": "boolean" } });
    let planted = [
        ("operation-removed", without(PATCH)),
        ("operation-renamed", with(&of(GET, "/operationId"), json!("getThing"))),
        ("role-raised", with(&of(GET, "/x-amita-roles"), json!(["admin"]))),
        ("parameter-removed", without(&of(GET, "/parameters/1"))),
        ("parameter-required", with(&of(GET, "/parameters/1"), needed("all"))),
        (
            "parameter-required",
            with(&of(PATCH, "/parameters"), json!([needed("new")])),
        ),
        (
            "default-changed",
            with(&of(GET, "/parameters/1/schema/default"), json!(true)),
        ),
        ("body-required", with(&of(PATCH, "/requestBody/required"), json!(true))),
        ("body-removed", without(&of(PATCH, "/requestBody"))),
        ("answer-removed", without(&of(PATCH, "/responses/204"))),
        ("answer-added", with(&of(PATCH, "/responses/202"), json!({}))),
        (
            "answer-retyped",
            without(&of(GET, "/responses/200/content/application~1json")),
        ),
        ("header-removed", without(&of(GET, "/responses/200/headers/ETag"))),
        ("field-removed", without(&of(THING, "/properties/note"))),
        ("field-removed", without(&of(CHANGE, "/properties/note"))),
        ("field-optional", without(&of(THING, "/required/2"))),
        (
            "field-required",
            with(&of(CHANGE, "/required"), json!(["size", "state"])),
        ),
        (
            "null-told",
            with(&of(THING, "/properties/size/type"), json!(["integer", "null"])),
        ),
        (
            "null-refused",
            with(&of(CHANGE, "/properties/note/type"), json!("string")),
        ),
        (
            "type-changed",
            with(&of(THING, "/properties/size/type"), json!("string")),
        ),
        (
            "type-changed",
            with(&of(THING, "/properties/size/type"), json!("number")),
        ),
        (
            "type-changed",
            with(&of(CHANGE, "/properties/size/type"), json!("string")),
        ),
        (
            "type-changed",
            with(&of(THING, "/properties/parts/items/type"), json!("object")),
        ),
        (
            "type-changed",
            with(
                &of(THING, "/properties/labels/additionalProperties/type"),
                json!("integer"),
            ),
        ),
        (
            "format-changed",
            with(&of(THING, "/properties/name/format"), json!("uuid")),
        ),
        (
            "values-narrowed",
            with(&of(CHANGE, "/properties/state/enum"), json!(["good"])),
        ),
        (
            "values-narrowed",
            with(&of(CHANGE, "/properties/note/enum"), json!(["a"])),
        ),
        (
            "values-widened",
            with(&of(THING, "/properties/state/enum"), json!(["good", "bad", "ugly"])),
        ),
        ("values-widened", without(&of(THING, "/properties/state/enum"))),
        (
            "bound-narrowed",
            with(&of(CHANGE, "/properties/size/maximum"), json!(99)),
        ),
        (
            "bound-narrowed",
            with(&of(CHANGE, "/properties/size/minimum"), json!(2)),
        ),
        (
            "bound-narrowed",
            with(&of(CHANGE, "/properties/note/maxLength"), json!(9)),
        ),
        (
            "bound-narrowed",
            with(&of(CHANGE, "/properties/note/pattern"), json!("^a")),
        ),
        ("form-closed", with(&of(CHANGE, "/additionalProperties"), json!(false))),
        ("form-refused", without(&of(CHANGE, "/properties/where/oneOf/1"))),
        (
            "form-told",
            with(
                &of(THING, "/properties/parent/oneOf"),
                json!([
                    { "$ref": "#/components/schemas/Thing" },
                    { "type": "integer" },
                ]),
            ),
        ),
    ];
    for (number, (rule, new)) in planted.iter().enumerate() {
        let found = breaks(&base(), new);
        assert!(
            found.iter().any(|found| found.rule == *rule),
            "{rule} (change {number}) is not found: {found:?}"
        );
    }
}

#[test]
fn what_harms_nobody_is_not_told() {
    let more = json!({ "in": "query", "name": "more", "required": false, "schema": { "type": "boolean" } });
    let renamed = base().to_string().replace("{name}", "{id}");
    let harmless = [
        base(),
        serde_json::from_str(&renamed).unwrap(),
        with("/paths/~1others", json!({ "get": { "operationId": "listOthers" } })),
        with(&of(GET, "/summary"), json!("Another sentence.")),
        with(&of(GET, "/x-amita-roles"), json!(["admin", "viewer", "auditor"])),
        with(&of(PATCH, "/parameters"), json!([more])),
        with(&of(GET, "/responses/404"), json!({})),
        with(&of(THING, "/properties/more"), json!({ "type": "string" })),
        with(
            &of(THING, "/required"),
            json!(["name", "state", "size", "parts", "mood", "note"]),
        ),
        with(&of(CHANGE, "/properties/more"), json!({ "type": "string" })),
        with(&of(CHANGE, "/required"), json!([])),
        with(&of(CHANGE, "/properties/size/type"), json!(["integer", "null"])),
        with(&of(CHANGE, "/properties/size/type"), json!("number")),
        with(&of(CHANGE, "/properties/size/maximum"), json!(1000)),
        with(&of(THING, "/properties/note/type"), json!("string")),
        with(&of(THING, "/properties/state/enum"), json!(["good"])),
        with(&of(THING, "/properties/mood/enum"), json!(["gay", "sad"])),
        with(&of(CHANGE, "/properties/state/enum"), json!(["good", "bad", "ugly"])),
        without(&of(CHANGE, "/properties/state/enum")),
    ];
    for (number, new) in harmless.iter().enumerate() {
        let found = breaks(&base(), new);
        assert!(found.is_empty(), "change {number}: {found:?}");
    }
}
