//! Names that are near one that does not exist: a person has mistyped, and wants to be shown a few, never all.

/// So many are shown.
pub const MOST: usize = 4;
/// Of longer names, and of more, nobody has mistyped one: comparing them takes a while.
const LONGEST: usize = 200;
const LARGEST: usize = 2000;
/// Below this likeness, from 0 (nothing alike) to 1 (the same), a name is not what was meant.
const ALIKE: f64 = 0.7;

/// The names that are most like the wanted one, the nearest first; none where none is like it.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let wanted = wanted.to_lowercase();
    let mut alike: Vec<(f64, &str)> = names
        .into_iter()
        .take(LARGEST)
        .map(|name| (likeness(&wanted, name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    alike.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// One that begins with the other is near, whatever follows.
fn likeness(wanted: &str, name: &str) -> f64 {
    let name = name.to_lowercase();
    let begins = wanted.len() >= 2 && (name.starts_with(wanted) || name.contains(wanted));
    let likeness = strsim::normalized_damerau_levenshtein(wanted, &name).max(strsim::jaro_winkler(wanted, &name) - 0.1);
    if begins { likeness.max(ALIKE) } else { likeness }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_that_are_alike_are_found_and_no_others() {
        let many: Vec<String> = (0..500).map(|number| format!("disk{number}")).collect();
        let names = || many.iter().map(String::as_str).chain(["backup", "Web1", "mail"]);
        assert_eq!(nearest("bakcup", names()), ["backup"]);
        assert_eq!(nearest("web", names()), ["Web1"]);
        let near = nearest("disk1000", names());
        assert!(near.len() == MOST && near[0] == "disk100", "{near:?}");
        assert!(nearest("qqq", names()).is_empty());
        assert!(nearest("", names()).is_empty());
        assert!(nearest("x", []).is_empty());
    }
}
