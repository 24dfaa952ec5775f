//! What a verification has found, and what is known of a repository behind it.
//!
//! # What stays known
//! An object that was found damaged or missing stays in the record until it was read again and found whole, or the vault knows it no more, as a pack that pruning
//! has removed. So whoever verifies reads those that are known first ([`looked_again`]), and all others when their turn comes. Where more were found than
//! a record names, their number stays until a whole round has passed that was begun behind that.
//!
//! Points are looked at whole at the beginning of each run, and once more where what is damaged has become another since: what is said of them is what was seen last.

use amita_types::map::{BackupDamage, BackupPointLost, BackupVerified, MAX_DAMAGE, MAX_POINTS_LOST};

/// The most bytes of a reason.
const MOST_BYTES: usize = 512;

/// An object that is damaged or missing: its name, and what is wrong with it.
pub type Found = (String, String);

/// A repository's vault, as a verification comes upon it: what is known of another one is of no use.
pub fn comes_upon(verified: &mut BackupVerified, repository: &str, vault: &str, now: u64) {
    if verified.vault != vault || verified.repository != repository {
        *verified = BackupVerified {
            runs: std::mem::take(&mut verified.runs),
            repository: repository.to_owned(),
            vault: vault.to_owned(),
            packs: verified.packs,
            ..BackupVerified::default()
        };
    }
    verified.round_since.get_or_insert(now);
}

/// How many bytes are read in a run: so many percent of all, and one at least, so that each run reads something.
#[must_use]
pub fn share(bytes: u64, percent: u32) -> u64 {
    let share = u128::from(bytes) * u128::from(percent.clamp(1, 100));
    u64::try_from(share.div_ceil(100)).unwrap_or(u64::MAX).max(1)
}

/// These objects were found damaged or missing: they are named, or counted where there are too many. Was one of them not known?
pub fn add(verified: &mut BackupVerified, found: &[Found], now: u64) -> bool {
    let before = verified.damaged();
    for (object, why) in found {
        if verified.damage.iter().any(|known| known.object == *object) {
            continue;
        }
        if verified.damage.len() < MAX_DAMAGE {
            verified.damage.push(BackupDamage {
                object: object.clone(),
                why: why[..why.floor_char_boundary(MOST_BYTES)].to_owned(),
                found: now,
            });
        } else {
            verified.more_damage = verified.more_damage.saturating_add(1);
            verified.more_round = verified.rounds;
        }
    }
    verified.damaged() > before
}

/// Of the objects that are known as damaged these were looked at once more, and these of them were found so again. Is one of them known no more?
pub fn looked_again(verified: &mut BackupVerified, looked: impl Fn(&str) -> bool, found: &[Found]) -> bool {
    let before = verified.damage.len();
    let is_found = |object: &str| found.iter().any(|(name, _)| name == object);
    verified
        .damage
        .retain(|known| !looked(&known.object) || is_found(&known.object));
    verified.damage.len() < before
}

/// All packs that were there when it was begun have been read, one after the other. `now`: the next round begins.
pub fn round(verified: &mut BackupVerified, now: u64) {
    verified.rounds = verified.rounds.saturating_add(1);
    verified.whole_since = verified.round_since;
    (verified.round_since, verified.round_end) = (Some(now), None);
    // The round in which they were found has ended, and so has a whole one behind it, which has found them again if there are any.
    if verified.more_damage > 0 && verified.rounds > verified.more_round.saturating_add(1) {
        verified.more_damage = 0;
    }
}

/// So it is with all points now.
pub fn points(verified: &mut BackupVerified, lost: impl IntoIterator<Item = BackupPointLost>) {
    let mut lost: Vec<BackupPointLost> = lost.into_iter().collect();
    for point in &mut lost {
        point.why.truncate(point.why.floor_char_boundary(MOST_BYTES));
    }
    // The newest ones say most.
    lost.sort_by_key(|point| std::cmp::Reverse(point.point));
    verified.more_points = lost.len().saturating_sub(MAX_POINTS_LOST) as u64;
    lost.truncate(MAX_POINTS_LOST);
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
        assert!(add(&mut verified, &found(&["a", "b"]), 6));
        assert!(add(&mut verified, &found(&["b", "c"]), 7));
        assert!(!add(&mut verified, &found(&["c", "a"]), 8));
        assert_eq!(names(&verified), ["a", "b", "c"]);
        assert_eq!((verified.damage[1].found, verified.damage[2].found), (6, 7));
        // Only what was looked at again is known better.
        assert!(looked_again(&mut verified, |object| object != "c", &found(&["a"])));
        assert!(!looked_again(&mut verified, |object| object == "c", &found(&["c"])));
        assert_eq!(names(&verified), ["a", "c"]);
        // Another vault has other objects.
        comes_upon(&mut verified, "r", "v", 9);
        assert_eq!((verified.damaged(), verified.round_since), (2, Some(5)));
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
        let many: Vec<String> = (0..MAX_DAMAGE + 3).map(|number| format!("o{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        add(&mut verified, &found(&many), 1);
        assert_eq!((verified.damage.len(), verified.more_damage), (MAX_DAMAGE, 3));
        round(&mut verified, 2);
        assert_eq!(
            verified.more_damage, 3,
            "the round that was under way may have passed them already"
        );
        round(&mut verified, 3);
        assert_eq!((verified.more_damage, verified.damage.len()), (0, MAX_DAMAGE));
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
        points(&mut verified, lost);
        assert_eq!((verified.lost(), verified.more_points), (MAX_POINTS_LOST as u64 + 2, 2));
        assert_eq!(verified.points_lost[0].point, MAX_POINTS_LOST as u64 + 1);
        assert!(verified.points_lost[0].why.len() <= MOST_BYTES);
        points(&mut verified, []);
        assert_eq!(verified.lost(), 0);
    }
}
