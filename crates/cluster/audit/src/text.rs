//! What texts of a record may be: nothing that a terminal, a viewer or a reader of lines would obey stands in them as it is, and
//! they are bounded as they are written, not as they are counted.

use std::fmt::Write;

/// Stands for what was cut off.
const MARK: char = '…';

/// Would a terminal or a viewer do something else with it than show it? Controls; what changes the direction of text, or has none
/// and no width, so that one name looks like another; what ends a line for some.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The same JSON, with all of that escaped. Controls below U+0020 stay: within strings they are escaped already (RFC 8259, section
/// 7), and between values some of them are white space.
#[must_use]
pub fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c < ' ' || !is_obeyed(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// The same text, with a sign in the place of what would be obeyed.
#[must_use]
pub fn plain(text: &str) -> String {
    let plain = |c: char| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(plain).collect()
}

/// Bytes of a text within [`inert`] JSON.
pub(crate) fn escaped_len(text: &str) -> usize {
    text.chars().map(escaped).sum()
}

fn escaped(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if is_obeyed(c) => 6 * c.len_utf16(),
        c => c.len_utf8(),
    }
}

/// Its beginning, of so many bytes as [`escaped_len`] counts them.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if escaped_len(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(MARK.len_utf8());
    let fits = |c: &char| {
        let rest = left.checked_sub(escaped(*c));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push(MARK);
    kept
}
