//! What a verification has found, and what is known of a repository behind it.
//!
//! # What stays known
//! An object that was found damaged or missing stays in the record until it was read again and found whole, or the vault knows it no more, as a pack that pruning
//! has removed. So whoever verifies reads those that are known first ([`looked_again`]), and all others when their turn comes. Of more than are named packs are
//! known by their bare names, and read again when their turn comes ([`read_in_turn`]), or when there is room to name them ([`name_more`]); beyond these they are counted, by rounds: the number is that of the last one.
//!
//! Points are looked at whole at the beginning of each run, and once more where what is damaged has become another since: what is said of them is what was seen last.

use amita_types::map::{BackupDamage, BackupPointLost, BackupVerified, MAX_DAMAGE, MAX_MORE_PACKS, MAX_POINTS_LOST};
use std::collections::BTreeSet;

/// The most bytes of a reason.
const MOST_BYTES: usize = 512;

/// An object that is damaged or missing: its name, and what is wrong with it.
pub type Found = (String, String);

/// A repository's vault, as a verification comes upon it: what is known of another vault is of no use, nor is what was read of that in this run; by what name the repository goes
/// is nothing to it.
pub fn comes_upon(verified: &mut BackupVerified, repository: &str, vault: &str, now: u64) {
    if verified.vault != vault {
        *verified = BackupVerified {
            runs: std::mem::take(&mut verified.runs),
            vault: vault.to_owned(),
            packs: verified.packs,
            ..BackupVerified::default()
        };
        if let Some(run) = &mut verified.runs.run {
            (run.read_bytes, run.points) = (0, 0);
        }
    }
    repository.clone_into(&mut verified.repository);
    verified.round_since.get_or_insert(now);
}

/// How many bytes are read in a run: so many percent of all, and one at least, so that each run reads something.
#[must_use]
pub fn share(bytes: u64, percent: u32) -> u64 {
    let share = u128::from(bytes) * u128::from(percent.clamp(1, 100));
    u64::try_from(share.div_ceil(100)).unwrap_or(u64::MAX).max(1)
}

/// How objects were come upon that were found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// When they had their turn in the round: once in each.
    Turn,
    /// By a look at all of them, which finds the same ones again and again.
    Look,
}

/// The last part of a pack's name.
fn pack_of(object: &str) -> Option<&str> {
    object.strip_prefix("packs/")?.rsplit('/').next()
}

/// These objects were found damaged or missing: they are named, or counted where there are too many. Was one of them not known?
pub fn add(verified: &mut BackupVerified, found: &[Found], by: By, now: u64) -> bool {
    let (mut is_new, mut counted, mut seen) = (false, 0_u64, BTreeSet::new());
    for (object, why) in found {
        // Several points may lack the same one.
        if !seen.insert(object) || verified.damage.iter().any(|known| known.object == *object) {
            continue;
        }
        let pack = pack_of(object);
        let known = verified
            .more_packs
            .iter()
            .position(|known| pack == Some(known.as_str()));
        if verified.damage.len() < MAX_DAMAGE {
            if let Some(at) = known {
                verified.more_packs.remove(at);
            }
            is_new |= known.is_none();
            verified.damage.push(BackupDamage {
                object: object.clone(),
                why: cut(why),
                found: now,
            });
        } else if known.is_none() {
            match pack {
                Some(pack) if verified.more_packs.len() < MAX_MORE_PACKS => {
                    is_new = true;
                    verified.more_packs.push(pack.to_owned());
                }
                _ => counted += 1,
            }
        }
    }
    let more = match by {
        By::Turn => {
            verified.more_found = verified.more_found.saturating_add(counted);
            verified.more_found
        }
        By::Look => counted,
    };
    // Those that are counted alone are come upon by each look.
    is_new |= more > verified.more_damage;
    verified.more_damage = verified.more_damage.max(more);
    name_more(verified, now);
    is_new
}

fn cut(why: &str) -> String {
    why[..why.floor_char_boundary(MOST_BYTES)].to_owned()
}

/// Packs that are known by their bare names are named as far as there is room, and so are read again first. What is wrong with them is known then.
pub fn name_more(verified: &mut BackupVerified, now: u64) {
    let room = MAX_DAMAGE.saturating_sub(verified.damage.len());
    let named = verified.more_packs.drain(..room.min(verified.more_packs.len()));
    for pack in named {
        let object = format!("packs/{}/{pack}", verified.vault);
        verified.damage.push(BackupDamage {
            why: format!("{object} was found damaged or missing"),
            object,
            found: now,
        });
    }
}

/// Which points need what is damaged is not known any more: all are to be looked at, from the first one on.
pub fn owe_points(verified: &mut BackupVerified) {
    (verified.points_owed, verified.points_place) = (true, None);
}

/// Of the packs that are known by their bare names these are gone, or were read when they had their turn and are whole. Was there one?
pub fn read_in_turn(verified: &mut BackupVerified, is_whole: impl Fn(&str) -> bool) -> bool {
    let before = verified.more_packs.len();
    verified.more_packs.retain(|pack| !is_whole(pack));
    verified.more_packs.len() < before
}

/// Of the objects that are known as damaged these were looked at once more, and these of them were found so again. Is one of them known no more?
pub fn looked_again(verified: &mut BackupVerified, looked: impl Fn(&str) -> bool, found: &[Found]) -> bool {
    let before = verified.damage.len();
    verified.damage.retain_mut(|known| {
        if !looked(&known.object) {
            return true;
        }
        let again = found.iter().find(|(name, _)| *name == known.object);
        if let Some((_, why)) = again {
            known.why = cut(why);
        }
        again.is_some()
    });
    verified.damage.len() < before
}

/// All packs that were there when it was begun have been read, one after the other. `now`: the next round begins.
pub fn round(verified: &mut BackupVerified, now: u64) {
    verified.rounds = verified.rounds.saturating_add(1);
    verified.whole_since = verified.round_since;
    verified.whole_unread = std::mem::take(&mut verified.round_unread);
    (verified.round_since, verified.round_end) = (Some(now), None);
    // So many there are: each had its turn.
    verified.more_damage = std::mem::take(&mut verified.more_found);
}

/// Which part of a look at all points has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// It began behind this point; none: with the first one.
    pub behind: Option<u64>,
    /// It ended with the last one.
    pub ends: bool,
}

impl Part {
    /// The whole look.
    pub const ALL: Part = Part {
        behind: None,
        ends: true,
    };
}

/// So it is with the points now that were `looked` at. Of the others, and where damage is counted that nobody can name, one that was not whole, and is there still, is not
/// said to be whole.
pub fn points(
    verified: &mut BackupVerified,
    part: Part,
    lost: impl IntoIterator<Item = BackupPointLost>,
    is_there: impl Fn(u64) -> bool,
    looked: impl Fn(u64) -> bool,
) {
    let mut lost: Vec<BackupPointLost> = lost.into_iter().collect();
    // Those that the parts before have found, and that are there still.
    let found = match part.behind {
        None => 0,
        Some(behind) => {
            let gone = verified.points_lost.iter();
            let gone = gone.filter(|point| point.point <= behind && !is_there(point.point));
            verified.points_found.saturating_sub(gone.count() as u64)
        }
    };
    let found = found.saturating_add(lost.len() as u64);
    verified.points_found = if part.ends { 0 } else { found };
    let is_kept = |point: &BackupPointLost| {
        let is_new = !lost.iter().any(|lost| lost.point == point.point);
        is_new && is_there(point.point) && (verified.more_damage > 0 || !looked(point.point))
    };
    let before = verified.points_lost.iter();
    let kept: Vec<BackupPointLost> = before.filter(|point| is_kept(point)).cloned().collect();
    // The newest ones say most; of those that were found now it is known how they are.
    let newest = |points: &mut Vec<BackupPointLost>| points.sort_by_key(|point| std::cmp::Reverse(point.point));
    newest(&mut lost);
    lost.extend(kept);
    for point in &mut lost {
        point.why.truncate(point.why.floor_char_boundary(MOST_BYTES));
    }
    let more = lost.len().saturating_sub(MAX_POINTS_LOST) as u64;
    lost.truncate(MAX_POINTS_LOST);
    newest(&mut lost);
    // Of those that are counted it is not known which they are: there are as many as the look has found in all of its parts.
    let counted = found.saturating_sub(lost.len() as u64);
    verified.more_points = match part.ends {
        true => counted.max(more),
        false => counted.max(more).max(verified.more_points),
    };
    verified.points_lost = lost;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<Found> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), format!("{name} is missing")))
            .collect()
    }

    fn names(verified: &BackupVerified) -> Vec<&str> {
        verified.damage.iter().map(|damage| damage.object.as_str()).collect()
    }

    #[test]
    fn what_was_found_stays_until_it_was_looked_at_again() {
        let mut verified = BackupVerified::default();
        comes_upon(&mut verified, "r", "v", 5);
        assert!(add(&mut verified, &found(&["a", "b"]), By::Look, 6));
        assert!(add(&mut verified, &found(&["b", "c"]), By::Turn, 7));
        assert!(!add(&mut verified, &found(&["c", "a"]), By::Turn, 8));
        assert_eq!(names(&verified), ["a", "b", "c"]);
        assert_eq!((verified.damage[1].found, verified.damage[2].found), (6, 7));
        // Only what was looked at again is known better.
        assert!(looked_again(&mut verified, |object| object != "c", &found(&["a"])));
        assert!(!looked_again(&mut verified, |object| object == "c", &found(&["c"])));
        assert_eq!(names(&verified), ["a", "c"]);
        // Another vault has other objects.
        comes_upon(&mut verified, "r", "v", 9);
        assert_eq!((verified.damaged(), verified.round_since), (2, Some(5)));
        // Under another name it is the same one.
        comes_upon(&mut verified, "renamed", "v", 9);
        assert_eq!(
            (verified.damaged(), verified.round_since, verified.repository.as_str()),
            (2, Some(5), "renamed")
        );
        verified.runs.runs = 3;
        comes_upon(&mut verified, "r", "w", 9);
        assert_eq!(
            (verified.damaged(), verified.round_since, verified.runs.runs),
            (0, Some(9), 3)
        );
    }

    #[test]
    fn what_is_too_much_to_be_named_is_counted_until_a_whole_round_has_passed() {
        let mut verified = BackupVerified::default();
        let all = MAX_DAMAGE + MAX_MORE_PACKS + 3;
        let many: Vec<String> = (0..all).map(|number| format!("packs/v/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let many = found(&many);
        assert!(add(&mut verified, &many, By::Turn, 1));
        let counts = |verified: &BackupVerified| {
            (
                verified.damage.len(),
                verified.more_packs.len(),
                verified.more_damage,
                verified.damaged(),
            )
        };
        let full = (MAX_DAMAGE, MAX_MORE_PACKS, 3, all as u64);
        assert_eq!(counts(&verified), full);
        // Whoever looks at all of them finds the same ones, and so does each round, however often.
        for _ in 0..3 {
            add(&mut verified, &[many.clone(), many.clone()].concat(), By::Look, 2);
            round(&mut verified, 3);
            assert_eq!(counts(&verified), full);
            add(&mut verified, &many, By::Turn, 4);
            assert_eq!(counts(&verified), full);
        }
        round(&mut verified, 5);
        // A point that is not whole by one of them is said to be so still, and goes when it is gone.
        let lost = |point| BackupPointLost {
            point,
            name: String::new(),
            why: String::new(),
        };
        points(&mut verified, Part::ALL, [lost(4), lost(7)], |_| true, |_| true);
        points(&mut verified, Part::ALL, [lost(7)], |_| true, |_| true);
        assert_eq!(verified.lost(), 2);
        points(&mut verified, Part::ALL, [], |point| point != 7, |_| true);
        assert_eq!((verified.lost(), verified.points_lost[0].point), (1, 4));
        // One that is named by its bare name is, too, when there is room; it is gone when it was read in its turn.
        assert!(looked_again(&mut verified, |object| object == "packs/v/5", &[]));
        let (known, next) = (MAX_DAMAGE.to_string(), (MAX_DAMAGE + 1).to_string());
        assert!(!add(
            &mut verified,
            &found(&[format!("packs/v/{known}").as_str()]),
            By::Turn,
            6
        ));
        assert_eq!(counts(&verified), (MAX_DAMAGE, MAX_MORE_PACKS - 1, 3, all as u64 - 1));
        assert!(read_in_turn(&mut verified, |pack| pack == next));
        assert!(!read_in_turn(&mut verified, |pack| pack == known));
        // A round that comes upon none ends that.
        round(&mut verified, 7);
        assert_eq!(counts(&verified), (MAX_DAMAGE, MAX_MORE_PACKS - 2, 0, all as u64 - 5));
        points(&mut verified, Part::ALL, [], |_| true, |_| true);
        assert_eq!(verified.lost(), 0);
    }

    #[test]
    fn of_another_vault_nothing_was_read_in_this_run() {
        let mut verified = BackupVerified::default();
        comes_upon(&mut verified, "r", "v", 5);
        verified.runs.run = Some(amita_types::map::BackupRun {
            due: 3,
            read_bytes: 9,
            points: 2,
            ..Default::default()
        });
        comes_upon(&mut verified, "s", "v", 6);
        let read = |verified: &BackupVerified| {
            verified
                .runs
                .run
                .as_ref()
                .map(|run| (run.due, run.read_bytes, run.points))
        };
        assert_eq!(read(&verified), Some((3, 9, 2)));
        comes_upon(&mut verified, "s", "w", 7);
        assert_eq!(read(&verified), Some((3, 0, 0)));
    }

    #[test]
    fn what_is_known_by_its_bare_name_is_named_when_there_is_room() {
        let mut verified = BackupVerified::default();
        comes_upon(&mut verified, "r", "v", 5);
        let many: Vec<String> = (0..MAX_DAMAGE + 2).map(|number| format!("packs/v/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        add(&mut verified, &found(&many), By::Turn, 6);
        assert_eq!((verified.damage.len(), verified.more_packs.len()), (MAX_DAMAGE, 2));
        looked_again(&mut verified, |object| object == many[0], &[]);
        name_more(&mut verified, 7);
        let named = &verified.damage[MAX_DAMAGE - 1];
        assert!(named.object == many[MAX_DAMAGE] && named.why.contains(many[MAX_DAMAGE]) && named.found == 7);
        assert_eq!(verified.more_packs, [(MAX_DAMAGE + 1).to_string()]);
        // What is wrong with it is known when it was read again.
        let again = found(&many[MAX_DAMAGE..=MAX_DAMAGE]);
        looked_again(&mut verified, |object| object == many[MAX_DAMAGE], &again);
        assert!(verified.damage[MAX_DAMAGE - 1].why.ends_with("is missing"));
    }

    #[test]
    fn of_points_that_were_not_looked_at_nothing_new_is_said() {
        let lost = |point| BackupPointLost {
            point,
            name: String::new(),
            why: String::new(),
        };
        let mut verified = BackupVerified::default();
        points(
            &mut verified,
            Part::ALL,
            [lost(2), lost(4), lost(6)],
            |_| true,
            |_| true,
        );
        let first = Part {
            behind: None,
            ends: false,
        };
        points(&mut verified, first, [lost(3)], |point| point != 6, |point| point <= 3);
        let named: Vec<u64> = verified.points_lost.iter().map(|lost| lost.point).collect();
        assert_eq!(named, [4, 3]);
    }

    #[test]
    fn points_that_are_counted_alone_are_not_whole_because_a_look_was_in_two_parts() {
        let lost = |point| BackupPointLost {
            point,
            name: String::new(),
            why: String::new(),
        };
        let mut verified = BackupVerified::default();
        points(&mut verified, Part::ALL, (1..=200).map(lost), |_| true, |_| true);
        assert_eq!((verified.lost(), verified.points_lost[0].point), (200, 200));
        // The newer half is whole again: the look finds the older one, and ends in between.
        let [first, second] = [(None, false), (Some(100), true)].map(|(behind, ends)| Part { behind, ends });
        points(
            &mut verified,
            first,
            (1..=100).map(lost),
            |_| true,
            |point| point <= 100,
        );
        assert!(verified.lost() >= 100, "{}", verified.lost());
        points(&mut verified, second, [], |_| true, |point| point > 100);
        assert_eq!((verified.lost(), verified.points_lost[0].point), (100, 100));
        points(&mut verified, first, [lost(9)], |_| true, |point| point <= 100);
        points(&mut verified, second, [lost(150)], |_| true, |point| point > 100);
        assert_eq!((verified.lost(), verified.points_lost[0].point), (2, 150));
        // What the first part has found is given up before the second one.
        points(&mut verified, first, [lost(8), lost(9)], |_| true, |point| point <= 100);
        points(&mut verified, second, [], |point| point > 100, |point| point > 100);
        assert_eq!((verified.lost(), verified.points_lost.len()), (0, 0));
        // What is known of an earlier look, and lies behind a part, was not found by it.
        points(&mut verified, Part::ALL, (197..=200).map(lost), |_| true, |_| true);
        points(&mut verified, first, (1..=60).map(lost), |_| true, |point| point <= 70);
        let middle = Part {
            behind: Some(70),
            ends: false,
        };
        let is_there = |point| point <= 190;
        points(&mut verified, middle, [], is_there, |point| point > 70 && point <= 80);
        let last = Part {
            behind: Some(80),
            ends: true,
        };
        points(&mut verified, last, [], is_there, |point| point > 80);
        assert_eq!(verified.lost(), 60);
    }

    #[test]
    fn a_round_says_since_when_all_was_read() {
        let mut verified = BackupVerified::default();
        comes_upon(&mut verified, "r", "v", 5);
        round(&mut verified, 20);
        assert_eq!(
            (verified.whole_since, verified.round_since, verified.rounds),
            (Some(5), Some(20), 1)
        );
        round(&mut verified, 30);
        assert_eq!(verified.whole_since, Some(20));
    }

    #[test]
    fn shares_come_round_and_the_newest_points_are_named() {
        assert_eq!(
            (share(0, 5), share(1000, 5), share(1001, 5), share(7, 100)),
            (1, 50, 51, 7)
        );
        let lost = (0..MAX_POINTS_LOST as u64 + 2).map(|point| BackupPointLost {
            point,
            name: String::new(),
            why: "é".repeat(MOST_BYTES),
        });
        let mut verified = BackupVerified::default();
        points(&mut verified, Part::ALL, lost, |_| true, |_| true);
        assert_eq!((verified.lost(), verified.more_points), (MAX_POINTS_LOST as u64 + 2, 2));
        assert_eq!(verified.points_lost[0].point, MAX_POINTS_LOST as u64 + 1);
        assert!(verified.points_lost[0].why.len() <= MOST_BYTES);
        points(&mut verified, Part::ALL, [], |_| true, |_| true);
        assert_eq!(verified.lost(), 0);
    }
}
