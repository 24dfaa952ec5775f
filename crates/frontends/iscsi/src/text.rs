//! Text: key=value pairs, and the forms that values have (RFC 7143, 6.1).

#[cfg(test)]
mod tests;
mod value;

pub use value::{choose, decode_binary, encode_hex, parse_boolean, parse_number};

/// What is understood, but not acceptable (6.2).
pub const REJECT: &str = "Reject";
/// What does not matter, by what else was agreed (6.2).
pub const IRRELEVANT: &str = "Irrelevant";
/// A key that is not known (6.2).
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Of a list, that none of it is chosen.
pub const NONE: &str = "None";

/// The longest name of a key, in bytes (6.1: standard-label).
const MAX_KEY_BYTES: usize = 63;
/// The pairs of one text that are looked at: many times what initiators send, and so few that each of them may be compared with all.
const MAX_PAIRS: usize = 128;

/// A key and its value.
pub type Pair<'a> = (&'a str, &'a str);

/// Takes a text apart. Each pair ends with a null byte; more of them are of no harm.
///
/// # Errors
/// What is wrong, for the log.
pub fn parse(text: &[u8]) -> Result<Vec<Pair<'_>>, &'static str> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for bytes in text.split(|byte| *byte == 0).filter(|bytes| !bytes.is_empty()) {
        let pair = std::str::from_utf8(bytes).map_err(|_| "text that is not UTF-8")?;
        let (key, value) = pair.split_once('=').ok_or("text without an equal sign")?;
        if !is_key(key) {
            return Err("text with a key that is none");
        }
        if pairs.len() == MAX_PAIRS {
            return Err("more keys than anybody needs");
        }
        // A key is negotiated once (6.2).
        if pairs.iter().any(|(known, _)| *known == key) {
            return Err("a key that comes twice");
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Is it a standard-label (6.1)? X- and X# keys are (13.22): with the sharp beside what labels have.
fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    let has_head = bytes.next().is_some_and(|first| first.is_ascii_alphabetic());
    let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte);
    has_head && key.len() <= MAX_KEY_BYTES && bytes.all(is_of_label)
}

/// The value of a key.
#[must_use]
pub fn find<'a>(pairs: &[Pair<'a>], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
}

/// A text that is put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<u8>);

impl Text {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Text {
        Text::default()
    }

    /// Adds a pair.
    pub fn push(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The parts of a text that comes in several PDUs, put together (the C bit, 6.2): at most so much.
#[derive(Debug, Default)]
pub struct Gathered {
    bytes: Vec<u8>,
}

/// The longest text that is put together: what one PDU of a login holds twice over, and more than all keys there are.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

impl Gathered {
    /// Adds a part.
    ///
    /// # Errors
    /// When it becomes too long.
    pub fn add(&mut self, part: &[u8]) -> Result<(), &'static str> {
        if self.bytes.len() + part.len() > MAX_TEXT_BYTES {
            self.bytes = Vec::new();
            return Err("a text longer than 16 KiB");
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Is there a part?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All of it; nothing is left.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
