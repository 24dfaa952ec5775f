use super::*;
use crate::provider::{Request, Response};
use amita_testkit::Random as Numbers;
use amita_types::map::{KeyName, KeyNumber};
use amita_types::{ClusterId, VolumeId};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TOKEN: &str = "hvs.CAESIJmq3vB4mT0";

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut numbers = Numbers::new(seed);
    move |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8)
}

fn binding() -> Binding {
    Binding {
        tenant: Some("acme".into()),
        key: KeyName {
            volume: VolumeId(3),
            image: VolumeId(7),
            number: KeyNumber(1),
        },
    }
}

/// What a Vault does for these two requests, and nothing else: it looks at every field, and a request that has one more or one less ends
/// the test.
struct Vault {
    namespace: Option<&'static str>,
    token: &'static str,
    sealed: bool,
    /// It is asked for the version of a key.
    probes: bool,
    /// It is older than 1.13: `associated_data` is nothing to it.
    is_old: bool,
    /// The versions of its keys, by mount and name.
    keys: BTreeMap<&'static str, Vec<[u8; 32]>>,
    asked: u8,
}

impl Vault {
    fn new() -> Vault {
        Vault {
            namespace: None,
            token: TOKEN,
            sealed: false,
            probes: false,
            is_old: false,
            keys: BTreeMap::from([("transit/amita", vec![[1; 32]]), ("kms/eu/other.key-1", vec![[2; 32]])]),
            asked: 0,
        }
    }

    fn rotate(&mut self, key: &str) {
        let versions = self.keys.get_mut(key).unwrap();
        versions.push([10 + versions.len() as u8; 32]);
    }

    fn answer(&mut self, request: &Request) -> Response {
        let request = http(request);
        self.asked += 1;
        assert_eq!(request.method, "POST");
        let mut headers: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in &request.headers {
            assert!(headers.insert(name, value).is_none(), "{name} twice");
        }
        assert_eq!(headers.remove("X-Vault-Request"), Some("true"));
        assert_eq!(headers.remove("Content-Type"), Some("application/json"));
        assert_eq!(headers.remove("X-Vault-Namespace"), self.namespace);
        let token = headers.remove("X-Vault-Token").expect("a token");
        assert!(headers.is_empty(), "{:?}", headers.keys());
        let path = request.path.strip_prefix("/v1/").expect("the API's version");
        let (mount, what, name) = ["encrypt", "decrypt"]
            .into_iter()
            .find_map(|what| {
                path.split_once(&format!("/{what}/"))
                    .map(|(mount, name)| (mount, what, name))
            })
            .expect("one of two requests");
        let body: BTreeMap<String, Value> = serde_json::from_slice(&request.body).expect("an object");
        let text = |name: &str| body[name].as_str().expect("a text");
        let decoded = |name: &str| STANDARD.decode(text(name)).expect("base64");
        let input = if what == "encrypt" { "plaintext" } else { "ciphertext" };
        assert_eq!(body.keys().collect::<Vec<_>>(), {
            let mut names = ["associated_data", input];
            names.sort_unstable();
            names
        });
        if self.sealed {
            return refusal(503, &["Vault is sealed"]);
        }
        if token != self.token {
            return refusal(
                403,
                &["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"],
            );
        }
        let Some(versions) = self.keys.get(format!("{mount}/{name}").as_str()) else {
            return refusal(400, &["encryption key not found"]);
        };
        let mut associated = decoded("associated_data");
        let is_key = associated.starts_with(b"amita-crypt wrapped key 1\0");
        assert!(is_key || self.probes && [PROBE, OTHER].contains(&&associated[..]));
        if self.is_old {
            associated.clear();
        }
        let cipher = |version: usize| LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &versions[version - 1]).unwrap());
        if what == "encrypt" {
            let (version, nonce) = (versions.len(), [self.asked; 12]);
            let mut bytes = decoded("plaintext");
            let unique = Nonce::assume_unique_for_key(nonce);
            cipher(version)
                .seal_in_place_append_tag(unique, Aad::from(associated), &mut bytes)
                .unwrap();
            let ciphertext = format!("vault:v{version}:{}", STANDARD.encode([&nonce[..], &bytes].concat()));
            return data(json!({"ciphertext": ciphertext, "key_version": version}));
        }
        let (version, bytes) = text("ciphertext")
            .strip_prefix("vault:v")
            .and_then(|rest| rest.split_once(':'))
            .expect("of Vault's");
        let (version, mut bytes) = (
            version.parse::<usize>().unwrap(),
            STANDARD.decode(bytes).expect("base64"),
        );
        if version == 0 || version > versions.len() {
            return refusal(400, &["invalid ciphertext: version is too new"]);
        }
        let mut bytes = bytes.split_off(12.min(bytes.len()));
        let nonce = STANDARD.decode(text("ciphertext").rsplit(':').next().unwrap()).unwrap();
        let nonce = Nonce::try_assume_unique_for_key(&nonce[..12.min(nonce.len())]);
        let opened = nonce.and_then(|nonce| {
            cipher(version)
                .open_in_place(nonce, Aad::from(associated), &mut bytes)
                .map(|plain| plain.to_vec())
        });
        match opened {
            Ok(plain) => data(json!({"plaintext": STANDARD.encode(plain)})),
            Err(_) => refusal(400, &["cipher: message authentication failed"]),
        }
    }
}

/// What comes with the data, as Vault has it.
fn data(data: Value) -> Response {
    let answer = json!({
        "request_id": "b2f1a1f0-0000-0000-0000-000000000000", "lease_id": "", "renewable": false, "lease_duration": 0,
        "data": data, "wrap_info": null, "warnings": null, "auth": null, "mount_type": "transit"
    });
    response(200, &answer.to_string())
}

fn refusal(status: u16, errors: &[&str]) -> Response {
    response(status, &json!({ "errors": errors }).to_string())
}

fn response(status: u16, body: &str) -> Response {
    let body = Zeroizing::new(body.as_bytes().to_vec());
    Response::Http(HttpResponse { status, body })
}

fn http(request: &Request) -> &HttpRequest {
    match request {
        Request::Http(request) => request,
        Request::Kmip(_) => panic!("Vault speaks HTTP"),
    }
}

fn transit() -> Transit {
    Transit::new("transit", "amita", None, TOKEN).unwrap()
}

fn question<T: fmt::Debug>(next: Next<T>) -> Question<T> {
    match next {
        Next::Ask(question) => question,
        Next::Done(done) => panic!("{done:?} without having asked"),
    }
}

fn wrap(by: &mut Transit, vault: &mut Vault, key: &DataKey) -> Result<WrappedKey, KeyError> {
    let question = question(by.wrap(&binding(), key, &mut random(9))?);
    let response = vault.answer(question.request());
    question.answer(&response)
}

fn unwrap(by: &mut Transit, vault: &mut Vault, wrapped: &WrappedKey) -> Result<DataKey, KeyError> {
    let question = question(by.unwrap(&binding(), wrapped)?);
    let response = vault.answer(question.request());
    question.answer(&response)
}

/// A wrap of a key, and the key.
fn wrapped(vault: &mut Vault) -> (WrappedKey, DataKey) {
    let key = DataKey::generate(&mut random(1));
    (wrap(&mut transit(), vault, &key).unwrap(), key)
}

#[test]
fn vault_wraps_and_unwraps() {
    let mut vault = Vault::new();
    let (wrapped, key) = wrapped(&mut vault);
    assert_eq!(wrapped.wrapped_by(), "transit transit/amita v1");
    let read = WrappedKey::parse(&wrapped.to_text()).unwrap();
    assert_eq!(read, wrapped);
    let opened = unwrap(&mut transit(), &mut vault, &read).unwrap();
    assert_eq!(opened.expose(), key.expose());
}

#[test]
fn mounts_keys_and_namespaces_have_names() {
    let mut vault = Vault::new();
    vault.namespace = Some("team/storage");
    let mut by = Transit::new("kms/eu", "other.key-1", Some("team/storage"), &format!("{TOKEN}\n")).unwrap();
    let key = DataKey::generate(&mut random(1));
    let wrapped = wrap(&mut by, &mut vault, &key).unwrap();
    assert_eq!(wrapped.wrapped_by(), "transit kms/eu/other.key-1 v1");
    assert_eq!(unwrap(&mut by, &mut vault, &wrapped).unwrap().expose(), key.expose());
    // A node that was given another of Vault's keys does not ask for anything.
    let refused = transit().unwrap(&binding(), &wrapped).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "data key 1 of volume 3 (image 7): it was wrapped by Vault's key kms/eu/other.key-1, and this node was given another: give it that \
         one"
    );
    let name = |what| BadTransit::Name { what };
    for wrong in [
        "",
        "/transit",
        "transit/",
        "a//b",
        "a/../b",
        "a b",
        "a?b",
        "a%2fb",
        "ä",
        "-a",
        &"a".repeat(129),
    ] {
        let made = Transit::new(wrong, "amita", None, TOKEN).map(|_| ());
        assert_eq!(made, Err(name("where Vault's transit engine is mounted")), "{wrong}");
        let made = Transit::new("transit", "amita", Some(wrong), TOKEN).map(|_| ());
        assert_eq!(made, Err(name("Vault's namespace")), "{wrong}");
    }
    for wrong in ["", "a/b", "..", "a..b", "a\nb"] {
        let made = Transit::new("transit", wrong, None, TOKEN).map(|_| ());
        assert_eq!(made, Err(name("the name of Vault's key")), "{wrong}");
    }
    for wrong in ["", "\n", "two words", "a\r\nX-Other: b", "ä", &"a".repeat(4097)] {
        assert_eq!(
            Transit::new("transit", "amita", None, wrong).map(|_| ()),
            Err(BadTransit::Token),
            "{wrong}"
        );
    }
}

/// Vault's `rewrap` takes no associated data: a key is unwrapped and wrapped.
#[test]
fn a_rotated_key_of_vaults_wraps_again() {
    let mut vault = Vault::new();
    let (old, key) = wrapped(&mut vault);
    vault.rotate("transit/amita");
    let opened = unwrap(&mut transit(), &mut vault, &old).unwrap();
    let new = wrap(&mut transit(), &mut vault, &opened).unwrap();
    assert_eq!(new.wrapped_by(), "transit transit/amita v2");
    assert_eq!(new.check_value(), old.check_value());
    assert_eq!(unwrap(&mut transit(), &mut vault, &new).unwrap().expose(), key.expose());
}

#[test]
fn a_renewed_token_is_the_one_that_is_shown() {
    let mut vault = Vault::new();
    let (wrapped, _) = wrapped(&mut vault);
    vault.token = "hvs.next";
    let mut by = transit();
    let refused = unwrap(&mut by, &mut vault, &wrapped).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "data key 1 of volume 3 (image 7): Vault refuses (403: 2 errors occurred:* permission denied* invalid token): give the token the \
         right to update MOUNT/encrypt/KEY and MOUNT/decrypt/KEY, or put a new token into its file; is the namespace the right one?"
    );
    assert_eq!(by.set_token("not a token"), Err(BadTransit::Token));
    by.set_token("hvs.next\n").unwrap();
    assert!(unwrap(&mut by, &mut vault, &wrapped).is_ok());
}

#[test]
fn what_vault_refuses_is_said_in_its_words() {
    let mut vault = Vault::new();
    let (wrapped, key) = wrapped(&mut vault);
    vault.sealed = true;
    let refused = unwrap(&mut transit(), &mut vault, &wrapped).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("(503: Vault is sealed): Vault is sealed, or a standby; unseal it"),
        "{refused}"
    );
    vault.sealed = false;
    vault.keys.clear();
    let refused = wrap(&mut transit(), &mut vault, &key).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("Vault refuses (400: encryption key not found): there is no such key: make it"),
        "{refused}"
    );
    let long = json!({"errors": ["x".repeat(1000)]}).to_string();
    let shortened = "x".repeat(200);
    for (status, body, said) in [
        (502, "<html>Bad Gateway</html>", ""),
        (307, "", ""),
        (404, r#"{"errors":[]}"#, ""),
        (204, "", ""),
        (500, r#"{"errors":["a\u001b[31mb","c"]}"#, "a[31mb; c"),
        (500, long.as_str(), shortened.as_str()),
    ] {
        let question = question(transit().unwrap(&binding(), &wrapped).unwrap());
        let KeyError::Transit { why, .. } = question.answer(&response(status, body)).unwrap_err() else {
            panic!("{status}");
        };
        let said = said.to_owned();
        assert_eq!(why, TransitError::Refused { status, said });
    }
}

/// What is bound to a key Vault authenticates: a record that was changed does not open, whoever changed it.
#[test]
fn a_changed_record_does_not_open() {
    let mut vault = Vault::new();
    let (wrapped, _) = wrapped(&mut vault);
    let text = wrapped.to_text();
    let mut refusals = Vec::new();
    for (from, to) in [
        ("\"check\":\"", "\"check\":\"@"),
        (":v1:", ":v2:"),
        ("\"mount\":\"transit\"", "\"mount\":\"kms\""),
        ("\"key\":\"amita\"", "\"key\":\"other\""),
    ] {
        let mut changed = text.replace(from, to);
        if let Some(at) = changed.find('@') {
            let digit = if &changed[at + 1..at + 2] == "0" { "1" } else { "0" };
            changed.replace_range(at..at + 2, digit);
        }
        assert_ne!(changed, text);
        let read = WrappedKey::parse(&changed).unwrap();
        refusals.push(unwrap(&mut transit(), &mut vault, &read).unwrap_err().to_string());
    }
    assert!(refusals[0].contains("message authentication failed"), "{refusals:?}");
    assert!(refusals[1].contains("version is too new"), "{refusals:?}");
    assert!(
        refusals[2].contains("kms/amita") && refusals[3].contains("transit/other"),
        "{refusals:?}"
    );
    // What says another volume, with Vault asked for exactly that.
    let mut other = binding();
    other.key.image = VolumeId(8);
    let read = WrappedKey::parse(&text.replace("\"image\":7", "\"image\":8")).unwrap();
    let question = question(transit().unwrap(&other, &read).unwrap());
    let response = vault.answer(question.request());
    let refused = question.answer(&response).unwrap_err();
    assert!(
        refused.to_string().contains("message authentication failed"),
        "{refused}"
    );
}

#[test]
fn an_answer_that_is_none_is_refused() {
    let mut vault = Vault::new();
    let (wrapped, key) = wrapped(&mut vault);
    let what = |error: KeyError| match error {
        KeyError::Transit {
            why: TransitError::Answer { what },
            ..
        } => what,
        other => panic!("{other}"),
    };
    let of_unwrap = |answer: &Response| question(transit().unwrap(&binding(), &wrapped).unwrap()).answer(answer);
    let of_wrap =
        |answer: &Response| question(transit().wrap(&binding(), &key, &mut random(1)).unwrap()).answer(answer);
    for body in [
        "",
        "{}",
        "null",
        "[1]",
        r#"{"data":null}"#,
        r#"{"data":{}}"#,
        r#"{"data":{"plaintext":7,"ciphertext":7}}"#,
        "{\"data\":",
    ] {
        assert_eq!(
            what(of_unwrap(&response(200, body)).unwrap_err()),
            "it is not the JSON that Vault gives",
            "{body}"
        );
        assert_eq!(
            what(of_wrap(&response(200, body)).unwrap_err()),
            "it is not the JSON that Vault gives",
            "{body}"
        );
    }
    let plain = |text: &str| data(json!({ "plaintext": text }));
    assert_eq!(
        what(of_unwrap(&plain("not base64")).unwrap_err()),
        "its plaintext is no base64"
    );
    let long = response(200, &" ".repeat(HttpResponse::MAX_BODY_BYTES + 1));
    assert_eq!(what(of_unwrap(&long).unwrap_err()), "it is too long");
    for wrong in [
        "",
        "vault:v1:",
        "vault:v0:AAAA",
        "vault:v01:AAAA",
        "vault:v:AAAA",
        "vault:v4294967296:AAAA",
        "vault:v1:AA\nAA",
        "v1:AAAA",
    ] {
        let answer = data(json!({ "ciphertext": wrong }));
        assert_eq!(
            what(of_wrap(&answer).unwrap_err()),
            "its ciphertext is not of the form `vault:vN:BASE64`",
            "{wrong}"
        );
    }
    let answer = data(json!({"ciphertext": "vault:v1:AAAA", "key_version": 2}));
    assert_eq!(
        what(of_wrap(&answer).unwrap_err()),
        "its key has another version than its ciphertext"
    );
    // An older Vault does not say the version beside it.
    assert!(of_wrap(&data(json!({"ciphertext": "vault:v1:AAAA"}))).is_ok());
    // Some other key, well-formed: by the check value it is found before anything is read with it.
    let other = DataKey::generate(&mut random(2));
    let refused = of_unwrap(&plain(&STANDARD.encode(other.expose()))).unwrap_err();
    assert!(matches!(refused, KeyError::OtherKey { .. }), "{refused}");
    let refused = of_unwrap(&plain(&STANDARD.encode([1; 32]))).unwrap_err();
    assert!(matches!(refused, KeyError::NoKey { .. }), "{refused}");
    assert!(of_unwrap(&plain(&STANDARD.encode(key.expose()))).is_ok());
}

#[test]
fn a_record_has_what_vault_gives_or_is_not_read() {
    let mut vault = Vault::new();
    let text = wrapped(&mut vault).0.to_text();
    for (from, to) in [
        ("vault:v1:", "vault:v1:!"),
        ("vault:v1:", "vault:"),
        ("\"mount\":\"transit\"", "\"mount\":\"../sys\""),
        ("\"mount\":\"transit\"", "\"mount\":\"\""),
        ("\"key\":\"amita\"", "\"key\":\"a/b\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let refused = WrappedKey::parse(&changed).unwrap_err();
        assert!(
            matches!(
                refused,
                KeyError::Transit {
                    why: TransitError::Record { .. },
                    ..
                }
            ),
            "{refused}"
        );
    }
}

/// One Vault may serve several clusters with one key: what is one's does not open as another's.
#[test]
fn what_is_wrapped_is_the_clusters() {
    let mut vault = Vault::new();
    let (old, key) = wrapped(&mut vault);
    let mut ours = transit();
    ours.of_cluster(ClusterId(1));
    let new = wrap(&mut ours, &mut vault, &key).unwrap();
    let read = WrappedKey::parse(&new.to_text()).unwrap();
    assert_eq!(read, new);
    // What was wrapped before that was said opens as well.
    for wrapped in [&old, &read] {
        assert_eq!(unwrap(&mut ours, &mut vault, wrapped).unwrap().expose(), key.expose());
    }
    let mut theirs = transit();
    theirs.of_cluster(ClusterId(2));
    let asked = vault.asked;
    let refused = unwrap(&mut theirs, &mut vault, &read).unwrap_err().to_string();
    assert!(refused.contains("another one's metadata"), "{refused}");
    assert_eq!(vault.asked, asked, "Vault is not asked");
    // And who changes what the record says, or leaves it out, has changed what is authenticated.
    let text = new.to_text();
    let at = text.find("\"cluster\"").unwrap();
    let end = at + text[at..].find(',').unwrap();
    let moved = format!("{}\"cluster\":\"{}\"{}", &text[..at], ClusterId(2), &text[end..]);
    let without = format!("{}{}", &text[..at], &text[end + 1..]);
    for changed in [moved, without] {
        let read = WrappedKey::parse(&changed).unwrap();
        let refused = unwrap(&mut theirs, &mut vault, &read).unwrap_err().to_string();
        assert!(refused.contains("message authentication failed"), "{refused}");
    }
}

#[test]
fn the_newest_version_is_asked_for_by_wrapping() {
    let mut vault = Vault::new();
    vault.probes = true;
    for version in 1..4 {
        let question = transit().probe();
        let response = vault.answer(question.request());
        let (found, binds) = question.answer(&response).unwrap();
        assert_eq!(found, version);
        let response = vault.answer(binds.request());
        binds.answer(&response).unwrap();
        vault.rotate("transit/amita");
    }
    vault.keys.clear();
    let question = transit().probe();
    let response = vault.answer(question.request());
    let refused = question.answer(&response).unwrap_err().to_string();
    assert!(refused.starts_with("Vault refuses (400"), "{refused}");
}

#[test]
fn a_vault_that_binds_nothing_is_found_out() {
    let mut vault = Vault::new();
    (vault.probes, vault.is_old) = (true, true);
    let question = transit().probe();
    let response = vault.answer(question.request());
    let (_, binds) = question.answer(&response).unwrap();
    let response = vault.answer(binds.request());
    let refused = binds.answer(&response).unwrap_err();
    assert!(
        matches!(refused, KeyError::Vault(TransitError::BindsNothing)) && refused.to_string().contains("1.13 or later"),
        "{refused}"
    );
    // What is no answer proves nothing.
    vault.is_old = false;
    let question = transit().probe();
    let response = vault.answer(question.request());
    let (_, binds) = question.answer(&response).unwrap();
    vault.sealed = true;
    let response = vault.answer(binds.request());
    let refused = binds.answer(&response).unwrap_err().to_string();
    assert!(refused.starts_with("Vault refuses (503"), "{refused}");
}

#[test]
fn who_carries_the_questions_shows_the_token() {
    let by = Transit::without_token("transit", "amita", None).unwrap();
    let question = by.probe();
    assert!(
        http(question.request())
            .headers
            .iter()
            .all(|(name, _)| *name != TOKEN_HEADER)
    );
    assert_eq!(check_token("hvs.x\r\n"), Ok("hvs.x"));
    assert_eq!(check_token("two words"), Err(BadTransit::Token));
}
