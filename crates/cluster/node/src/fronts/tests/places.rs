//! Places that strangers hold, and for how long.

use super::*;

#[test]
fn a_stranger_who_takes_nothing_of_what_it_is_told_is_closed() {
    let mut rig = Rig::new();
    rig.fronts.strangers_patience = Duration::from_millis(100);
    let mut is_first = true;
    let make: MakeFront = Box::new(move |_, _, _, outbox| {
        // More than two kernels keep of a connection.
        (0..256).for_each(|_| outbox.push(Slice::copy_from(&[7; 256 << 10])));
        let known = Rc::new(Cell::new(std::mem::take(&mut is_first)));
        Box::new(Sink { known })
    });
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let (_, address) = rig.fronts.listen(&mut rig.driver, local, make).unwrap();
    let _known = TcpStream::connect(address).unwrap();
    rig.until("it is in", |rig| rig.fronts.sessions() == 1);
    let _stranger = TcpStream::connect(address).unwrap();
    rig.until("the stranger is in", |rig| rig.fronts.strangers.count == 1);
    rig.until("the stranger is gone", |rig| rig.fronts.strangers.count == 0);
    assert_eq!(rig.fronts.sessions(), 1, "a host may be slow");
}

#[test]
fn where_all_places_are_taken_a_stranger_makes_room() {
    let known = Rc::new(Cell::new(false));
    let mut rig = Rig::of(known.clone());
    rig.fronts.most_sessions = 3;
    let mut held: Vec<TcpStream> = Vec::new();
    for count in 1..=3 {
        held.push(TcpStream::connect(rig.address).unwrap());
        rig.until("it is in", |rig| rig.fronts.sessions() == count);
    }
    held.push(TcpStream::connect(rig.address).unwrap());
    held[0].set_nonblocking(true).unwrap();
    rig.until("the oldest has gone", |_| matches!(held[0].read(&mut [0]), Ok(0)));
    assert_eq!((rig.fronts.sessions(), rig.fronts.strangers.count), (3, 3));
    // Who has shown who it is makes room for nobody.
    known.set(true);
    for id in rig.fronts.sessions.keys().copied().collect::<Vec<_>>() {
        rig.fronts.mark(id);
    }
    rig.pass();
    assert_eq!(rig.fronts.strangers.count, 0);
    let mut late = TcpStream::connect(rig.address).unwrap();
    late.set_nonblocking(true).unwrap();
    rig.until("it is turned away", |_| matches!(late.read(&mut [0]), Ok(0)));
    assert_eq!(rig.fronts.sessions(), 3);
}
