//! The forms of values (6.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Yes or No.
#[must_use]
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A numerical-value: decimal, or hexadecimal behind 0x. (Base64 is for numbers of more than 64 bits.)
#[must_use]
pub fn parse_number(value: &str) -> Option<u64> {
    let (digits, radix) = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // The library takes signs, too.
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digits.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

/// A binary-value: hexadecimal behind 0x, base64 behind 0b; at most so many bytes.
#[must_use]
pub fn decode_binary(value: &str, max_bytes: usize) -> Option<Vec<u8>> {
    let (prefix, rest) = value.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" => {
            if rest.len() > 2 * max_bytes || !rest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            // An odd first digit stands for a byte by itself.
            let (first, rest) = rest.split_at(rest.len() % 2);
            let pairs = (0..rest.len()).step_by(2).map(|at| &rest[at..at + 2]);
            let first = Some(first).filter(|first| !first.is_empty());
            let bytes = first
                .into_iter()
                .chain(pairs)
                .map(|digits| u8::from_str_radix(digits, 16));
            bytes.collect::<Result<Vec<u8>, _>>().ok()?
        }
        "0b" | "0B" => {
            if rest.len() > max_bytes.div_ceil(3) * 4 {
                return None;
            }
            STANDARD.decode(rest).ok()?
        }
        _ => return None,
    };
    (!bytes.is_empty() && bytes.len() <= max_bytes).then_some(bytes)
}

/// Hexadecimal, as every initiator reads it.
#[must_use]
pub fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    text.extend(digits.map(char::from));
    text
}

/// The first value of a list that is meant.
#[must_use]
pub fn choose(list: &str, is_meant: impl Fn(&str) -> bool) -> Option<&str> {
    list.split(',').find(|one| is_meant(one))
}
