//! The chart, and the plain manifests that are made of it: they are what Helm takes and what Kubernetes knows, and their words are those of the program.

use crate::world::{PATIENCE, binary};
use amita_csi::parameters::{Class, Mutable};
use amita_harness::csi_sanity::go_tool;
use amita_harness::tool::{self, Output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Kinds that are others' (their descriptions are not in the validator), or newer than it: their fields are looked at here.
const NOT_KNOWN: [&str; 4] = [
    "ServiceMonitor",
    "VolumeSnapshotClass",
    "VolumeAttributesClass",
    "SnapshotMetadataService",
];
/// The newest release whose descriptions the validator has with it.
const KUBERNETES: &str = "1.30";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the work tree")
}

fn chart() -> String {
    root().join("deploy/helm/amita-csi").display().to_string()
}

fn value_sets() -> Vec<PathBuf> {
    let folder = root().join("deploy/helm/amita-csi/ci");
    let found = std::fs::read_dir(folder)
        .expect("value sets")
        .map(|entry| entry.expect("a file").path());
    let mut found: Vec<PathBuf> = found.collect();
    found.sort();
    found.push(root().join("deploy/kubernetes/values.yaml"));
    found
}

fn run(folder: &TempDir, name: &str, words: &[&str]) -> Output {
    let program = go_tool(name).expect("the tool").display().to_string();
    tool::run(folder.path(), &program, words, PATIENCE).expect("it runs")
}

fn render(folder: &TempDir, values: &Path, more: &[&str]) -> Output {
    let (chart, values) = (chart(), values.display().to_string());
    let words = [
        "template",
        "amita-csi",
        &chart,
        "--namespace",
        "amita-csi",
        "--kube-version",
        "1.31.0",
        "--values",
        &values,
    ];
    run(folder, "helm", &[&words[..], more].concat())
}

/// The documents of a rendering. Helm itself turns them into JSON, by a chart that has them as a file.
fn documents(folder: &TempDir, yaml: &str) -> Vec<Value> {
    let own = folder.path().join("as-json");
    std::fs::create_dir_all(own.join("templates")).expect("folders");
    std::fs::write(
        own.join("Chart.yaml"),
        "apiVersion: v2\nname: as-json\nversion: 0.1.0\n",
    )
    .expect("written");
    std::fs::write(own.join("all.yaml"), yaml).expect("written");
    let template = "{{- range splitList \"\\n---\\n\" (printf \"\\n%s\" (.Files.Get \"all.yaml\")) }}\n---\n{{ . | fromYaml | toJson }}\n{{- end }}\n";
    std::fs::write(own.join("templates/all.yaml"), template).expect("written");
    let said = run(folder, "helm", &["template", "x", &own.display().to_string()]);
    let said = said.success().expect("it is YAML").text;
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let documents = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let documents: Vec<Value> = documents.filter(|document| document["kind"].is_string()).collect();
    assert!(documents.len() > 8, "{said}");
    documents
}

fn kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

fn is_named(document: &Value, end: &str) -> bool {
    let name = document["metadata"]["name"].as_str().expect("a name");
    name.ends_with(end)
}

fn containers(workload: &Value) -> &Vec<Value> {
    workload["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("containers")
}

/// What Kubernetes would say of it.
fn validate(folder: &TempDir, documents: &[Value]) -> Output {
    let own = folder.path().join("validated");
    let _ = std::fs::remove_dir_all(&own);
    std::fs::create_dir(&own).expect("a folder");
    for (number, document) in documents.iter().enumerate() {
        std::fs::write(own.join(format!("{number}.json")), document.to_string()).expect("written");
    }
    run(
        folder,
        "kubectl-validate",
        &["--version", KUBERNETES, &own.display().to_string()],
    )
}

#[test]
#[ignore = "Helm and a validator are built for minutes: scripts/soak runs it"]
fn each_set_of_values_is_taken_and_is_what_kubernetes_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    for values in value_sets() {
        let name = values.display().to_string();
        run(&folder, "helm", &["lint", "--strict", &chart(), "--values", &name])
            .success()
            .expect("no lint");
        let yaml = render(&folder, &values, &[]).success().expect("it is rendered").text;
        let documents = documents(&folder, &yaml);
        let is_known = |document: &&Value| !NOT_KNOWN.iter().any(|kind| document["kind"] == *kind);
        let known: Vec<Value> = documents.iter().filter(is_known).cloned().collect();
        validate(&folder, &known).success().expect("it is known");
        let driver = &kind(&documents, "CSIDriver")[0]["metadata"]["name"];
        for class in kind(&documents, "StorageClass") {
            assert_eq!(&class["provisioner"], driver);
            let parameters = class["parameters"].clone();
            let parameters: BTreeMap<String, String> = serde_json::from_value(parameters).unwrap_or_default();
            Class::read(&parameters).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        for class in kind(&documents, "VolumeAttributesClass") {
            assert_eq!(&class["driverName"], driver);
            let parameters = serde_json::from_value(class["parameters"].clone()).expect("texts");
            Mutable::read(&parameters).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        for class in kind(&documents, "VolumeSnapshotClass") {
            assert_eq!(&class["driver"], driver);
            assert!(class["deletionPolicy"].is_string());
        }
        who_may_what(&documents);
        images_and_words(&documents);
        changed_blocks(&documents);
    }
}

/// The controller's pod meets the profile `restricted`; the node's is privileged, and has no right in Kubernetes; nobody reads secrets.
fn who_may_what(documents: &[Value]) {
    let controller = kind(documents, "Deployment")[0];
    let pod = &controller["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in containers(controller) {
        let own = &container["securityContext"];
        assert_eq!(own["allowPrivilegeEscalation"], false, "{container}");
        assert_eq!(own["capabilities"]["drop"], serde_json::json!(["ALL"]), "{container}");
        assert_eq!(own["readOnlyRootFilesystem"], true, "{container}");
        assert!(own["privileged"].is_null() && own["capabilities"]["add"].is_null());
    }
    let spread = pod["topologySpreadConstraints"].as_array().map(Vec::len);
    assert!(
        spread == Some(2) || pod["affinity"]["podAntiAffinity"].is_null(),
        "{pod}"
    );
    let volumes = pod["volumes"].as_array().expect("volumes");
    assert!(volumes.iter().all(|volume| volume["hostPath"].is_null()), "{volumes:?}");
    let node = kind(documents, "DaemonSet")[0];
    let pod = &node["spec"]["template"]["spec"];
    // Paths are connected in the network of who asks for them.
    assert_eq!(
        (&pod["hostNetwork"], &pod["automountServiceAccountToken"]),
        (&true.into(), &false.into())
    );
    let privileged = containers(node)
        .iter()
        .filter(|own| own["securityContext"]["privileged"] == true);
    assert_eq!(privileged.map(|own| &own["name"]).collect::<Vec<_>>(), ["amita"]);
    // Large file systems are checked in it.
    let driver = containers(node).iter().find(|own| own["name"] == "amita").expect("it");
    assert!(driver["resources"]["limits"]["memory"].is_null(), "{driver}");
    // Whether pods may have inline volumes is said later on, too, and what stands in this object cannot be changed.
    let object = &kind(documents, "CSIDriver")[0]["spec"];
    let modes = serde_json::json!(["Persistent", "Ephemeral"]);
    assert_eq!(
        (&object["volumeLifecycleModes"], &object["podInfoOnMount"]),
        (&modes, &true.into())
    );
    // It has a token of the cluster's only where they may.
    let is_inline = driver["args"].to_string().contains("\"--inline\"");
    for (has, what) in [(&driver["env"], "AMITA_TOKEN"), (&driver["args"], "--by-api=")] {
        assert_eq!(has.to_string().contains(what), is_inline, "{what}: {driver}");
    }
    // On the machine's network nothing listens for others.
    assert!(containers(node).iter().all(|own| own["ports"].is_null()));
    assert_eq!(driver["livenessProbe"]["httpGet"]["host"], "127.0.0.1");
    let liveness = containers(node).iter().find(|own| own["name"] == "liveness");
    let words = liveness.expect("it")["args"].to_string();
    assert!(
        words.contains("--http-endpoint=127.0.0.1:") && !words.contains("health-port"),
        "{words}"
    );
    let account = &pod["serviceAccountName"];
    let bindings = documents
        .iter()
        .filter(|document| document["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding")));
    for binding in bindings {
        let subjects = binding["subjects"].as_array().expect("subjects");
        assert!(subjects.iter().all(|subject| &subject["name"] != account), "{binding}");
    }
    for role in kind(documents, "ClusterRole")
        .into_iter()
        .chain(kind(documents, "Role"))
    {
        for rule in role["rules"].as_array().expect("rules") {
            let text = rule.to_string();
            assert!(!text.contains("secrets") && !text.contains('*'), "{text}");
            // Whose pods there are in all of the cluster is nobody's business here.
            assert!(role["kind"] == "Role" || !text.contains("pods"), "{text}");
        }
    }
    let monitors = kind(documents, "ServiceMonitor");
    for monitor in &monitors {
        let service = kind(documents, "Service")
            .into_iter()
            .find(|own| is_named(own, "-metrics"))
            .expect("it");
        let ports = |of: &Value, key: &str| -> Vec<String> {
            let all = of.as_array().expect("ports").iter();
            all.map(|port| port[key].as_str().expect("a name").to_owned()).collect()
        };
        let served = ports(&service["spec"]["ports"], "name");
        assert_eq!(ports(&monitor["spec"]["endpoints"], "port"), served);
        for port in served {
            let named = containers(controller)
                .iter()
                .any(|own| own["ports"].to_string().contains(&format!("\"{port}\"")));
            assert!(named, "{port}");
        }
    }
}

/// Images are named by their digests where it is not said otherwise, and what `amita` is started with it knows.
fn images_and_words(documents: &[Value]) {
    for (workload, part) in [("Deployment", "controller"), ("DaemonSet", "node")] {
        let workload = kind(documents, workload)[0];
        for own in containers(workload) {
            let image = own["image"].as_str().expect("an image");
            assert!(
                image.contains("@sha256:") || image.starts_with("registry.example/amita:"),
                "{image}"
            );
        }
        let own = containers(workload)
            .iter()
            .find(|own| own["name"] == "amita")
            .expect("the driver");
        let words: Vec<&str> = own["args"]
            .as_array()
            .expect("words")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(
            (own["command"][0].as_str(), &words[..2]),
            (Some("amita"), &["csi", part][..])
        );
        let folder = tempfile::tempdir().expect("a folder");
        let help = tool::run(folder.path(), binary(), ["csi", part, "--help"], PATIENCE).expect("it runs");
        let help = help.success().expect("a part of the driver").text;
        for word in &words[2..] {
            match word.split_once('=') {
                Some((flag, value)) => assert!(help.contains(&format!("{flag} <")) && !value.is_empty(), "{word}"),
                None => assert!(help.lines().any(|line| line.trim() == *word), "{word}"),
            }
        }
        // The sidecars are told the same socket, and find it in the same place.
        for own in containers(workload) {
            assert!(own["args"].to_string().contains("/csi/csi.sock"), "{own}");
            assert!(
                own["volumeMounts"].to_string().contains(r#""mountPath":"/csi""#),
                "{own}"
            );
        }
    }
    let node = kind(documents, "DaemonSet")[0];
    let registrar = containers(node)
        .iter()
        .find(|own| own["name"] == "registrar")
        .expect("it");
    let driver = kind(documents, "CSIDriver")[0]["metadata"]["name"]
        .as_str()
        .expect("a name");
    let registered = registrar["args"].to_string();
    let plugin = &node["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"];
    let plugin = plugin.as_str().expect("a folder");
    assert!(plugin.ends_with(&format!("/plugins/{driver}")), "{plugin}");
    assert!(
        registered.contains(&format!("--kubelet-registration-path={plugin}/csi.sock")),
        "{registered}"
    );
}

/// Who looks for the driver's changed blocks finds the sidecar by what the custom resource says, which may ask who that is, and no more.
fn changed_blocks(documents: &[Value]) {
    let services = kind(documents, "SnapshotMetadataService");
    let controller = kind(documents, "Deployment")[0];
    let sidecar = containers(controller)
        .iter()
        .find(|own| own["name"] == "snapshot-metadata");
    let role = kind(documents, "ClusterRole")[0];
    let rules: Vec<&Value> = role["rules"].as_array().expect("rules").iter().collect();
    let rights = |group: &str| -> Vec<&Value> {
        let own = rules
            .iter()
            .filter(|rule| rule["apiGroups"] == serde_json::json!([group]));
        own.copied().collect()
    };
    let asked = ["authentication.k8s.io", "authorization.k8s.io", "cbt.storage.k8s.io"];
    let Some(found) = services.first() else {
        assert!(
            sidecar.is_none() && asked.iter().all(|group| rights(group).is_empty()),
            "{role}"
        );
        return;
    };
    let driver = &kind(documents, "CSIDriver")[0]["metadata"]["name"];
    let spec = &found["spec"];
    assert_eq!((&found["metadata"]["name"], &spec["audience"]), (driver, driver));
    // "-----BEGIN CERTIFICATE-----": what clients check the sidecar by, and never a key.
    let certificate = spec["caCert"].as_str().expect("an authority");
    assert!(
        certificate.starts_with("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"),
        "{certificate}"
    );
    let service = kind(documents, "Service")
        .into_iter()
        .find(|own| is_named(own, "-snapshot-metadata"))
        .expect("it");
    let own = &service["metadata"];
    let port = &service["spec"]["ports"][0];
    let address = format!("{}.{}.svc:{}", own["name"], own["namespace"], port["port"]).replace('"', "");
    assert_eq!(spec["address"], address);
    let labels = &controller["spec"]["template"]["metadata"]["labels"];
    for (label, value) in service["spec"]["selector"].as_object().expect("a selector") {
        assert_eq!(&labels[label], value, "{label}");
    }
    let sidecar = sidecar.expect("a sidecar");
    let named = sidecar["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .find(|own| own["name"] == port["targetPort"]);
    let listens = format!("--port={}", named.expect("the service's port")["containerPort"]);
    assert!(sidecar["args"].to_string().contains(&listens), "{sidecar}");
    // The key of its certificate is seen by it alone.
    let volumes = controller["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .expect("volumes");
    let tls = volumes
        .iter()
        .find(|volume| volume["secret"]["items"].to_string().contains("tls.key"));
    let tls = tls.expect("the certificate's secret");
    // Whoever forgets it has no changed blocks, and volumes all the same.
    assert_eq!(tls["secret"]["optional"], true, "{tls}");
    let tls = tls["name"].to_string();
    for container in containers(controller) {
        let sees = container["volumeMounts"].to_string().contains(&tls);
        assert_eq!(sees, container["name"] == "snapshot-metadata", "{container}");
    }
    for (group, verb) in asked.iter().zip(["create", "create", "get"]) {
        let rules = rights(group);
        assert!(
            rules.len() == 1 && rules[0]["verbs"] == serde_json::json!([verb]),
            "{group}: {rules:?}"
        );
    }
    assert_eq!(rights(asked[2])[0]["resourceNames"], serde_json::json!([driver]));
}

/// What is misspelt, or cannot be, is told before anything is made.
#[test]
#[ignore = "Helm and a validator are built for minutes: scripts/soak runs it"]
fn values_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let least = root().join("deploy/helm/amita-csi/ci/least.yaml");
    for (set, said) in [
        ("controler.replicas=2", "controler"),
        ("controller.replicas=0", "replicas"),
        ("storageClasses[0].name=a,storageClasses[0].parameters.pol=fast", "pol"),
        ("image.digest=", "has no digest"),
        ("image.digest=sha256:12", "digest"),
        ("image.repository=", "repository"),
        ("api.addresses=null", "addresses"),
        ("api.addresses[0]=n1", "addresses"),
        ("driver.name=Amita", "name"),
        ("node.kubeletDir=kubelet", "kubeletDir"),
        ("sidecars.snapshoter.enabled=true", "snapshoter"),
        (
            "sidecars.snapshotMetadata.enabled=true,sidecars.snapshotMetadata.authority=-----BEGIN CERTIFICATE----------END CERTIFICATE-----",
            "csi-snapshot-metadata has no digest",
        ),
        (
            "requireDigests=false,sidecars.snapshotMetadata.enabled=true",
            "authority has no certificate",
        ),
        (
            "requireDigests=false,sidecars.snapshotMetadata.enabled=true,sidecars.snapshotter.enabled=false",
            "needs sidecars.snapshotter",
        ),
        (
            "sidecars.snapshotMetadata.authority=-----BEGIN PRIVATE KEY-----",
            "authority",
        ),
        ("sidecars.snapshotMetadata.tlsSecret.name=", "tlsSecret"),
        ("volumeAttributesClasses[0].name=a", "parameters"),
        ("inlineVolumes.maxSize=much", "maxSize"),
        ("inlineVolumes.parameters.pol=fast", "pol"),
        ("topology.enabled=true", "say where machines stand"),
        (
            "topology.enabled=true,topology.zoneOfNode=true,topology.site=a",
            "say where machines stand",
        ),
        ("topology.site=a b", "site"),
        (
            "storageClasses[0].name=a,storageClasses[0].parameters.accessibleFrom=zone",
            "accessibleFrom",
        ),
    ] {
        let refused = render(&folder, &least, &["--set", set]);
        assert!(
            !refused.status.success() && refused.text.contains(said),
            "{set}: {}",
            refused.text
        );
    }
    // And the validator is no stub: a field that nobody knows is an error to it.
    let yaml = render(&folder, &least, &[]).success().expect("rendered").text;
    let mut documents = documents(&folder, &yaml);
    let driver = documents
        .iter_mut()
        .find(|document| document["kind"] == "CSIDriver")
        .expect("it");
    driver["spec"]["attachRequird"] = true.into();
    let driver = [driver.clone()];
    let refused = validate(&folder, &driver);
    assert!(
        !refused.status.success() && refused.text.contains("attachRequird"),
        "{}",
        refused.text
    );
}

#[test]
fn the_schema_names_what_the_driver_reads() {
    let schema = std::fs::read_to_string(root().join("deploy/helm/amita-csi/values.schema.json")).expect("a schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let of = |list: &str| {
        let known = &schema["properties"][list]["items"]["properties"]["parameters"]["properties"];
        known
            .as_object()
            .expect("parameters")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let is_unknown = |why: Result<(), String>| why.is_err_and(|why| why.contains("is no "));
    let (fixed, mutable) = (of("storageClasses"), of("volumeAttributesClasses"));
    assert!(fixed.len() > 10 && mutable.len() > 6, "{fixed:?} {mutable:?}");
    for key in fixed {
        let one = BTreeMap::from([(key.clone(), "4".to_owned())]);
        assert!(!is_unknown(Class::read(&one).map(drop)), "{key}");
    }
    for key in mutable {
        let one = BTreeMap::from([(key.clone(), "4".to_owned())]);
        assert!(!is_unknown(Mutable::read(&one).map(drop)), "{key}");
    }
    let nobodys = BTreeMap::from([("pol".to_owned(), "4".to_owned())]);
    assert!(is_unknown(Class::read(&nobodys).map(drop)) && is_unknown(Mutable::read(&nobodys).map(drop)));
}

/// `deploy/kubernetes/amita-csi.yaml` is the chart with the values beside it.
#[test]
#[ignore = "Helm and a validator are built for minutes: scripts/soak runs it"]
fn the_plain_manifests_are_the_charts() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = render(&folder, &root().join("deploy/kubernetes/values.yaml"), &[]);
    let made = made.success().expect("rendered").text;
    let there = std::fs::read_to_string(root().join("deploy/kubernetes/amita-csi.yaml")).expect("manifests");
    assert!(
        made == there,
        "deploy/kubernetes/amita-csi.yaml is old: make it anew, by the line in values.yaml there"
    );
}
