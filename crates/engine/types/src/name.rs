//! What a name may be: of a node, a pool, a volume, an identity.

/// The longest name: what every protocol's export name and every file name can hold.
pub const MAX_NAME_BYTES: usize = 200;

/// What is wrong with a name, if anything is: letters, digits, `.`, `_` and `-` are allowed, `.` and `-` not at its start.
#[must_use]
pub fn fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("it has {} bytes, more than {MAX_NAME_BYTES}", name.len()));
    }
    if name.starts_with(['-', '.']) {
        return Some("it starts with '-' or '.'".to_owned());
    }
    let strange = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let found = name.chars().find(strange)?;
    Some(format!(
        "it contains {found:?}; letters, digits, '.', '_' and '-' are allowed"
    ))
}
