//! `amita volume resize`: a volume grows at once; it shrinks when what lies behind its new end is gone.
//!
//! To shrink, the command owns the volume, as `volume import` does, clears what lies behind the new end as any client clears blocks, and
//! then writes the size by a transaction that finds nobody else to have had the volume. A mark in the record of what is known of it
//! ([`map::About`](amita_types::map::About)) is there meanwhile. Cut short, the volume has its old size; the same command ends it.

use super::data::{Access, Data, is_alone, not_alone};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::progress;
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::Volume;

/// Chunks that are cleared by one request.
const CHUNKS: u64 = 16;

/// `amita volume resize`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name
    pub name: String,
    /// Its new size: bytes, or with K, M, G, T; a multiple of 4096
    #[arg(long, value_name = "SIZE", value_parser = size::parse_blocks)]
    pub size: u64,
    /// It may be less than it has: what lies behind is lost, but for what snapshots have. With the size that it has, one that was cut
    /// short is given up
    #[arg(long)]
    pub shrink: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what it is now as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    let Arguments { name, size, .. } = arguments;
    let now = admin::volume(&admin.reader(), name).described()?;
    let volume = match arguments.shrink {
        true if *size < now.size_bytes => shrink(arguments, endpoints, admin, &now)?,
        true if *size == now.size_bytes => admin
            .act(Action::VolumeResize, name, |meta| admin::give_up_shrink(meta, name))
            .described()?,
        true => {
            return Err(Failure::new(format!(
                "volume {name} has {}, and {} is more",
                size::show(now.size_bytes),
                size::show(*size)
            ))
            .kind(Kind::Usage)
            .advice("Leave --shrink out, and it grows."));
        }
        false => admin
            .act(Action::VolumeResize, name, |meta| {
                admin::resize_volume(meta, name, *size)
            })
            .described()?,
    };
    print(arguments.json, &volume, || {
        format!("Volume {} has {}.\n", volume.name, size::show(volume.size_bytes))
    })
}

fn shrink(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin, before: &Volume) -> Result<Volume> {
    admin.permit(Action::VolumeResize)?;
    let way = arguments.access.way_of_gateway(
        endpoints,
        admin,
        "a volume is made smaller",
        "it owns the volume meanwhile",
    )?;
    admin::may_shrink(&admin.reader(), before, arguments.size).described()?;
    interrupt::catch();
    let mut data = way.open(&arguments.name)?;
    let mut is_marked = false;
    let result = clear_and_shrink(arguments, admin, before, &mut data, &mut is_marked);
    data.close();
    result.map_err(|failure| match is_marked {
        false => failure,
        true => {
            let advice = format!(
                "{} Volume {} may have its old size still, and what lies behind the new end may be gone: the same command ends it.",
                failure.advice, arguments.name
            );
            failure.advice(advice.trim_start().to_owned())
        }
    })
}

fn clear_and_shrink(
    arguments: &Arguments,
    admin: &Admin,
    before: &Volume,
    data: &mut Data,
    is_marked: &mut bool,
) -> Result<Volume> {
    let Arguments { name, size, .. } = arguments;
    let volume = admin::volume(&admin.reader(), name).described()?;
    if !is_alone(data, before, &volume) {
        return Err(not_alone(name, "of it is cleared"));
    }
    *is_marked = true;
    let mark = admin
        .act(Action::VolumeResize, name, |meta| {
            admin::begin_shrink(meta, &volume, *size)
        })
        .described()?;
    let bar = progress::bar("clearing", volume.size_bytes - size);
    let (mut at, most) = (*size, CHUNKS * data.chunk_bytes());
    while at < volume.size_bytes {
        interrupt::check()?;
        let bytes = most.min(volume.size_bytes - at);
        data.write_zeroes(at, bytes)?;
        bar.inc(bytes);
        at += bytes;
    }
    // Each is acknowledged: durable on all copies.
    let cleared = data.finish();
    bar.finish_and_clear();
    cleared?;
    let ended = admin.act(Action::VolumeResize, name, |meta| {
        admin::end_shrink(meta, &volume, &mark)
    });
    ended.described()
}
