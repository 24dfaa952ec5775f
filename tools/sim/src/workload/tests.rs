use super::*;

fn all(seed: u64) -> (Profile, Vec<IoRequest>) {
    let mut random = Random::new(seed);
    let profile = Profile::draw(&mut random, 1 + seed % 2, 96, 16);
    let mut workload = Workload::new(profile.clone(), &random);
    let mut history = History::new();
    let mut asks = Vec::new();
    while let Some(at) = workload.next() {
        let ask = workload.ask(at, &mut history).expect("a client's time has come");
        workload.ended(history.get(ask.id).client);
        asks.push(ask);
    }
    (profile, asks)
}

#[test]
fn operations_stay_inside_a_chunk_and_the_volume() {
    let (mut parts, mut long, mut clears) = (0, 0, 0);
    for seed in 0..200 {
        let (profile, asks) = all(seed);
        assert_eq!(asks.len(), profile.operations as usize);
        for ask in asks {
            let last = Sector(ask.first.0 + u64::from(ask.sectors) - 1);
            assert!(ask.sectors > 0 && last.block() < 2 * 96);
            assert_eq!(ask.first.block() / 16, last.block() / 16, "{ask:?} crosses a chunk");
            let whole = ask.first.in_block() == 0 && (last.0 + 1).is_multiple_of(SECTORS_PER_BLOCK as u64);
            assert!(whole || ask.kind != Kind::Clear);
            parts += usize::from(!whole);
            long += usize::from(ask.first.block() != last.block());
            clears += usize::from(ask.kind == Kind::Clear);
        }
    }
    assert!(
        parts > 1000 && long > 1000 && clears > 1000,
        "{parts} parts, {long} long, {clears} clears"
    );
}

#[test]
fn a_seed_asks_the_same_again() {
    assert_eq!(all(7).1, all(7).1);
    assert_ne!(all(7).1, all(8).1);
}
