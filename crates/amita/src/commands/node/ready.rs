//! `amita node ready`.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::admin::{self, Readiness};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;

/// It, and why it is not so, as people are told.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    found: &'a Readiness,
    /// Null: it is ready.
    why: Option<String>,
}

pub(super) fn run(node: &str, stores: &[String], as_json: bool, metadata: &Endpoints) -> Result<()> {
    let found = admin::node_ready(&Admin::connect(metadata)?.reader(), node, stores).described()?;
    let shown = Shown {
        found: &found,
        why: why(&found),
    };
    print(as_json, &shown, || match &shown.why {
        None => format!("Node {node} is ready.\n"),
        Some(why) => format!("Node {node} is not ready: {why}.\n"),
    })?;
    match found.ready {
        true => Ok(()),
        false => Err(Failure::said(Kind::Conflict)),
    }
}

fn why(found: &Readiness) -> Option<String> {
    let lacks = found.stores.iter().filter_map(|store| {
        let path = &store.path;
        match store.store {
            None => Some(format!("the cluster knows no store of it at {path}")),
            Some(id) if !store.serves => Some(format!("store {id} ({path}) is not served")),
            Some(id) if store.lacks > 0 => Some(format!(
                "store {id} ({path}) is not in sync in {} of {} groups",
                store.lacks, store.groups
            )),
            Some(_) => None,
        }
    });
    let lacks: Vec<String> = lacks.collect();
    match (found.ready, lacks.is_empty()) {
        (true, _) => None,
        (false, true) => Some("it does not live".to_owned()),
        (false, false) => Some(lacks.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_control::admin::StoreReadiness;
    use amita_types::StoreId;

    #[test]
    fn what_a_node_waits_for_is_said() {
        let store = |store: Option<u128>, serves, lacks| StoreReadiness {
            path: "/dev/x".to_owned(),
            store: store.map(StoreId),
            serves,
            groups: 8,
            lacks,
        };
        let said = |serving: bool, stores: &[StoreReadiness]| {
            why(&Readiness {
                node: "n1".to_owned(),
                ready: serving && stores.iter().all(|store| store.lacks == 0),
                serving,
                stores: stores.to_vec(),
            })
        };
        let id = StoreId(1);
        assert_eq!(said(true, &[store(Some(1), true, 0)]), None);
        assert_eq!(said(false, &[]).as_deref(), Some("it does not live"));
        assert_eq!(
            said(true, &[store(Some(1), true, 3)]),
            Some(format!("store {id} (/dev/x) is not in sync in 3 of 8 groups"))
        );
        assert_eq!(
            said(false, &[store(Some(1), false, 8), store(None, false, 0)]),
            Some(format!(
                "store {id} (/dev/x) is not served; the cluster knows no store of it at /dev/x"
            ))
        );
    }
}
