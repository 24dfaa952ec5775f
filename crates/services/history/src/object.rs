//! Of what figures are kept, and of what they are asked.

use amita_types::StoreId;
use std::fmt;
use std::str::FromStr;

/// What a node keeps figures of. The order is that in which room is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// The node as a whole.
    Node,
    /// One of its stores.
    Store(StoreId),
    /// One of its cores.
    Core(u32),
    /// A volume that was open here, and one of the busiest, by its name.
    Volume(String),
    /// All other volumes together.
    Rest,
}

/// What somebody asks about: `cluster`, `node/NAME`, `store/UUID`, `core/NODE/NUMBER`, `volume/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// All nodes together.
    Cluster,
    /// One node.
    Node(String),
    /// One store, wherever it was.
    Store(StoreId),
    /// A core of a node.
    Core(String, u32),
    /// One volume, wherever it was open.
    Volume(String),
}

impl Subject {
    /// Is it this, at the node of that name?
    #[must_use]
    pub fn is(&self, object: &Object, node: &str) -> bool {
        match (self, object) {
            (Subject::Cluster, Object::Node) => true,
            (Subject::Node(name), Object::Node) => name == node,
            (Subject::Store(wanted), Object::Store(id)) => wanted == id,
            (Subject::Core(name, wanted), Object::Core(core)) => name == node && wanted == core,
            (Subject::Volume(wanted), Object::Volume(name)) => wanted == name,
            _ => false,
        }
    }

    /// The only node that can know of it; none: any may.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Subject::Node(name) | Subject::Core(name, _) => Some(name),
            Subject::Cluster | Subject::Store(_) | Subject::Volume(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Cluster => f.write_str("cluster"),
            Subject::Node(name) => write!(f, "node/{name}"),
            Subject::Store(id) => write!(f, "store/{id}"),
            Subject::Core(name, core) => write!(f, "core/{name}/{core}"),
            Subject::Volume(name) => write!(f, "volume/{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        let bad = || {
            format!(
                "{text:?} is nothing that has a history; give cluster, node/NAME, store/UUID, core/NODE/NUMBER or volume/NAME"
            )
        };
        match text.split_once('/') {
            None if text == "cluster" => Ok(Subject::Cluster),
            Some(("node", name)) if !name.is_empty() => Ok(Subject::Node(name.to_owned())),
            Some(("store", id)) => id.parse().map(Subject::Store).map_err(|_| bad()),
            Some(("volume", name)) if !name.is_empty() => Ok(Subject::Volume(name.to_owned())),
            Some(("core", rest)) => {
                let (name, core) = rest.rsplit_once('/').ok_or_else(bad)?;
                Ok(Subject::Core(name.to_owned(), core.parse().map_err(|_| bad())?))
            }
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lead_back() {
        let store = StoreId(7 << 100 | 9);
        for subject in [
            Subject::Cluster,
            Subject::Node("n1".to_owned()),
            Subject::Store(store),
            Subject::Core("n1".to_owned(), 3),
            Subject::Volume("db.data".to_owned()),
        ] {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        for bad in [
            "",
            "node",
            "node/",
            "store/x",
            "core/n1",
            "core/n1/x",
            "disk/1",
            "volume/",
        ] {
            assert!(
                bad.parse::<Subject>().unwrap_err().contains("core/NODE/NUMBER"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_subject_is_found_where_it_is() {
        let of = |text: &str| text.parse::<Subject>().unwrap();
        assert!(of("cluster").is(&Object::Node, "n2"));
        assert!(of("node/n2").is(&Object::Node, "n2") && !of("node/n2").is(&Object::Node, "n1"));
        assert!(of("core/n2/1").is(&Object::Core(1), "n2") && !of("core/n2/1").is(&Object::Core(1), "n1"));
        assert!(!of("volume/a").is(&Object::Rest, "n1"));
        assert_eq!(of("core/n2/1").node(), Some("n2"));
        assert_eq!(of("volume/a").node(), None);
    }
}
