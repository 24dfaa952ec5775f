//! `amita recover`: the metadata is rebuilt from the stores.

mod plain;
mod read;

use crate::admin::{Admin, denied, metadata_failure};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::recover::{Bundle, RecoverError, Report, Source, Word, WriteError, rebuild, write};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::print;
use amita_types::{StoreId, VolumeId};
use std::fmt::Write as _;
use std::path::PathBuf;

/// `amita recover`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    /// Parts of it.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The block devices or files of the stores of this machine; no node may serve them
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "from")]
    pub from_stores: Vec<PathBuf>,
    /// Files that `amita recover collect` has written on other machines
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// The metadata is not empty: write over all of it
    #[arg(long)]
    pub replace: bool,
    /// A store that is gone for good: what only it held is lost
    #[arg(long, value_name = "STORE_UUID", value_parser = parse_store)]
    pub accept_loss: Vec<StoreId>,
    /// A volume that is in no copy of the metadata, by its number, and of which no store tells whether it was encrypted: it was not, and is
    /// opened as it lies
    #[arg(long, value_name = "NUMBER", value_parser = parse_volume)]
    pub plain_volume: Vec<VolumeId>,
    /// The same: it was, or nobody knows. Its number and its chunks are kept, and it is not opened
    #[arg(long, value_name = "NUMBER", value_parser = parse_volume)]
    pub closed_volume: Vec<VolumeId>,
    /// A volume that was to be a copy of another one, by its number, and that somebody has opened since the newest copy of the metadata was
    /// made: it was whole, and is used as it lies
    #[arg(long, value_name = "NUMBER", value_parser = parse_volume)]
    pub whole_copy: Vec<VolumeId>,
    /// The same: it was not, and is copied again from the beginning. What it holds is written over
    #[arg(long, value_name = "NUMBER", value_parser = parse_volume)]
    pub unfinished_copy: Vec<VolumeId>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The most memory for the index of a store: bytes, or with K, M, G, T
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "8G")]
    pub memory: u64,
    /// Say what was rebuilt as JSON
    #[arg(long)]
    pub json: bool,
}

/// Parts of a recovery.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Write what the stores of this machine know into a file, for a recovery on another one
    Collect(CollectArguments),
}

/// `amita recover collect`.
#[derive(Debug, clap::Args)]
pub struct CollectArguments {
    /// The block devices or files of the stores; no node may serve them
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    pub disk: Vec<PathBuf>,
    /// The file; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Say what was collected as JSON
    #[arg(long)]
    pub json: bool,
    /// The most memory for the index of a store: bytes, or with K, M, G, T
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "8G")]
    pub memory: u64,
}

fn parse_store(text: &str) -> std::result::Result<StoreId, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no store's UUID; `amita store inspect` prints it"))
}

fn parse_volume(text: &str) -> std::result::Result<VolumeId, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no volume's number; what was refused names them"))
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    match &arguments.command {
        Some(Command::Collect(arguments)) => collect(arguments),
        None => recover(arguments, metadata),
    }
}

fn collect(arguments: &CollectArguments) -> Result<()> {
    let held = read::stores(&arguments.disk, arguments.memory)?;
    let sources: Vec<Source> = held.into_iter().map(|held| held.source).collect();
    let text = serde_json::to_string(&Bundle::new(&sources)).context(|| "what the stores know".to_owned())?;
    read::write_new(&arguments.out, &text)?;
    let told = serde_json::json!({ "out": arguments.out, "stores": sources.len() });
    print(arguments.json, &told, || {
        format!(
            "{} holds what {} stores know. Bring it to where you run `amita recover`, and pass it with --from.\n",
            arguments.out.display(),
            sources.len()
        )
    })
}

fn recover(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    // Their locks are held until the end: no node takes them into service meanwhile.
    let held = read::stores(&arguments.from_stores, arguments.memory)?;
    let mut sources: Vec<Source> = held.iter().map(|held| held.source.clone()).collect();
    for path in &arguments.from {
        sources.extend(read::bundle(path)?);
    }
    let word = Word {
        plain: arguments.plain_volume.clone(),
        closed: arguments.closed_volume.clone(),
        whole: arguments.whole_copy.clone(),
        unfinished: arguments.unfinished_copy.clone(),
    };
    let rebuilt = rebuild(&sources, &arguments.accept_loss, &word).map_err(cannot_rebuild)?;
    if arguments.dry_run {
        write(&metadata.reader(), &rebuilt, arguments.replace, true).map_err(cannot_write)?;
    } else {
        let cluster = rebuilt.report.cluster.to_string();
        metadata
            .act(Action::MetadataRecover, &cluster, |meta| {
                write(meta, &rebuilt, arguments.replace, false)
            })
            .map_err(cannot_write)?;
    }
    print(arguments.json, &rebuilt.report, || {
        text(&rebuilt.report, arguments.dry_run)
    })
}

fn cannot_rebuild(error: RecoverError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        RecoverError::Missing { .. } => failure.kind(Kind::NotFound).advice(
            "Look at them too: --from-stores, or `amita recover collect` on their hosts and --from. Nothing was written. Where \
             one is gone for good, --accept-loss UUID goes on without it: what only it held is lost.",
        ),
        RecoverError::MayBeEncrypted { .. } => failure.kind(Kind::Conflict).advice(
            "Nothing was written. Newer metadata, of a store that was not looked at or of a backup, has their records, and with them their keys: \
             look at that too, or put it back. Else say of each what it is: --plain-volume NUMBER opens one as it lies, --closed-volume NUMBER keeps \
             its number and its chunks, and does not open it.",
        ),
        RecoverError::MayBeWhole { .. } => failure.kind(Kind::Conflict).advice(
            "Nothing was written. Newer metadata, of a store that was not looked at or of a backup, may say that they are whole: look at that too, or put it \
             back. Else say of each what it was: --whole-copy NUMBER if it was in use, and it is used as it lies; --unfinished-copy NUMBER copies it \
             again, and writes over what it holds.",
        ),
        RecoverError::NoStores
        | RecoverError::NotLost { .. }
        | RecoverError::NotNeeded { .. }
        | RecoverError::NotUndecided { .. }
        | RecoverError::NoUndecidedCopy { .. }
        | RecoverError::BothWordsOfCopy { .. }
        | RecoverError::BothWords { .. } => failure.kind(Kind::Usage),
        _ => failure,
    }
}

fn cannot_write(error: WriteError) -> Failure {
    match error {
        WriteError::Metadata(error) => metadata_failure(&error),
        WriteError::Denied(why) => denied(&why),
        other => Failure::new(other.to_string()).kind(Kind::Conflict),
    }
}

fn text(report: &Report, dry_run: bool) -> String {
    let mut out = if dry_run {
        "Nothing was written. This would be rebuilt:\n".to_owned()
    } else {
        "The metadata is rebuilt.\n".to_owned()
    };
    let line = |out: &mut String, text: String| {
        let _ = writeln!(out, "  {text}");
    };
    line(
        &mut out,
        format!("cluster {}, from {} stores", report.cluster, report.stores),
    );
    line(
        &mut out,
        format!(
            "records: the copy on store {}, of revision {}",
            report.copy_of, report.revision
        ),
    );
    line(
        &mut out,
        format!(
            "groups: {}; of {} a store knew a newer membership than the copy",
            report.groups, report.groups_ahead
        ),
    );
    for (name, generation) in &report.volumes {
        line(&mut out, format!("volume {name}, generation {generation}"));
    }
    for name in &report.found_volumes {
        line(
            &mut out,
            format!("volume {name} was in no copy; its chunks were found, and its size is that of what was written"),
        );
    }
    for store in &report.lost {
        line(
            &mut out,
            format!(
                "LOSS ACCEPTED: store {store}; {} groups go on without a member that may have had the last writes",
                report.groups_with_loss
            ),
        );
    }
    if !report.groups_without_copy.is_empty() {
        line(
            &mut out,
            format!(
                "LOST: no in-sync copy is left of {} groups; reads and writes there wait until a store of theirs is back",
                report.groups_without_copy.len()
            ),
        );
    }
    for note in &report.notes {
        line(&mut out, note.clone());
    }
    if !dry_run {
        out += "Start the nodes now.\n";
    }
    out
}
