//! `amita status --watch` by the API: a node is asked for its status again and again, and another one where that is gone.

use super::watch::{again, not_known};
use crate::by_api::client::Sending;
use crate::by_api::who::Nodes;
use amita_terminal::error::{Kind, Result};

/// Shows it until the command is ended.
///
/// # Errors
/// Nobody may be asked so; or nobody reads it.
pub(super) fn run(as_json: bool, nodes: Nodes) -> Result<()> {
    let words: &[&str] = if as_json { &["status", "--json"] } else { &["status"] };
    let sending = Sending::look(nodes, words);
    let ended = again(as_json, || match sending.send(None) {
        Ok(outcome) if outcome.exit_code == 0 && as_json => Ok(in_one_line(&outcome.stdout)),
        Ok(outcome) if outcome.exit_code == 0 => Ok(outcome.stdout),
        // The node is there, and cannot tell.
        Ok(outcome) if as_json => Ok(outcome.stderr.trim_end().to_owned()),
        Ok(outcome) => {
            let why = outcome.stderr.trim_end();
            Ok(format!("Not known: {}\n", why.strip_prefix("amita: ").unwrap_or(why)))
        }
        Err(failure) if failure.kind == Kind::Unreachable => Ok(not_known(&failure, as_json)),
        Err(failure) => Err(failure),
    });
    match ended {
        // Ctrl-C is how it ends, also while a node is asked.
        Err(failure) if failure.kind == Kind::Interrupted => Ok(()),
        ended => ended,
    }
}

/// JSON without what is there for people: the same as the command by the metadata writes.
fn in_one_line(json: &str) -> String {
    let (mut line, mut in_text, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for sign in json.chars() {
        if in_text {
            in_text = is_escaped || sign != '"';
            is_escaped = !is_escaped && sign == '\\';
        } else if sign.is_ascii_whitespace() {
            continue;
        } else {
            in_text = sign == '"';
        }
        line.push(sign);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_the_same_in_one_line() {
        let value = json!({
            "a b": [1, { "c": null }, []],
            "text": "with \"quotes\", a backslash at its end \\",
            "lines": "one\n two\t",
            "end": { "x": "\\\"" },
        });
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(in_one_line(&format!("{pretty}\n")), value.to_string());
    }
}
