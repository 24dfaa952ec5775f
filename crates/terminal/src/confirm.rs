//! A question before something that cannot be undone: on a terminal only. What runs without one, a script, has been told what to do.

use crate::capture;
use crate::error::{Context, Failure, Result};
use crate::output::shown;
use std::io::{BufRead, IsTerminal, Write};

/// Asks the person at the terminal to write `name`, after saying what is lost. Nobody is asked where `yes` was given, or where standard
/// input or standard error is no terminal. A command that is carried out for somebody elsewhere has been given the name, or is not done.
///
/// # Errors
/// They wrote something else: nothing was done; or the terminal is gone.
pub fn destroys(yes: bool, name: &str, lost: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if let Some(confirmed) = capture::confirm(name, lost) {
        return confirmed;
    }
    ask(name, lost)
}

/// The same, wherever the command is carried out.
///
/// # Errors
/// As [`destroys`].
pub fn ask(name: &str, lost: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    asked(name, lost, &mut std::io::stdin().lock(), &mut std::io::stderr())
}

fn asked(name: &str, lost: &str, answers: &mut dyn BufRead, questions: &mut dyn Write) -> Result<()> {
    let question = format!("{lost}\nWrite {name} to go on (--yes asks nothing): ");
    let put = questions.write_all(shown(&question).as_bytes());
    put.and_then(|()| questions.flush())
        .context(|| "cannot ask whether to go on".to_owned())?;
    let mut answer = String::new();
    answers
        .read_line(&mut answer)
        .context(|| "cannot read the answer".to_owned())?;
    match answer.trim() == name {
        true => Ok(()),
        false => Err(Failure::new(format!("nothing was done: the answer was not {name}"))
            .code("not-confirmed")
            .advice("Give the command again and write the name, or give --yes.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_is_a_yes() {
        let ask = |answer: &str| {
            let mut said = Vec::new();
            let done = asked("db", "Volume db goes.", &mut answer.as_bytes(), &mut said);
            let said = String::from_utf8(said).expect("text");
            assert!(said.starts_with("Volume db goes.\nWrite db"), "{said}");
            done
        };
        assert_eq!(ask("db\n"), Ok(()));
        assert_eq!(ask(" db "), Ok(()));
        for no in ["", "\n", "y\n", "yes\n", "dbs\n", "DB\n"] {
            let refused = ask(no).expect_err("not the name");
            assert!(refused.what.contains("nothing was done"), "{no:?}: {refused}");
        }
    }
}
