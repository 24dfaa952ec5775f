//! `amita lun`: volumes, and snapshots of them, under a number in a target.

use crate::admin::{Admin, Described, readable};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, LunSpec, LunStatus};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::{MAX_LUN_NUMBER, naa_text};

/// What to do with LUNs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a volume, or a snapshot, a LUN of a target; initiators that are logged in and may see it are told
    Add(AddArguments),
    /// Take a LUN out of a target; initiators that are logged in lose the disk, its volume stays
    Remove {
        /// The target's name
        target: String,
        /// The LUN's number
        lun: u16,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the LUNs
    List {
        /// Only those of this target
        target: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita lun add`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// The target's name
    pub target: String,
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, to be read only
    pub volume: String,
    /// Its number, 0 to 16383; Windows knows 0 to 254 [default: the one after the highest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MAX_LUN_NUMBER)))]
    pub number: Option<u16>,
    /// Bytes of a logical block: 512, as ESXi and most others want it, or 4096 [default: 512; of an encrypted volume 4096]
    #[arg(long, value_name = "BYTES")]
    pub block_size: Option<u32>,
    /// Also while the volume is a namespace of a subsystem, or exported by NBD: those who use it so and by iSCSI know of each other
    #[arg(long)]
    pub shared: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// The table of LUNs; with or without their target.
pub(super) fn table_of(luns: &[LunStatus], with_target: bool) -> Table {
    let head = ["target", "LUN", "volume", "size", "block", "naa"];
    let from = usize::from(!with_target);
    let mut table = Table::new(&head[from..]);
    for found in luns {
        let cells = [
            found.target.clone(),
            found.lun.number.to_string(),
            found.of(),
            found.size_bytes.map(size::show).unwrap_or_default(),
            found.lun.block_bytes.to_string(),
            naa_text(&found.lun.uuid),
        ];
        table.row(cells.into_iter().skip(from));
    }
    table
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Add(arguments) => {
            let AddArguments {
                target, volume, json, ..
            } = arguments;
            let block_bytes = match arguments.block_size {
                Some(wished) => wished,
                None => admin::usual_block_bytes(&metadata.reader(), volume).described()?,
            };
            let spec = LunSpec {
                of: volume.clone(),
                number: arguments.number,
                block_bytes,
                shared: arguments.shared,
            };
            let object = format!("{volume} in {target}");
            let made = metadata.act(Action::LunAdd, &object, |meta| admin::add_lun(meta, target, &spec));
            let made = made.described()?;
            print(*json, &made, || {
                let (what, how) = match made.snapshot {
                    None => ("Volume", ""),
                    Some(_) => ("Snapshot", ", write protected"),
                };
                format!(
                    "{what} {volume} is LUN {} of target {target}, with blocks of {} bytes{how}: naa.{}.\n",
                    made.number,
                    made.block_bytes,
                    naa_text(&made.uuid)
                )
            })
        }
        Command::Remove { target, lun, json } => {
            metadata
                .act(Action::LunRemove, &format!("{lun} of {target}"), |meta| {
                    admin::remove_lun(meta, target, *lun)
                })
                .described()?;
            let found = serde_json::json!({ "target": target, "lun": lun, "removed": true });
            print(*json, &found, || {
                format!("Target {target} has no LUN {lun} any more; its volume stays.\n")
            })
        }
        Command::List { target, json } => {
            let found = match target {
                Some(target) => admin::luns_of(&metadata.reader(), target),
                None => readable(admin::luns(&metadata.reader())),
            };
            let found = found.described()?;
            print(*json, &found, || table_of(&found, true).text())
        }
    }
}
