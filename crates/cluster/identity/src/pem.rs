//! PEM (RFC 7468) in and out, so that a key's bytes lie in memory that is wiped and nowhere else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
pub(crate) const CRL: &str = "X509 CRL";
pub(crate) const PRIVATE_KEY: &str = "PRIVATE KEY";
pub(crate) const REQUEST: &str = "CERTIFICATE REQUEST";

const LINE: usize = 64;
/// So much of a label is said; the longest of RFC 7468 have half of that.
const MAX_SHOWN: usize = 40;

/// One block.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) der: Zeroizing<Vec<u8>>,
}

/// A block as text.
pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(STANDARD.encode(der));
    // Taken at once: a text that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(encoded.len() * 66 / LINE + 2 * label.len() + 64));
    for part in ["-----BEGIN ", label, "-----\n"] {
        text.push_str(part);
    }
    for line in encoded.as_bytes().chunks(LINE) {
        text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        text.push('\n');
    }
    for part in ["-----END ", label, "-----\n"] {
        text.push_str(part);
    }
    text
}

/// All blocks of a text; what stands between them is passed over.
///
/// # Errors
/// The line (from 1 on) and what is wrong there.
pub(crate) fn decode(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, &str, Zeroizing<String>)> = None;
    for (index, line) in text.lines().enumerate() {
        let (at, line) = (index + 1, line.trim_end());
        let marked = |mark: &str| line.strip_prefix(mark)?.strip_suffix("-----");
        if let Some(label) = marked("-----BEGIN ") {
            if let Some((since, ..)) = open {
                return Err(format!("line {at}: a block begins inside of the one of line {since}"));
            }
            open = Some((at, label, Zeroizing::new(String::with_capacity(text.len()))));
        } else if let Some(label) = marked("-----END ") {
            let Some((_, _, encoded)) = open.take().filter(|(_, begun, _)| *begun == label) else {
                return Err(format!("line {at}: the end of a {} that has not begun", shown(label)));
            };
            // Decoded into memory of its full size, so that no copy is left behind by growing.
            let mut der = Zeroizing::new(vec![0; encoded.len()]);
            let length = STANDARD
                .decode_slice(encoded.as_bytes(), &mut der)
                .map_err(|_| format!("line {at}: the {} that ends here is not base64", shown(label)))?;
            der.truncate(length);
            blocks.push(Block {
                label: label.to_owned(),
                der,
            });
        } else if let Some((_, _, encoded)) = &mut open {
            encoded.push_str(line.trim());
        }
    }
    match open {
        None => Ok(blocks),
        Some((since, label, _)) => Err(format!(
            "line {since}: this {} does not end: is the file whole?",
            shown(label)
        )),
    }
}

/// A label as it may be said: it may come from a stranger, and the words go into logs and onto terminals.
fn shown(label: &str) -> String {
    let begin: String = label.chars().take(MAX_SHOWN).collect();
    format!("{begin:?}")
}

/// The blocks of one label, in their order.
pub(crate) fn of_label<'a>(blocks: &'a [Block], label: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let found = blocks.iter().filter(move |block| block.label == label);
    found.map(|block| block.der.as_slice())
}
