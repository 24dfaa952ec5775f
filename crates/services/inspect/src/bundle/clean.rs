//! Takes out of a text what looks like a secret, whoever has written it there.

const LEFT_OUT: &str = "[left out]";

/// Beginnings of secrets: our own tokens, the keys of NVMe hosts (NVM Express TCP transport, and DH-HMAC-CHAP), and what HTTP has.
const BEGINNINGS: [&str; 6] = [
    "amita-api-1.",
    "amita-join-1.",
    "amita-",
    "DHHC-1:",
    "NVMeTLSkey-1:",
    "Bearer ",
];
/// Words behind which a secret stands, after `=` or `:`.
const WORDS: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "private_key",
    "authorization",
];

/// The text without what looks like a secret: PEM, passwords in addresses, tokens, keys of hosts, and what is assigned to a word that
/// says so.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_pem = false;
    for line in text.split_inclusive('\n') {
        let begins = line.contains("-----BEGIN");
        if begins && !in_pem {
            let before = line.split("-----BEGIN").next().unwrap_or_default();
            out.push_str(&of_line(before));
            out.push_str(LEFT_OUT);
            in_pem = true;
        }
        if in_pem {
            // In JSON a whole key is one line.
            if let Some((_, rest)) = line.rsplit_once("-----END") {
                in_pem = false;
                let rest = rest.split_once("-----").map_or("\n", |(_, rest)| rest);
                out.push_str(&of_line(rest));
            }
            continue;
        }
        out.push_str(&of_line(line));
    }
    out
}

fn of_line(line: &str) -> String {
    assigned(&tokens(&addresses(line)))
}

/// `scheme://name:password@host`: all before the host goes.
fn addresses(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after
            .find(|c: char| c.is_whitespace() || "/\"'?#<>\\".contains(c))
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) => {
                out.push_str(LEFT_OUT);
                &after[at..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

fn is_of_secret(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.+/=:~".contains(c)
}

/// What begins as secrets do, to its end.
fn tokens(line: &str) -> String {
    let mut text = line.to_owned();
    // The one that is the beginning of others is there for tokens of a later kind, which have a number and a dot.
    for beginning in BEGINNINGS {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(beginning) {
            let end = after.find(|c: char| !is_of_secret(c)).unwrap_or(after.len());
            let is_secret = beginning != "amita-" || is_later_token(&after[..end]);
            out.push_str(before);
            match is_secret {
                true => out.push_str(LEFT_OUT),
                false => {
                    out.push_str(beginning);
                    out.push_str(&after[..end]);
                }
            }
            rest = &after[end..];
        }
        out.push_str(rest);
        text = out;
    }
    text
}

/// `KIND-NUMBER.LONG`, as our tokens are.
fn is_later_token(rest: &str) -> bool {
    let Some((head, body)) = rest.split_once('.') else {
        return false;
    };
    let number = head.rsplit_once('-').map_or("", |(_, number)| number);
    // A host may be called so, but for this.
    let is_long = body
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|run| run.len() >= 20);
    is_long && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

/// `password=...`, `"token": "..."`.
fn assigned(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for word in WORDS {
        for (at, _) in lower.match_indices(word) {
            let behind = at + word.len();
            let rest = &line[behind..];
            let sign = rest.trim_start_matches(['"', '\'', ' ']);
            let Some(value) = sign.strip_prefix(['=', ':']) else {
                continue;
            };
            let value = value.trim_start_matches(['"', '\'', ' ']);
            let from = line.len() - value.len();
            let length = value
                .find(|c: char| c.is_whitespace() || "\"',;&}".contains(c))
                .unwrap_or(value.len());
            if length > 0 && !value.starts_with(LEFT_OUT) {
                cuts.push((from, from + length));
            }
        }
    }
    cuts.sort_unstable();
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    for (from, to) in cuts {
        if from >= at {
            out.push_str(&line[at..from]);
            out.push_str(LEFT_OUT);
            at = to;
        }
    }
    out.push_str(&line[at..]);
    out
}
