use super::*;
use std::io::Read;
use std::net::TcpListener;

/// Connections that say nothing, and who is at their other ends.
struct Crowd {
    listener: TcpListener,
    places: Arc<Places>,
}

/// One of them: gone when its place is.
struct One {
    place: Place,
    other_end: TcpStream,
}

impl Crowd {
    fn new() -> Crowd {
        Crowd {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            places: Arc::default(),
        }
    }

    /// As if it came from there.
    fn comes(&self, from: &str) -> One {
        let other_end = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        other_end.set_nonblocking(true).unwrap();
        let (socket, _) = self.listener.accept().unwrap();
        let place = self.stands(from, &Arc::new(socket));
        One { place, other_end }
    }

    fn stands(&self, from: &str, socket: &Arc<TcpStream>) -> Place {
        self.places.stand(SocketAddr::new(from.parse().unwrap(), 1), socket)
    }

    /// A socket for many of whom nobody looks whether they are sent away.
    fn idle(&self) -> Arc<TcpStream> {
        Arc::new(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap())
    }
}

impl One {
    fn was_sent_away(&self) -> bool {
        matches!((&self.other_end).read(&mut [0; 1]), Ok(0))
    }
}

/// All addresses of a network of IPv6 are one source, and one of IPv4 is the same in both forms.
#[test]
fn the_oldest_of_the_largest_source_leaves() {
    let crowd = Crowd::new();
    let honest = crowd.comes("192.0.2.1");
    let twice = [crowd.comes("192.0.2.2"), crowd.comes("::ffff:192.0.2.2")];
    let many: Vec<One> = (twice.len() + 1..MAX_STRANGERS)
        .map(|number| crowd.comes(&format!("2001:db8::{number:x}")))
        .collect();
    assert!(!many.iter().any(One::was_sent_away), "there is room for all of them");
    let newcomers: Vec<One> = (1..=20)
        .map(|number| crowd.comes(&format!("198.51.100.{number}")))
        .collect();
    for (index, one) in many.iter().enumerate() {
        assert_eq!(
            one.was_sent_away(),
            index < newcomers.len(),
            "number {index} of the network"
        );
    }
    let others = twice.iter().chain(&newcomers).chain([&honest]);
    assert!(!others.into_iter().any(One::was_sent_away));
    // What has ended makes room, and nobody leaves for who comes then.
    drop(twice);
    let more = [crowd.comes("192.0.2.3"), crowd.comes("192.0.2.4")];
    assert_eq!(many.iter().filter(|one| one.was_sent_away()).count(), newcomers.len());
    assert!(!more.iter().any(One::was_sent_away));
}

#[test]
fn strangers_push_out_nobody_who_has_shown_a_certificate() {
    let crowd = Crowd::new();
    let known = crowd.comes("192.0.2.1");
    known.place.show("n1".to_owned());
    let socket = crowd.idle();
    let strangers: Vec<Place> = (0..MAX_STRANGERS + 50)
        .map(|number| crowd.stands(&format!("198.51.{}.{}", number / 200, number % 200), &socket))
        .collect();
    assert_eq!(crowd.places.lock().strangers.0.len(), MAX_STRANGERS);
    assert!(!known.was_sent_away());
    // Nor does one name keep the others out.
    let greedy: Vec<Place> = (0..MAX_KNOWN + 50)
        .map(|_| {
            let place = crowd.stands("192.0.2.9", &socket);
            place.show("n9".to_owned());
            place
        })
        .collect();
    assert_eq!(crowd.places.lock().known.0.len(), MAX_KNOWN);
    assert!(!known.was_sent_away());
    // Who was told to leave comes to no other place.
    strangers[0].show("n2".to_owned());
    assert_eq!(crowd.places.lock().known.0.back().unwrap().source, "n9");
    drop((strangers, greedy));
    let taken = crowd.places.lock();
    assert_eq!((taken.strangers.0.len(), taken.known.0.len(), taken.threads), (0, 1, 1));
}

#[test]
fn who_leaves_is_waited_for() {
    let crowd = Crowd::new();
    let socket = crowd.idle();
    let mut all: Vec<Place> = (0..MAX_THREADS).map(|_| crowd.stands("192.0.2.1", &socket)).collect();
    assert!(!crowd.places.wait(Duration::ZERO));
    let places = Arc::clone(&crowd.places);
    let waiting = std::thread::spawn(move || places.wait(Duration::from_secs(60)));
    drop(all.pop());
    assert!(waiting.join().unwrap());
}
