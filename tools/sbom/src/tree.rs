//! What cargo links into a package of the workspace, and what it builds that with.

use crate::{Error, Id, run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Packages, each with those that it depends on.
pub type Edges = BTreeMap<Id, BTreeSet<Id>>;

/// What a package is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The package itself.
    pub root: Id,
    /// What is linked, the package included.
    pub linked: Edges,
    /// What runs on the machine that builds, and is not linked as well.
    pub built_with: BTreeSet<Id>,
}

/// Asks cargo, with the features that `cargo build -p PACKAGE` turns on.
///
/// # Errors
/// Where cargo fails, or prints something else than it did.
pub fn ask(repository: &Path, package: &str, target: &str) -> Result<Tree, Error> {
    let tree = |edges: &str| {
        let arguments = [
            "tree", "--locked", "-p", package, "--target", target, "-e", edges, "--prefix", "depth", "-f", "{p}",
        ];
        run(repository, "cargo", &arguments)
    };
    let (root, linked) = parse(&tree("normal,no-proc-macro")?)?;
    let (_, all) = parse(&tree("normal,build")?)?;
    let built_with = all.into_keys().filter(|id| !linked.contains_key(id)).collect();
    Ok(Tree {
        root,
        linked,
        built_with,
    })
}

/// Reads what `cargo tree --prefix depth -f {p}` prints: `DEPTHNAME vVERSION ...`, and below it, deeper, what it depends on.
/// What was printed before is not printed again.
pub(crate) fn parse(text: &str) -> Result<(Id, Edges), Error> {
    let mut edges = Edges::new();
    // From the root to the package that was read last.
    let mut way: Vec<Id> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let form = || Error::Form {
            what: "cargo tree",
            found: line.to_owned(),
        };
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (depth, rest) = line.split_at(digits);
        let depth: usize = depth.parse().map_err(|_| form())?;
        let mut words = rest.split(' ');
        let name = words.next().filter(|name| !name.is_empty()).ok_or_else(form)?;
        let version = words.next().and_then(|word| word.strip_prefix('v')).ok_or_else(form)?;
        let id = Id {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        // A second tree would have no place, and so would a step down of two.
        if depth > way.len() || depth == 0 && !way.is_empty() {
            return Err(form());
        }
        way.truncate(depth);
        if let Some(above) = way.last() {
            edges.entry(above.clone()).or_default().insert(id.clone());
        }
        edges.entry(id.clone()).or_default();
        way.push(id);
    }
    let root = way.into_iter().next().ok_or(Error::Form {
        what: "cargo tree",
        found: String::new(),
    })?;
    Ok((root, edges))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> Id {
        Id {
            name: name.into(),
            version: "1.0.0".into(),
        }
    }

    #[test]
    fn edges_follow_the_depth() {
        let text = "0a v1.0.0 (/a)\n1b v1.0.0\n2c v1.0.0 (proc-macro)\n1d v1.0.0\n2b v1.0.0 (*)\n";
        let (root, edges) = parse(text).unwrap();
        assert_eq!(root, id("a"));
        let of = |name| edges[&id(name)].iter().map(|id| id.name.as_str()).collect::<Vec<_>>();
        assert_eq!(of("a"), ["b", "d"]);
        assert_eq!(of("b"), ["c"]);
        assert_eq!(of("d"), ["b"]);
        assert!(of("c").is_empty() && edges.len() == 4);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "",
            "a v1.0.0\n",
            "0a\n",
            "0a 1.0.0\n",
            "0a v1.0.0\n2b v1.0.0\n",
            "0a v1.0.0\n0b v1.0.0\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
