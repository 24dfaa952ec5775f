use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use tempfile::TempDir;

const PAGE: &str = "<html><meta nonce=\"__AMITA_CSP_NONCE__\"><script src=\"./assets/a-1.js\" nonce=\"__AMITA_CSP_NONCE__\"></script></html>";

static FILES: &[File] = &[
    File {
        path: "/assets/a-1.js",
        media: "text/javascript; charset=utf-8",
        tag: "\"1\"",
        plain: b"export {};",
        gzip: Some(b"short"),
    },
    File {
        path: "/icon.svg",
        media: "image/svg+xml",
        tag: "\"2\"",
        plain: b"<svg/>",
        gzip: None,
    },
    File {
        path: "/index.html",
        media: "text/html; charset=utf-8",
        tag: "\"3\"",
        plain: PAGE.as_bytes(),
        gzip: None,
    },
];

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let lines = lines.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
    lines.collect()
}

fn get(path: &str, lines: &[(HeaderName, &str)]) -> Response<Bytes> {
    Site(FILES).answer(&Method::GET, path, &headers(lines)).expect("a file")
}

fn header(response: &Response<Bytes>, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn each_answer_of_the_entrance_has_a_nonce_of_its_own() {
    let mut seen = BTreeSet::new();
    for path in ["/", "/index.html", "/", "/"] {
        let said = get(path, &[]);
        assert_eq!(said.status(), StatusCode::OK);
        assert_eq!(header(&said, CACHE_CONTROL), "no-store");
        assert_eq!(header(&said, CONTENT_TYPE), "text/html; charset=utf-8");
        assert_eq!(header(&said, ETAG), "");
        let policy = header(&said, CONTENT_SECURITY_POLICY);
        let nonce = policy
            .split("'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next())
            .unwrap();
        assert_eq!(STANDARD.decode(nonce).unwrap().len(), NONCE_BYTES);
        let body = String::from_utf8(said.body().to_vec()).unwrap();
        assert_eq!(body, PAGE.replace(NONCE_PLACE, nonce));
        assert_eq!(header(&said, CONTENT_LENGTH), body.len().to_string());
        assert!(seen.insert(nonce.to_owned()), "{nonce} again");
    }
}

#[test]
fn the_policy_is_the_one_that_the_page_is_tested_with() {
    let said = get("/icon.svg", &[]);
    assert_eq!(
        header(&said, CONTENT_SECURITY_POLICY),
        "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    assert_eq!(header(&said, X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(header(&said, REFERRER_POLICY), "no-referrer");
}

#[test]
fn what_is_hashed_is_kept_for_ever_and_the_rest_is_asked_for_again() {
    let said = get("/assets/a-1.js", &[]);
    assert_eq!(header(&said, CACHE_CONTROL), FOR_EVER);
    assert_eq!(&said.body()[..], b"export {};");
    let said = get("/icon.svg", &[]);
    assert_eq!(
        (header(&said, CACHE_CONTROL), header(&said, ETAG)),
        ("no-cache", "\"2\"")
    );
    for seen in ["\"2\"", "W/\"2\"", "\"1\", \"2\"", "*"] {
        let said = get("/icon.svg", &[(IF_NONE_MATCH, seen)]);
        assert_eq!(
            (said.status(), said.body().len()),
            (StatusCode::NOT_MODIFIED, 0),
            "{seen}"
        );
        assert_eq!(header(&said, CONTENT_LENGTH), "");
    }
    assert_eq!(get("/icon.svg", &[(IF_NONE_MATCH, "\"22\"")]).status(), StatusCode::OK);
    // The entrance has a nonce that nobody has seen.
    assert_eq!(get("/", &[(IF_NONE_MATCH, "*")]).status(), StatusCode::OK);
}

#[test]
fn gzip_is_for_those_who_take_it() {
    for (accepts, taken) in [
        ("gzip", true),
        ("br, GZIP;q=0.5", true),
        ("x-gzip", true),
        ("*", true),
        ("", false),
        ("br", false),
        ("gzip;q=0", false),
        ("gzip;q=0.000, *", false),
        ("*;q=0", false),
        ("gzip;q=much", false),
        ("nogzip", false),
    ] {
        let said = get("/assets/a-1.js", &[(ACCEPT_ENCODING, accepts)]);
        let expected = if taken { ("gzip", "\"1-gzip\"") } else { ("", "\"1\"") };
        assert_eq!(
            (header(&said, CONTENT_ENCODING), header(&said, ETAG)),
            expected,
            "{accepts}"
        );
        assert_eq!(&said.body()[..], if taken { &b"short"[..] } else { b"export {};" });
        assert_eq!(header(&said, VARY), "accept-encoding");
    }
    // What has no shorter form has one only.
    let said = get("/icon.svg", &[(ACCEPT_ENCODING, "gzip")]);
    assert_eq!((header(&said, CONTENT_ENCODING), header(&said, VARY)), ("", ""));
}

#[test]
fn a_head_is_an_answer_without_its_body() {
    for path in ["/", "/icon.svg", "/assets/a-1.js"] {
        let asked = headers(&[(ACCEPT_ENCODING, "gzip")]);
        let said = Site(FILES).answer(&Method::HEAD, path, &asked).unwrap();
        let body = get(path, &[(ACCEPT_ENCODING, "gzip")]);
        assert!(said.body().is_empty());
        assert_eq!(header(&said, CONTENT_LENGTH), body.body().len().to_string());
    }
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        let said = Site(FILES).answer(&method, "/", &HeaderMap::new()).unwrap();
        assert_eq!(said.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(header(&said, ALLOW), "GET, HEAD");
    }
}

#[test]
fn a_path_is_one_of_the_files_or_nothing() {
    for path in [
        "",
        "//",
        "/.",
        "/..",
        "/../etc/passwd",
        "/assets",
        "/assets/",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "/assets//a-1.js",
        "/assets/a-1.js/",
        "/assets/a-1.js%00",
        "/ASSETS/a-1.js",
        "/index.html/",
        "/%69ndex.html",
        "index.html",
        "/icon.svg?x",
        "/assets\\a-1.js",
        "/files.rs",
        "/0.plain",
        "*",
    ] {
        let said = Site(FILES).answer(&Method::GET, path, &HeaderMap::new());
        assert!(said.is_none(), "{path:?}: {said:?}");
    }
}

#[test]
fn a_build_without_the_page_says_so_and_is_no_success() {
    for path in ["/", "/index.html"] {
        let said = Site(&[]).answer(&Method::GET, path, &HeaderMap::new()).unwrap();
        assert_eq!(said.status(), StatusCode::NOT_FOUND);
        let text = String::from_utf8(said.body().to_vec()).unwrap();
        assert!(text.contains("has no page") && text.contains("make"), "{text}");
    }
    assert!(Site(&[]).answer(&Method::GET, "/icon.svg", &HeaderMap::new()).is_none());
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("assets")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn packed(folder: &Path) -> Result<Vec<pack::Packed>, String> {
    pack::read(folder)
}

#[test]
fn what_is_packed_is_what_was_built() {
    let long = "let a = 1;\n".repeat(500);
    let folder = folder(&[("index.html", PAGE), ("assets/a-1.js", &long), ("icon.svg", "<svg/>")]);
    let files = packed(folder.path()).unwrap();
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/assets/a-1.js", "/icon.svg", "/index.html"]);
    let gzip = files[0].gzip.as_deref().expect("it pays");
    let mut text = String::new();
    flate2::read::GzDecoder::new(gzip).read_to_string(&mut text).unwrap();
    assert_eq!(text, long);
    assert_eq!(files[0].media, "text/javascript; charset=utf-8");
    assert!(files[1].gzip.is_none() && files[2].gzip.is_none());
    assert_eq!(packed(folder.path()).unwrap(), files, "the same files, the same bytes");
    fs::write(folder.path().join("icon.svg"), "<svg />").unwrap();
    assert_ne!(packed(folder.path()).unwrap()[1].tag, files[1].tag);
}

#[test]
fn half_a_page_is_none() {
    let whole = [("index.html", PAGE), ("assets/a-1.js", "1")];
    assert!(packed(folder(&whole).path()).is_ok());
    for (files, what) in [
        (&[("assets/a-1.js", "1")][..], "no index.html"),
        (&[("index.html", PAGE)], "names /assets/a-1.js"),
        (
            &[("index.html", "<html>./assets/a.js</html>"), ("assets/a-1.js", "1")],
            "no place for the nonce",
        ),
        (&[("index.html", "__AMITA_CSP_NONCE__")], "names no script"),
        (&[whole[0], whole[1], ("assets/a.exe", "")], "KINDS"),
        (&[whole[0], whole[1], ("assets/a b.js", "")], "look different"),
    ] {
        let said = packed(folder(files).path()).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    let with_link = folder(&whole);
    std::os::unix::fs::symlink("/etc/passwd", with_link.path().join("assets/b.js")).unwrap();
    assert!(
        packed(with_link.path())
            .unwrap_err()
            .contains("neither a file nor a folder")
    );
    assert!(packed(Path::new("/nowhere/at/all")).is_err());
}

/// What this build has is a page, where it has one.
#[test]
fn what_is_built_in_is_answered_with() {
    if !is_built() {
        assert_eq!(
            answer(&Method::GET, "/", &HeaderMap::new()).unwrap().status(),
            StatusCode::NOT_FOUND
        );
        return;
    }
    let said = answer(&Method::GET, "/", &HeaderMap::new()).unwrap();
    let text = String::from_utf8(said.body().to_vec()).unwrap();
    assert!(!text.contains(NONCE_PLACE), "{text}");
    for path in text.split('"').filter_map(|part| part.strip_prefix('.')) {
        let file = answer(&Method::GET, path, &HeaderMap::new());
        assert_eq!(file.expect("it is there").status(), StatusCode::OK, "{path}");
    }
}
