//! `amita-sbom write` and `amita-sbom check`: see the library.

use amita_sbom::document::Facts;
use amita_sbom::page::{self, Page};
use amita_sbom::{Error, host, sha256, shipped};
use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is linked into what ships
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the bill of materials of a package as CycloneDX 1.5
    Write {
        #[command(flatten)]
        of: Of,
        /// The binary, whose hash goes into the document
        #[arg(long)]
        binary: Option<PathBuf>,
        /// Where to write it; without, to the standard output
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Look into a binary that is to be shipped: no paths of this machine, every crate in the bill of materials, the page in it, and
    /// of licences that are allowed
    Check {
        #[command(flatten)]
        of: Of,
        #[arg(long)]
        binary: PathBuf,
    },
}

#[derive(Args)]
struct Of {
    /// The package
    #[arg(long, default_value = "amita")]
    package: String,
    /// The platform that it is built for; without, this machine's
    #[arg(long)]
    target: Option<String>,
    /// The repository
    #[arg(long, default_value = ".")]
    repository: PathBuf,
}

impl Of {
    fn document(&self, binary: Option<&Path>) -> Result<Value, Error> {
        let binary = binary.map(sha256).transpose()?;
        let target = self.target.clone().map_or_else(|| host(&self.repository), Ok)?;
        Facts::gather(&self.repository, &self.package, &target, binary)?.document()
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Write { of, binary, output } => write(&of, binary.as_deref(), output),
        Command::Check { of, binary } => check(&of, &binary),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("amita-sbom: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(of: &Of, binary: Option<&Path>, output: Option<PathBuf>) -> Result<ExitCode, Error> {
    let document = of.document(binary)?;
    let text = format!("{document:#}\n");
    let path = output.unwrap_or_else(|| PathBuf::from("/dev/stdout"));
    std::fs::write(&path, text).map_err(|source| Error::File { path, source })?;
    Ok(ExitCode::SUCCESS)
}

/// Where things lie on this machine: none of it is to be in what ships.
fn places(repository: &Path) -> Vec<String> {
    let homes = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR"];
    let set = homes
        .iter()
        .filter_map(|name| std::env::var_os(name).map(PathBuf::from));
    let here = repository.canonicalize().into_iter().chain(set);
    // One that is relative, or the root itself, would be found everywhere and say nothing.
    let whole = here.filter(|path| path.is_absolute() && path.parent().is_some());
    whole.map(|path| format!("{}/", path.display())).collect()
}

fn check(of: &Of, binary: &Path) -> Result<ExitCode, Error> {
    let bytes = std::fs::read(binary).map_err(|source| Error::File {
        path: binary.to_owned(),
        source,
    })?;
    let mut wrong: Vec<String> = shipped::told(&bytes, &places(&of.repository));
    let crates = shipped::crates(&bytes);
    if crates.len() < shipped::LEAST_CRATES {
        wrong.push(format!(
            "it names {} crates: was it built by scripts/build-release?",
            crates.len()
        ));
    }
    let missing = shipped::missing(&crates, &of.document(None)?);
    wrong.extend(
        missing
            .iter()
            .map(|name| format!("{name} is in it, and not in the bill of materials")),
    );
    let index = of.repository.join("web/dist/index.html");
    let page = std::fs::read(&index).map_err(|source| Error::File { path: index, source })?;
    if !shipped::has(&bytes, &page) {
        wrong.push("the page of web/dist is not in it: was it built by scripts/build-release?".to_owned());
    }
    let packages = Page::read(&of.repository)?;
    wrong.extend(packages.refused(&page::allowed(&of.repository)?));
    for one in &wrong {
        eprintln!("{}: {one}", binary.display());
    }
    if !wrong.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "{}: no paths of this machine; {} crates seen, all in the bill of materials; the page, of {} packages with permissive licences",
        binary.display(),
        crates.len(),
        packages.packages.len()
    );
    Ok(ExitCode::SUCCESS)
}
