//! What is wanted of a store that a cluster has.

use super::{ClassArguments, DrainArguments, ForgetArguments, ReplaceArguments, StoreArguments, WeightArguments};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::outlook;
use amita_control::access::Action;
use amita_control::admin::{self, Outlook};
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::table::print;
use amita_types::map::Store;
use serde_json::json;

fn report(as_json: bool, done: &str, store: &Store, found: Outlook) -> Result<()> {
    print(as_json, &json!({ "store": store, "outlook": found }), || {
        format!("{done}\n{}", outlook(found))
    })
}

pub(super) fn drain(arguments: &DrainArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let store = admin::find_store(&admin.reader(), &arguments.store).described()?.id;
    let drained = admin.act(Action::DiskDrain, &store.to_string(), |meta| {
        admin::drain_store(meta, store, arguments.undo)
    });
    let (record, found) = drained.described()?;
    let done = if arguments.undo {
        format!("Store {store} is used again.")
    } else {
        format!("Store {store} is being drained; it serves until its last group is elsewhere.")
    };
    report(arguments.json, &done, &record, found)
}

pub(super) fn replace(arguments: &ReplaceArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let find = |name: &str| admin::find_store(&admin.reader(), name).described();
    let (old, new) = (find(&arguments.old)?.id, find(&arguments.new)?.id);
    let object = format!("{old} by {new}");
    let replaced = admin.act(Action::DiskReplace, &object, |meta| {
        admin::replace_store(meta, old, new)
    });
    let done = replaced.described()?;
    print(arguments.json, &done, || {
        let mut text = format!(
            "Store {new} takes over {} groups of store {old}, which is drained.\n",
            done.groups
        );
        if done.others > 0 {
            text.push_str(&format!(
                "It cannot take over {} more without breaking a rule: they go to others.\n",
                done.others
            ));
        }
        text
    })
}

pub(super) fn weigh(arguments: &WeightArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let store = admin::find_store(&admin.reader(), &arguments.store).described()?.id;
    let weighed = admin.act(Action::DiskWeight, &store.to_string(), |meta| {
        admin::weigh_store(meta, store, arguments.weight)
    });
    let (record, found) = weighed.described()?;
    let done = format!("Store {store} has the weight {}.", record.weight);
    report(arguments.json, &done, &record, found)
}

pub(super) fn classify(arguments: &ClassArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let store = admin::find_store(&admin.reader(), &arguments.store).described()?.id;
    let class = arguments.class.as_deref().unwrap_or("");
    let classified = admin.act(Action::DiskClass, &store.to_string(), |meta| {
        admin::classify_store(meta, store, class)
    });
    let (record, found) = classified.described()?;
    let done = match class {
        "" => format!("Store {store} is of no class."),
        class => format!("Store {store} is of class {class}."),
    };
    report(arguments.json, &done, &record, found)
}

pub(super) fn forget(arguments: &ForgetArguments, metadata: &Endpoints) -> Result<()> {
    let ForgetArguments {
        store: StoreArguments { store, json },
        yes,
    } = arguments;
    let admin = Admin::connect(metadata)?;
    let store = admin::find_store(&admin.reader(), store).described()?.id;
    let lost = format!("Store {store} goes out of the cluster's records, and what is on it is not used again.");
    confirm::destroys(*yes, &store.to_string(), &lost)?;
    admin
        .act(Action::DiskForget, &store.to_string(), |meta| {
            admin::forget_store(meta, store)
        })
        .described()?;
    print(*json, &json!({ "store": store, "forgotten": true }), || {
        format!("The cluster knows store {store} no more.\n")
    })
}

pub(super) fn adopt(arguments: &StoreArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let store = admin::find_store(&admin.reader(), &arguments.store).described()?.id;
    admin
        .act(Action::DiskAdopt, &store.to_string(), |meta| {
            admin::adopt_store(meta, store)
        })
        .described()?;
    print(arguments.json, &json!({ "store": store, "adopted": true }), || {
        format!("Store {store} may be served from whatever copy of it a node is started with next.\n")
    })
}
