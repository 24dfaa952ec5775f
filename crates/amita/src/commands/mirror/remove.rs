//! `amita mirror remove`: a mirror ends, at this end.

use super::{now, pauses, show, told};
use crate::admin::{Admin, Described as _};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_terminal::confirm;
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::{Mirror, MirrorRole};

/// `amita mirror remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveArguments {
    /// The mirror
    pub name: String,
    /// At an end that is no primary: delete its volumes for good, with their snapshots, instead of opening them to hosts
    #[arg(long)]
    pub delete: bool,
    /// Do not ask whether to go on
    #[arg(long)]
    pub yes: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn remove(arguments: &RemoveArguments, metadata: &Admin) -> Result<()> {
    let RemoveArguments { name, delete, .. } = arguments;
    metadata.permit(Action::MirrorRemove)?;
    let found = admin::mirror(&metadata.reader(), name).described()?;
    let is_primary = found.standing.role == MirrorRole::Primary;
    if is_primary && *delete {
        return Err(Failure::new(format!(
            "mirror {name} is primary here: hosts use its volumes, which stay"
        ))
        .kind(Kind::Conflict)
        .advice("Remove it without --delete; then delete the volumes (`amita volume delete`)."));
    }
    // Another one is refused, whatever is answered.
    if !matches!(found.standing.role, MirrorRole::Demoting | MirrorRole::Promoting) {
        confirm::destroys(arguments.yes, name, &lost(&found, *delete))?;
    }
    let gone = metadata.act(
        Action::MirrorRemove,
        name,
        |meta| -> std::result::Result<Mirror, AdminError> {
            let gone = match (is_primary, delete) {
                (true, _) => admin::remove_mirror(meta, name, true)?,
                (false, false) => admin::leave_mirror(meta, name)?,
                (false, true) => admin::delete_mirrored(meta, name, now().as_secs(), &mut pauses())?,
            };
            admin::revoke_mirror_tokens(meta, gone.id)?;
            Ok(gone)
        },
    );
    told(&gone.described()?, arguments.json, || {
        removed(name, is_primary, *delete)
    })
}

/// What becomes of the volumes.
fn lost(found: &Mirror, deletes: bool) -> String {
    let Mirror { name, standing, .. } = found;
    let volumes = show::volumes(found);
    match (standing.role, standing.point, deletes) {
        (MirrorRole::Primary, ..) => {
            format!("The volumes of mirror {name} go on here ({volumes}), and are brought to the other end no more.")
        }
        (_, _, true) => {
            format!("The volumes of mirror {name} are deleted here for good, with all of their snapshots: {volumes}.")
        }
        (MirrorRole::Deposed, ..) => format!(
            "The volumes of mirror {name} are opened to hosts here as they are ({volumes}), with what was written to them since the split; the other end \
             goes on without this one."
        ),
        (_, Some(point), _) => format!(
            "The volumes of mirror {name} are opened to hosts here at point {point} ({volumes}), beside those of the other end: nothing is brought any more."
        ),
        (_, None, _) if found.begun.is_some() || found.fresh => format!(
            "This end of mirror {name} never arrived at a point: its volumes ({volumes}) are opened to hosts with whatever was brought so far, which may be \
             nothing, or of no one moment."
        ),
        (_, None, _) => {
            format!(
                "The volumes of mirror {name} are opened to hosts here as they are ({volumes}), and nothing is brought any more."
            )
        }
    }
}

fn removed(name: &str, is_primary: bool, deletes: bool) -> String {
    let other = "The other end stays as it is: remove it there as well";
    match (is_primary, deletes) {
        (true, _) => format!(
            "Mirror {name} is removed at this end. Its points are snapshots like others now (`amita volume snapshot list`). {other} (`amita mirror \
             remove`, which opens its volumes, or with --delete deletes them).\n"
        ),
        (false, true) => format!("Mirror {name} is removed at this end, and its volumes are deleted. {other}.\n"),
        (false, false) => format!(
            "Mirror {name} is removed at this end, and its volumes are open to hosts. Its points are snapshots like others now (`amita volume snapshot \
             list`). {other}.\n"
        ),
    }
}
