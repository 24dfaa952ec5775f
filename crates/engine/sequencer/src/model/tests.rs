//! The seeds.

use super::faults::{Profile, Report, run};
use super::gateways::add;
use super::world::Seen;
use crate::{Counters, Faults};

fn play(profile: impl Fn(u64) -> Profile, seeds: std::ops::Range<u64>) -> (Counters, Seen) {
    let mut counters = Counters::default();
    let mut seen = Seen::default();
    for seed in seeds {
        let profile = profile(seed);
        let name = profile.name;
        match run(seed, profile, Faults::NONE) {
            Ok(Report {
                counters: more,
                seen: other,
                steps,
            }) => {
                assert!(steps > 0);
                add(&mut counters, &more);
                seen.takeovers += other.takeovers;
                seen.raise_races += other.raise_races;
                seen.busy_owners += other.busy_owners;
                seen.released += other.released;
                seen.deposed += other.deposed;
                seen.unknown_calls += other.unknown_calls;
                seen.listed += other.listed;
                seen.claimed += other.claimed;
                seen.promoted += other.promoted;
                seen.promotion_races += other.promotion_races;
                seen.given_up += other.given_up;
            }
            Err(why) => panic!("seed {seed} of {name}: {why}"),
        }
    }
    (counters, seen)
}

/// Plays one seed, or a range of them: `AMITA_SEED=wild:17 AMITA_TRACE=1 cargo test -p amita-sequencer one_seed --
/// --nocapture`, or `AMITA_SEED=wild:2000..9000`.
#[test]
fn one_seed() {
    let Ok(text) = std::env::var("AMITA_SEED") else { return };
    let (name, seeds) = text.split_once(':').expect("PROFILE:SEED or PROFILE:FROM..TO");
    let (from, to) = match seeds.split_once("..") {
        Some((from, to)) => (from.parse().expect("a number"), to.parse().expect("a number")),
        None => (
            seeds.parse().expect("a number"),
            seeds.parse::<u64>().expect("a number") + 1,
        ),
    };
    if to - from == 1 {
        let (counters, seen) = play(|seed| profile(name, seed), from..to);
        return println!("{counters:?}\n{seen:?}");
    }
    let mut found = 0;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for seed in from..to {
        if let Some(why) = fault(seed, profile(name, seed), Faults::NONE) {
            println!(
                "seed {seed} of {name}: {}",
                why.chars().take(300).collect::<String>().replace('\n', " ")
            );
            found += 1;
        }
    }
    std::panic::set_hook(hook);
    println!("seeds played: {}", to - from);
    assert_eq!(found, 0, "faults in {} seeds", to - from);
}

/// Plays a seed, and says how it failed.
fn fault(seed: u64, profile: Profile, planted: Faults) -> Option<String> {
    match std::panic::catch_unwind(|| run(seed, profile, planted).map(|_| ())) {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => Some(format!("panic: {text}")),
            Err(panic) => {
                let text = panic.downcast::<&str>().map_or("?", |text| *text);
                Some(format!("panic: {text}"))
            }
        },
    }
}

fn profile(name: &str, seed: u64) -> Profile {
    match name {
        "calm" => Profile::calm(),
        "wild" => Profile::wild(seed),
        "links" => Profile::links(),
        "tight" => Profile::tight(),
        "split" => Profile::split(seed),
        "deaths" => Profile::deaths(seed),
        "laggards" => Profile::laggards(seed),
        "amnesia" => Profile::amnesia(),
        "amnesia_at_the_least" => Profile::amnesia_at_the_least(),
        "doubt" => Profile::doubt(),
        "back" => Profile::back(seed),
        "resync" => Profile::resync(seed),
        "relay" => Profile::relay(seed),
        "hot" => Profile::hot(seed),
        "apart" => Profile::apart(seed),
        "sealed" => Profile::sealed(seed),
        other => panic!("no profile {other}"),
    }
}

/// The seeds are fixed, so a path that is never taken is a failed test.
macro_rules! taken {
    ($of:expr; $($path:ident),*) => {
        $(assert!($of.$path > 0, "never taken: {}", stringify!($path));)*
        println!(concat!($(stringify!($path), " {}  "),*), $($of.$path),*);
    };
}

#[test]
fn calm() {
    let (counters, _) = play(|_| Profile::calm(), 0..100);
    taken!(counters; writes, reads, opened, held, lease_renewals);
    assert_eq!((counters.evicted, counters.rolled, counters.stale_epochs), (0, 0, 0));
}

#[test]
fn wild() {
    let (counters, seen) = play(Profile::wild, 0..1500);
    taken!(counters; writes, reads, opened, rolled, evicted, adopted, resent, held, unleased, lease_renewals, credit_waits);
    taken!(counters; hedged, stale_epochs, unknown, lost_races, damaged);
    taken!(seen; takeovers, raise_races, busy_owners, released, deposed, unknown_calls);
}

#[test]
fn links() {
    let (counters, _) = play(|_| Profile::links(), 0..200);
    taken!(counters; resent, held, evicted);
}

#[test]
fn tight() {
    let (counters, _) = play(|_| Profile::tight(), 0..200);
    taken!(counters; credit_waits, lease_renewals);
    assert_eq!(counters.evicted, 0, "want of space costs no member");
}

#[test]
fn split() {
    let (counters, seen) = play(Profile::split, 0..300);
    taken!(counters; rolled, evicted, unleased, unknown);
    taken!(seen; takeovers, deposed);
}

#[test]
fn deaths() {
    let (counters, seen) = play(Profile::deaths, 0..300);
    taken!(counters; rolled, resent);
    taken!(seen; takeovers, raise_races, busy_owners, released);
}

#[test]
fn laggards() {
    let (counters, _) = play(Profile::laggards, 0..200);
    taken!(counters; rolled, held, hedged);
}

#[test]
fn amnesia() {
    let (counters, _) = play(|_| Profile::amnesia(), 0..100);
    taken!(counters; evicted);
}

#[test]
fn amnesia_at_the_least() {
    let (counters, _) = play(|_| Profile::amnesia_at_the_least(), 0..100);
    taken!(counters; caught_up, rolled, doubted, cleared);
}

#[test]
fn doubt() {
    let (counters, _) = play(|_| Profile::doubt(), 0..200);
    taken!(counters; caught_up, doubted, cleared);
}

#[test]
fn back() {
    let (counters, seen) = play(Profile::back, 0..300);
    taken!(counters; sync_started, sync_dropped, sync_whole, sync_promoted, joined, mended, mended_blocks);
    taken!(seen; listed, claimed, promoted, promotion_races, given_up);
    // What travels is what was missed: less than a third of all blocks of all chunks of all stores that came back.
    let all = counters.sync_whole * super::world::CHUNKS * super::world::BLOCKS / 2;
    assert!(counters.mended_blocks * 3 < all, "{} of {all}", counters.mended_blocks);
}

#[test]
fn resync() {
    let (counters, seen) = play(Profile::resync, 0..400);
    taken!(counters; sync_dropped, sync_promoted, joined, mended, mend_skipped, mend_restarts, damaged, stale_epochs);
    taken!(seen; promoted, promotion_races, given_up, takeovers, deposed);
}

#[test]
fn relay() {
    let (counters, seen) = play(Profile::relay, 0..300);
    taken!(counters; sync_promoted, mended, mend_skipped, rolled);
    taken!(seen; promoted, promotion_races, released);
}

#[test]
fn hot() {
    let (counters, _) = play(Profile::hot, 0..200);
    taken!(counters; sync_promoted, mended, mend_skipped);
}

#[test]
fn apart() {
    let (counters, seen) = play(Profile::apart, 0..200);
    taken!(counters; sync_promoted, mended, unleased);
    taken!(seen; promoted, deposed);
}

#[test]
fn sealed() {
    let (counters, seen) = play(Profile::sealed, 0..400);
    taken!(counters; rolled, resent, mended, sync_promoted, damaged, hedged);
    taken!(seen; promoted, takeovers, deposed);
}

/// Seeds that have found faults in how members are brought up to date, and what they were.
#[test]
fn what_was_found() {
    // A wake-up that was due for a member that had left: no time passed any more.
    play(Profile::back, 7..8);
    // A store whose link stood before any group named it was never spoken to.
    play(Profile::back, 8..9);
    // A syncing store without room was doomed again and again, for ever in one turn.
    play(Profile::resync, 5..6);
    // A source was read from after its link had ended.
    play(Profile::relay, 30..31);
    // The first writes of a chunk were under way when a member entered, and nobody listed the chunk yet.
    play(Profile::resync, 159..160);
    play(Profile::resync, 161..162);
}

/// Plays seeds until one fails, and says how.
fn find(name: &str, planted: Faults, profile: impl Fn(u64) -> Profile, seeds: u64) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = None;
    for seed in 0..seeds {
        let Some(why) = fault(seed, profile(seed), planted) else {
            continue;
        };
        found = Some((seed, why));
        break;
    }
    std::panic::set_hook(hook);
    match found {
        Some((seed, why)) => println!("{name}: found by seed {seed}: {why}"),
        None => panic!("{name}: not found in {seeds} seeds"),
    }
}

macro_rules! planted {
    ($($name:ident, $fault:ident by $profile:expr, $seeds:expr;)*) => {
        mod planted {
            use super::*;
            $(
                #[test]
                fn $name() {
                    let planted = Faults::NONE.with(crate::Fault::$fault);
                    find(stringify!($name), planted, $profile, $seeds);
                }
            )*
        }
    };
}

planted! {
    skip_generation_check, SkipGenerationCheck by Profile::split, 500;
    no_hold, NoHold by Profile::laggards, 500;
    no_leases, NoLeases by Profile::split, 500;
    read_groups_before_raise, ReadGroupsBeforeRaise by Profile::wild, 500;
    roll_in_parts, RollInParts by Profile::deaths, 1000;
    no_credits, NoCredits by |_| Profile::tight(), 100;
    no_catch_up, NoCatchUp by |_| Profile::amnesia_at_the_least(), 100;
    no_least, NoLeast by |_| Profile::amnesia(), 300;
    no_least_in_doubt, NoLeast by |_| Profile::doubt(), 300;
    serve_half_fenced, ServeHalfFenced by Profile::deaths, 500;
    ignore_min_copies, IgnoreMinCopies by Profile::split, 500;
    acknowledge_early, AcknowledgeEarly by Profile::deaths, 500;
    resend_out_of_order, ResendOutOfOrder by |_| Profile::links(), 200;
    raise_silently, RaiseSilently by Profile::relay, 2000;
    forget_claimed, ForgetClaimed by Profile::resync, 2000;
    no_claimed_leases, NoClaimedLeases by Profile::apart, 3000;
    claim_early, ClaimEarly by Profile::back, 200;
    no_join, NoJoin by Profile::back, 200;
    trust_mends, TrustMends by Profile::hot, 1000;
    compare_versions, CompareVersions by Profile::back, 1000;
    trust_lists, TrustLists by Profile::resync, 1000;
    compare_unsettled, CompareUnsettled by Profile::hot, 4000;
    seal_again, SealAgain by Profile::sealed, 200;
    merge_ciphertext, MergeCiphertext by Profile::sealed, 200;
    decrypt_holes, DecryptHoles by Profile::sealed, 200;
    mend_under_own, MendUnderOwn by Profile::sealed, 1000;
}
