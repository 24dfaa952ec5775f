//! `amita man`: the manual's pages, made from the program's own definitions.

use crate::cli::Cli;
use amita_terminal::error::{Context, Result};
use amita_terminal::table::print;
use clap::CommandFactory;
use std::path::{Path, PathBuf};

/// `amita man`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder: what is there of these names is overwritten. /usr/local/share/man/man1 is where man looks
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Say which were written as JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes a page for each command, `amita-volume-create.1` and so on.
///
/// # Errors
/// They cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    let written = write(folder)?;
    print(arguments.json, &written, || {
        format!("{} pages are in {}.\n", written.len(), folder.display())
    })
}

/// The names of the pages.
fn write(folder: &Path) -> Result<Vec<String>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // It gives each command its whole name.
    command.build();
    let mut pages = Vec::new();
    gather(&command, &mut pages);
    pages.sort_by(|one, other| one.0.cmp(&other.0));
    let mut names = Vec::with_capacity(pages.len());
    for (name, page) in pages {
        let path = folder.join(&name);
        std::fs::write(&path, page).context(|| format!("cannot write {}", path.display()))?;
        names.push(name);
    }
    Ok(names)
}

fn gather(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) {
    // What the environment of this machine says is no part of a manual.
    let shown = command.clone().mut_args(|argument| argument.hide_env_values(true));
    let manual = clap_mangen::Man::new(shown);
    let mut page = Vec::new();
    // A vector takes all that is written.
    let _ = manual.render(&mut page);
    pages.push((manual.get_filename(), page));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        gather(sub, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(command: &clap::Command) -> usize {
        1 + command.get_subcommands().map(count).sum::<usize>()
    }

    #[test]
    fn there_is_a_page_for_each_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = write(folder.path()).expect("written");
        assert_eq!(names.len(), count(&Cli::command()));
        for name in ["amita.1", "amita-status.1", "amita-volume-snapshot-create.1"] {
            assert!(names.contains(&name.to_owned()), "{name} is missing");
        }
        for name in &names {
            let page = std::fs::read_to_string(folder.path().join(name)).expect("it is there");
            assert!(
                page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
                "{name}: {page}"
            );
        }
        let page = std::fs::read_to_string(folder.path().join("amita-volume-create.1")).expect("it is there");
        assert!(page.contains("thin") && page.contains("\\-\\-pool"), "{page}");
    }
}
