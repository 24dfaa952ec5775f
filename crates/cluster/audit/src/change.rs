//! What a record of the metadata was before, and is after.

use crate::text::{cut, inert};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most changes of one record of the log; what is above is counted.
pub const MAX_CHANGES: usize = 16;
/// The most bytes of one value. Larger ones are told by their length.
const MAX_VALUE_BYTES: usize = 1024;
/// The most bytes of a key.
const MAX_KEY_BYTES: usize = 512;
/// The most bytes of all changes of one record as they stand there: with the rest of it, [`crate::MAX_BODY_BYTES`] are enough.
const MAX_ALL_BYTES: usize = 4 * 1024;
/// Fields whose texts are keys, sealed or not. That there is one is told, and whether it is another one, never what it is.
const SECRETS: [&str; 9] = [
    WRAPPED,
    PEER_TOKEN,
    "dhchap",
    "dhchap_controller",
    "tls",
    "secret",
    "webhook_path",
    "chap",
    "chap_target",
];

/// A data key of a volume, wrapped, in what its record says of who has wrapped it: `{"by": {"sealed-file": {"wrapped": ...}}}`. A log that
/// outlives the volume, and is shipped, would keep what is erased with it.
const WRAPPED: &str = "wrapped";
/// The token for a mirror's other end, in what its record says of that: `{"peer": {"token": ...}}`.
const PEER_TOKEN: &str = "token";

/// One changed key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// What it was; none: it was not there, or was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it is; none: it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The answer to this change was lost: it was made or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps: bool,
}

impl Change {
    /// Bytes that it takes in a record.
    fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |json| inert(&json).len() + 1)
    }
}

/// What an action has changed so far.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    told: Vec<Change>,
    bytes: usize,
    more: usize,
}

impl Changes {
    /// A key has another value now; `perhaps`: or it has not.
    pub fn add(&mut self, key: &str, before: Option<&[u8]>, after: Option<&[u8]>, perhaps: bool) {
        if let Some(known) = self.told.iter_mut().find(|known| known.key == key) {
            // Changed twice: what it was first, and what it is last.
            let others = self.bytes - known.bytes();
            known.after = tell(None, after).1;
            known.perhaps = perhaps;
            if others + known.bytes() > MAX_ALL_BYTES {
                known.after = after.map(|after| json!({ "bytes": after.len() }));
            }
            self.bytes = others + known.bytes();
            return;
        }
        let (before, after) = tell(before, after);
        let key = cut(key, MAX_KEY_BYTES);
        let change = Change {
            key,
            before,
            after,
            perhaps,
        };
        let bytes = change.bytes();
        if self.told.len() == MAX_CHANGES || self.bytes + bytes > MAX_ALL_BYTES {
            self.more += 1;
            return;
        }
        self.bytes += bytes;
        self.told.push(change);
    }

    /// All of them, and how many are left out.
    #[must_use]
    pub fn finish(self) -> (Vec<Change>, usize) {
        (self.told, self.more)
    }
}

type Told = (Option<Value>, Option<Value>);

/// Both values as they may be told.
fn tell(before: Option<&[u8]>, after: Option<&[u8]>) -> Told {
    let read = |bytes: Option<&[u8]>| bytes.map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let (mut old, mut new) = (read(before), read(after));
    hide(
        old.as_mut().and_then(Option::as_mut),
        new.as_mut().and_then(Option::as_mut),
    );
    let small = |value: Option<Option<Value>>, bytes: Option<&[u8]>| {
        value.map(|value| {
            let length = bytes.map_or(0, <[u8]>::len);
            value
                .filter(|value| inert(&value.to_string()).len() <= MAX_VALUE_BYTES)
                .unwrap_or_else(|| json!({ "bytes": length }))
        })
    };
    (small(old, before), small(new, after))
}

/// Takes the texts of keys out of both values.
fn hide(mut old: Option<&mut Value>, mut new: Option<&mut Value>) {
    for field in SECRETS {
        let text = |value: &mut Option<&mut Value>| {
            let value = place(value.as_mut()?, field)?;
            value.as_str().map(str::to_owned)
        };
        let (was, is) = (text(&mut old), text(&mut new));
        let put = |value: &mut Option<&mut Value>, told: &str| {
            if let Some(place) = value.as_mut().and_then(|value| place(value, field)) {
                *place = Value::from(told);
            }
        };
        if was.is_some() {
            put(&mut old, "(a key)");
        }
        if is.is_some() {
            put(
                &mut new,
                if was.is_some() && was != is {
                    "(another key)"
                } else {
                    "(a key)"
                },
            );
        }
    }
}

/// Where the field stands.
fn place<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    match field {
        WRAPPED => {
            let by = value.get_mut("by")?.as_object_mut()?;
            by.values_mut().find_map(|said| said.get_mut(WRAPPED))
        }
        PEER_TOKEN => value.get_mut("peer")?.get_mut(PEER_TOKEN),
        _ => value.get_mut(field),
    }
}
