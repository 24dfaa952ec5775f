use super::*;
use amita_audit::Whence;
use amita_control::access::Caller;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};
use tower::ServiceExt as _;

fn age_of(method: &str, headers: &[(&str, &str)]) -> Option<u64> {
    let mut request = http::Request::builder().method(method).uri("/api/v1/health");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    max_age(&request.body(Body::empty()).unwrap()).map(|age| age.as_secs())
}

#[test]
fn only_who_says_so_gets_what_is_older() {
    assert_eq!(age_of("GET", &[]), None);
    assert_eq!(age_of("GET", &[("cache-control", "max-age=5")]), Some(5));
    assert_eq!(
        age_of("GET", &[("cache-control", "no-transform, Max-Age = 7")]),
        Some(7)
    );
    assert_eq!(age_of("GET", &[("cache-control", "max-age=3600")]), Some(60));
    for not in [
        "max-age=0",
        "max-age=-1",
        "max-age=x",
        "max-age",
        "no-cache, max-age=5",
        "max-age=5, no-store",
    ] {
        assert_eq!(age_of("GET", &[("cache-control", not)]), None, "{not}");
    }
    assert_eq!(age_of("POST", &[("cache-control", "max-age=5")]), None);
    assert_eq!(
        age_of("GET", &[("cache-control", "max-age=5"), ("if-none-match", "\"a\"")]),
        None
    );
}

fn key_of(number: usize) -> Key {
    ["who".to_owned(), format!("/{number}"), String::new()]
}

fn fill(place: &Place, since: Instant) {
    *place.0.try_lock().unwrap() = Some(Found { since, kept: None });
}

#[test]
fn so_many_are_kept_and_no_more() {
    let answers = Answers::default();
    let held: Vec<_> = (0..MAX_KEPT)
        .map(|number| answers.place(key_of(number)).unwrap())
        .collect();
    assert!(answers.place(key_of(MAX_KEPT)).is_none(), "all are in use");
    assert!(Arc::ptr_eq(&held[3], &answers.place(key_of(3)).unwrap()));
}

#[test]
fn the_oldest_goes_that_nobody_uses() {
    let answers = Answers::default();
    let now = Instant::now();
    let held: Vec<_> = (0..MAX_KEPT)
        .map(|number| answers.place(key_of(number)).unwrap())
        .collect();
    for (number, place) in held.iter().enumerate() {
        fill(place, now + Duration::from_millis(number as u64));
    }
    let used = Arc::clone(&held[0]);
    drop(held);
    assert!(answers.place(key_of(MAX_KEPT)).is_some());
    let places = answers.0.lock().unwrap();
    assert_eq!(places.len(), MAX_KEPT);
    assert!(places.contains_key(&key_of(0)), "it is in use");
    assert!(!places.contains_key(&key_of(1)), "it was the oldest of the others");
    drop(used);
}

const PATH: &str = "/api/v1/health";
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// How the first look-up ends.
#[derive(Clone, Copy)]
enum First {
    Well,
    Fails,
    Panics,
}

/// A route whose answer is the number of its look-up.
struct Desk {
    api: Api,
    first: First,
    /// So many look-ups, the first ones, go on when they are let go.
    held: usize,
    go: Semaphore,
    begun: AtomicUsize,
}

/// The status, the answer, and whether it was somebody else's.
type Told = (StatusCode, String, bool);

async fn sharing(State((patience, api)): State<(Duration, Api)>, request: Request, next: Next) -> Response {
    share_within(patience, &api, request, next).await
}

impl Desk {
    fn new(first: First, held: usize) -> Arc<Desk> {
        let meta = Mutex::new(amita_metadata::model::State::new());
        Arc::new(Desk {
            api: Api::new(Arc::new(meta)),
            first,
            held,
            go: Semaphore::new(0),
            begun: AtomicUsize::new(0),
        })
    }

    async fn look_up(&self) -> Response {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        if number <= self.held {
            self.go.acquire().await.expect("nobody closes it").forget();
        }
        let mut response = Response::new(Body::from(number.to_string()));
        match self.first {
            First::Fails if number == 1 => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
            First::Panics if number == 1 => panic!("the look-up that is to go wrong"),
            _ => {}
        }
        response
    }

    /// Somebody asks, and waits for somebody else's answer for so long at most.
    fn ask(self: &Arc<Self>, patience: Duration) -> JoinHandle<Told> {
        let desk = Arc::clone(self);
        let route = get(move || {
            let desk = Arc::clone(&desk);
            async move { desk.look_up().await }
        });
        let shared = from_fn_with_state((patience, self.api.clone()), sharing);
        let router: Router = Router::new().route(PATH, route).layer(shared);
        let asker = Asker(Caller::user("a", Whence::default()));
        let request = http::Request::builder().uri(PATH).extension(asker);
        let request = request.header(CACHE_CONTROL, "max-age=60").body(Body::empty());
        let request = request.expect("a request");
        tokio::spawn(async move {
            let Ok(response) = router.oneshot(request).await;
            let (status, is_shared) = (response.status(), response.headers().contains_key(AGE));
            let body = to_bytes(response.into_body(), 100).await.expect("it is there");
            (status, String::from_utf8_lossy(&body).into_owned(), is_shared)
        })
    }

    fn ask_often(self: &Arc<Self>, times: usize) -> Vec<JoinHandle<Told>> {
        (0..times).map(|_| self.ask(LONG)).collect()
    }

    /// Those who have an answer looked up, or wait for it.
    fn askers(&self) -> usize {
        let places = self.api.answers().0.lock().unwrap();
        places.values().map(|place| Arc::strong_count(place) - 1).sum()
    }

    /// Until so many look-ups have begun, and so many ask.
    async fn reach(&self, begun: usize, askers: usize) {
        for _ in 0..10_000 {
            if (self.begun.load(Ordering::Relaxed), self.askers()) == (begun, askers) {
                return;
            }
            yield_now().await;
        }
        let now = (self.begun.load(Ordering::Relaxed), self.askers());
        panic!("{now:?}, and not ({begun}, {askers})");
    }
}

async fn told(asked: Vec<JoinHandle<Told>>) -> Vec<Told> {
    let mut told = Vec::new();
    for one in asked {
        told.push(one.await.expect("it is answered"));
    }
    told.sort();
    told
}

/// This answer for who had it looked up, and for so many others.
fn of_one(answer: &str, others: usize) -> Vec<Told> {
    (0..=others)
        .map(|place| (StatusCode::OK, answer.to_owned(), place > 0))
        .collect()
}

#[tokio::test]
async fn those_who_ask_meanwhile_get_the_answer_of_one_look_up() {
    let desk = Desk::new(First::Well, 1);
    let asked = desk.ask_often(5);
    desk.reach(1, 5).await;
    desk.go.add_permits(1);
    assert_eq!(told(asked).await, of_one("1", 4));
    desk.reach(1, 0).await;
}

#[tokio::test]
async fn who_has_waited_for_long_enough_has_it_looked_up() {
    let desk = Desk::new(First::Well, 1);
    let first = desk.ask(LONG);
    desk.reach(1, 1).await;
    let impatient = desk.ask(Duration::from_millis(10)).await;
    assert_eq!(
        impatient.expect("it is answered"),
        (StatusCode::OK, "2".to_owned(), false)
    );
    assert!(!first.is_finished(), "nobody has let it go");
    desk.go.add_permits(1);
    // Who comes later gets what the first one has found.
    let asked = vec![first, desk.ask(LONG)];
    assert_eq!(told(asked).await, of_one("1", 1));
    desk.reach(2, 0).await;
}

#[tokio::test]
async fn where_a_look_up_fails_each_has_its_own_and_waits_for_no_other() {
    let desk = Desk::new(First::Fails, 4);
    let first = desk.ask(LONG);
    desk.reach(1, 1).await;
    let asked = desk.ask_often(3);
    desk.reach(1, 4).await;
    desk.go.add_permits(1);
    let failed = first.await.expect("it is answered");
    assert_eq!(failed, (StatusCode::SERVICE_UNAVAILABLE, "1".to_owned(), false));
    // All of them at once.
    desk.reach(4, 3).await;
    desk.go.add_permits(3);
    let answers = ["2", "3", "4"].map(|number| (StatusCode::OK, number.to_owned(), false));
    assert_eq!(told(asked).await, answers);
}

#[tokio::test]
async fn where_a_look_up_panics_or_its_asker_goes_one_of_the_others_has_it_looked_up() {
    for goes in [false, true] {
        let desk = Desk::new(if goes { First::Well } else { First::Panics }, 2);
        let first = desk.ask(LONG);
        desk.reach(1, 1).await;
        let asked = desk.ask_often(3);
        desk.reach(1, 4).await;
        if goes {
            first.abort();
        } else {
            desk.go.add_permits(1);
        }
        let ended = first.await.expect_err("it is not answered");
        assert_eq!((ended.is_cancelled(), ended.is_panic()), (goes, !goes));
        desk.reach(2, 3).await;
        desk.go.add_permits(1);
        assert_eq!(told(asked).await, of_one("2", 2), "its asker goes: {goes}");
        desk.reach(2, 0).await;
    }
}
