//! Lines that are a tenant's.

use super::*;

fn of(tenant: &str, key: KeyName) -> Binding {
    Binding {
        tenant: Some(tenant.to_owned()),
        key,
    }
}

#[test]
fn a_tenants_line_wraps_for_the_tenant_alone_wherever_it_stands() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let [clusters, acme, zeta] = ["one", "two", "three"].map(|name| folder.key(name));
    let file = KeyFile::at(&path);
    let labelled = |tenant: &str, text: &str| {
        let line = text.lines().find(|line| line.starts_with("amita-seal-1:")).unwrap();
        format!("tenant={tenant} {line}\n")
    };
    let [acmes, zetas] = [labelled("acme", &acme), labelled("zeta", &zeta)];
    write(&path, &format!("{acmes}{clusters}{zetas}"));
    let to = file.to(None).unwrap();
    let [first, second] = ["acme", "zeta"].map(|tenant| file.to_of(tenant, None, None).unwrap());
    assert!(to != first && first != second && to != second);
    assert_eq!(file.is_of(&to), Ok(true), "the first one that is no tenant's");
    let own = file.make(CLUSTER, Some(&to), &binding(name(1, 1))).unwrap();
    let his = file.make(CLUSTER, Some(&first), &of("acme", name(2, 1))).unwrap();
    assert_eq!((own.wrapping_key(), his.wrapping_key()), (to.clone(), first.clone()));
    file.is_of_tenant("acme", &first).unwrap();
    file.has(Some("acme"), &first).unwrap();
    assert_eq!(
        ["acme", "zeta", "poor"].map(|tenant| file.has_line_of(tenant)),
        [Ok(true), Ok(true), Ok(false)]
    );
    assert_eq!(file.tenants(), Ok(["acme", "zeta"].map(str::to_owned).into()));
    for (refused, why) in [
        (
            file.make(CLUSTER, Some(&first), &binding(name(3, 1))).map(drop),
            "tenant acme's, and is to wrap for the cluster's",
        ),
        (
            file.make(CLUSTER, Some(&first), &of("zeta", name(3, 1))).map(drop),
            "is to wrap for tenant zeta's",
        ),
        (
            file.make(CLUSTER, Some(&to), &of("acme", name(3, 1))).map(drop),
            "the cluster's, and is to wrap for tenant acme's",
        ),
        (file.is_of(&first).map(drop), "tenant acme's"),
        (file.is_of_tenant("zeta", &first), "tenant acme's"),
        (
            file.to_of("poor", None, None).map(drop),
            "no line of the file of volume keys is the tenant's",
        ),
    ] {
        let said = refused.unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    // It is given to the other tenant, and opens as the same by that line alone.
    let given = file.rewrap_as(CLUSTER, &second, &of("zeta", name(2, 1)), &his).unwrap();
    assert_eq!((given.check_value(), given.wrapping_key()), (his.check_value(), second));
    write(&path, &format!("{clusters}{zetas}"));
    assert!(file.unwrap(given.binding(), &given).is_ok() && file.unwrap(own.binding(), &own).is_ok());
    assert!(file.unwrap(his.binding(), &his).is_err());
    let said = file.is_of_tenant("acme", &first).unwrap_err();
    assert!(said.contains("no line") && said.contains("tenant acme"), "{said}");
    // All lines are tenants': there is none for the cluster.
    write(&path, &zetas);
    assert!(file.to(None).unwrap_err().contains("all lines"));
}

#[test]
fn of_several_lines_of_a_tenant_one_is_named() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let [one, two] = ["one", "two"].map(|name| {
        let key = folder.key(name);
        key.lines()
            .find(|line| line.starts_with("amita-seal-1:"))
            .unwrap()
            .to_owned()
    });
    let file = KeyFile::at(&path);
    write(&path, &format!("tenant=acme {one}\n"));
    let first = file.to_of("acme", None, None).unwrap();
    write(
        &path,
        &format!("tenant=acme {two}\ntenant=acme {one}\ntenant=acme passphrase:correct horse battery staple\n"),
    );
    let said = file.to_of("acme", Some(&first), None).unwrap_err();
    assert!(said.contains("--key") && said.contains(&first.to_string()), "{said}");
    for wanted in [first.identifier(), first.to_string()] {
        assert_eq!(file.to_of("acme", None, Some(&wanted)), Ok(first.clone()));
    }
    let said = file.to_of("acme", None, Some("5a5a")).unwrap_err();
    assert!(said.contains("is 5a5a; there are: sealed-file"), "{said}");
    // A passphrase that wraps for the tenant already is the same by the salt that it has.
    write(&path, "tenant=acme passphrase:correct horse battery staple\n");
    let by = file.to_of("acme", None, None).unwrap();
    file.forget();
    assert_eq!(KeyFile::at(&path).to_of("acme", Some(&by), None), Ok(by));
}

#[test]
fn a_line_is_one_tenants_and_there_once() {
    let folder = Folder::new();
    let path = folder.path("volume.keys");
    let key = folder.key("one");
    let line = key.lines().find(|line| line.starts_with("amita-seal-1:")).unwrap();
    let vault = "vault:http://127.0.0.1:8200 key=amita token-file=/t";
    for (text, why) in [
        (format!("tenant={line}\n"), "stands a blank"),
        (format!("tenant= {line}\n"), "it is empty"),
        (format!("tenant=a/b {line}\n"), "no name for a tenant"),
        (
            "tenant=passphrase:correct horse battery\n".to_owned(),
            "no name for a tenant",
        ),
        ("tenant=acme something\n".to_owned(), "line 1"),
        (
            format!("{line}\ntenant=acme {line}\n"),
            "line 2: it is the same as a line before",
        ),
        (
            format!("tenant=acme {line}\ntenant=zeta {line}\n"),
            "line 2: it is the same as a line before",
        ),
        (
            format!("{vault}\ntenant=acme {vault}\n"),
            "line 2: a line before names the key amita",
        ),
    ] {
        write(&path, &text);
        let said = refused(&path);
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("correct"), "{said}");
    }
    // Four of a kind for each tenant, and 64 in all.
    let lines = |count: usize| {
        let line = |at: usize| {
            format!(
                "tenant=t{} vault:http://127.0.0.1:8200 key=k{at} token-file=/t\n",
                at / 4
            )
        };
        (0..count).map(line).collect::<String>()
    };
    write(&path, &lines(65));
    assert!(
        refused(&path).contains("line 65: more than 64 lines"),
        "{}",
        refused(&path)
    );
    write(&path, &lines(64));
    let said = KeyFile::at(&path).check().err().map(|why| why.to_string());
    assert!(said.as_ref().is_none_or(|said| !said.contains("more than")), "{said:?}");
}
