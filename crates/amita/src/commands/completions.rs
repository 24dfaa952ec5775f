//! `amita completions`: what makes a shell complete the commands.

use crate::cli::Cli;
use amita_terminal::error::{Context, Result};
use amita_terminal::output;
use clap::CommandFactory;
use clap_complete::{Generator, Shell, generate};

/// `amita completions`.
///
/// For bash: `amita completions bash > /etc/bash_completion.d/amita`. For zsh: into a file `_amita` in a folder of `$fpath`. For fish:
/// `~/.config/fish/completions/amita.fish`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    pub shell: For,
}

/// The shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum For {
    /// bash, with its package bash-completion or without
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints them.
///
/// # Errors
/// When nobody reads them.
pub fn run(arguments: &Arguments) -> Result<()> {
    output::raw(&script(arguments.shell)?)
}

/// The script for a shell.
///
/// # Errors
/// It is no text.
pub(crate) fn script(shell: For) -> Result<String> {
    let made = match shell {
        For::Bash => made(Shell::Bash),
        For::Zsh => made(Shell::Zsh),
        For::Fish => made(Shell::Fish),
    };
    String::from_utf8(made).context(|| "cannot make completions".to_owned())
}

fn made(shell: impl Generator) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "amita", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// A shell that is not there is not asked.
    fn parses(program: &str, arguments: &[&str], script: &str) -> bool {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let mut shell = match started {
            Ok(shell) => shell,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound && program != "bash" => return false,
            Err(why) => panic!("{program}: {why}"),
        };
        let mut input = shell.stdin.take().expect("a pipe");
        input.write_all(script.as_bytes()).expect("it reads");
        drop(input);
        assert!(shell.wait().expect("it ends").success(), "{program} does not take it");
        true
    }

    #[test]
    fn shells_take_the_completions() {
        let bash = script(For::Bash).expect("made");
        assert!(parses("bash", &["-n"], &bash));
        // And they complete: the beginning of a word becomes the command.
        let asked = format!(
            "{bash}\nCOMP_WORDS=(amita volume sna); COMP_CWORD=2; _amita amita sna volume; [ \"${{COMPREPLY[0]}}\" = snapshot ]"
        );
        assert!(parses("bash", &["-s"], &asked));
        let zsh = script(For::Zsh).expect("made");
        assert!(zsh.starts_with("#compdef amita") && zsh.contains("snapshot-policy"));
        parses("zsh", &["-n"], &zsh);
        let fish = script(For::Fish).expect("made");
        assert!(fish.contains("complete -c amita"));
        parses("fish", &["--no-execute"], &fish);
    }
}
