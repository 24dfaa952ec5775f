//! `amita volume clone`: a volume that begins as a snapshot of another one.

use super::label::parse_label;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, DataKeys};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::print;
use amita_types::map::About;

/// `amita volume clone`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume and its snapshot, as VOLUME@SNAPSHOT
    #[arg(value_name = "VOLUME@SNAPSHOT", value_parser = parse_snapshot)]
    pub snapshot: (String, String),
    /// The new volume's name
    pub name: String,
    /// Say what it is for; once for each label
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub keys: super::key::FileArgument,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_snapshot(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('@') {
        Some((volume, snapshot)) if !volume.is_empty() && !snapshot.is_empty() => {
            Ok((volume.to_owned(), snapshot.to_owned()))
        }
        _ => Err(
            "a volume is cloned from a snapshot: VOLUME@SNAPSHOT (`amita volume snapshot create` takes one)".to_owned(),
        ),
    }
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let Arguments { name, labels, .. } = arguments;
    let (volume, snapshot) = &arguments.snapshot;
    let about = About {
        labels: labels.iter().cloned().collect(),
        ..super::now()
    };
    // Of an encrypted volume a clone has a key of its own.
    let keys = arguments.keys.given(endpoints);
    let keys = keys.as_ref().map(|file| file as &dyn DataKeys);
    let made = metadata.act(Action::VolumeClone, name, |meta| {
        admin::clone_volume_with(meta, keys, (volume, snapshot), name, &about)
    });
    let made = made.described()?;
    print(arguments.json, &made, || {
        format!(
            "Volume {name} is a clone of {volume}@{snapshot}: it has {} in pool {}, and shares its blocks until they are written.\n{}",
            size::show(made.size_bytes),
            made.pool,
            super::key::told_of_newest(metadata, name)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_with_its_volume() {
        let named = ("db".to_owned(), "a:1".to_owned());
        assert_eq!(parse_snapshot("db@a:1"), Ok(named));
        for bad in ["db", "@s", "db@", ""] {
            assert!(parse_snapshot(bad).is_err(), "{bad}");
        }
    }
}
