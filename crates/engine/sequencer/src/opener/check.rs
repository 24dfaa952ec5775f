//! What the metadata says of a pool and its groups, looked at before anything is built on it.

use super::OpenError;
use amita_metadata::KeyValue;
use amita_types::map;

/// The records of all groups of the pool, each with its revision.
pub(super) fn groups(pool: &map::Pool, values: &[KeyValue]) -> Result<Vec<(map::Group, u64)>, OpenError> {
    let mut groups = Vec::with_capacity(values.len());
    for value in values {
        let bad = |why: String| OpenError::BadRecord {
            key: value.key.clone(),
            why,
        };
        let group: map::Group = value.json().map_err(|error| bad(error.to_string()))?;
        if group.index.0 as usize != groups.len() {
            return Err(bad(format!("group {} was expected here", groups.len())));
        }
        group.check().map_err(bad)?;
        groups.push((group, value.mod_revision));
    }
    if groups.len() != pool.groups as usize {
        return Err(OpenError::BadRecord {
            key: map::groups_prefix(pool.id),
            why: format!(
                "{} groups are there, and pool {:?} has {}",
                groups.len(),
                pool.name,
                pool.groups
            ),
        });
    }
    Ok(groups)
}
