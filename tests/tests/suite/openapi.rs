//! The OpenAPI document: that it is valid, that clients can be generated from it, and that the daemon conforms to it.

mod members;
mod walk;

use paceline_tests::schema::Document;
use paceline_tests::{Api, Daemon, Launch, Scratch, tool};
use std::path::{Path, PathBuf};

fn start(scratch: &Scratch) -> Daemon {
    Launch::new(scratch).api("127.0.0.1:0").start().unwrap()
}

/// The document as a file.
fn document(scratch: &Scratch, api: &mut Api) -> PathBuf {
    let answer = api.get("/v1/openapi.json");
    assert_eq!(answer.status, 200);
    let file = scratch.join("openapi.json");
    std::fs::write(&file, &answer.text).unwrap();
    file
}

/// A Python program that `./test` has installed.
fn python(program: &str) -> String {
    let target = std::env::current_exe().unwrap();
    let target = target.ancestors().nth(3).unwrap();
    let path = target.join("venv/bin").join(program);
    assert!(path.exists(), "{} is missing: ./test installs it", path.display());
    path.display().to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_document_is_valid() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let file = document(&scratch, &mut daemon.api());
    tool::run(&python("openapi-spec-validator"), &[text(&file)]).unwrap();
}

/// The operations of the document that the generated package lacks.
fn not_generated(document: &Path, package: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(document).unwrap();
    let document = Document(serde_json::from_str(&text).unwrap());
    let folders =
        std::fs::read_dir(package.join("api")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    let has = |id: &str| folders.iter().any(|folder| folder.join(format!("{id}.py")).is_file());
    let operations = document.operations();
    let missing = operations.iter().map(|one| one.id()).filter(|id| !has(id));
    missing.map(str::to_owned).collect()
}

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/openapi/client.py");

/// Over TCP with a token, like a program in another language.
#[test]
fn a_generated_client_asks_for_a_permit_and_releases_it() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let mut api = daemon.api();
    let file = document(&scratch, &mut api);
    let (package, options) = (scratch.join("generated"), scratch.join("options.yml"));
    std::fs::write(&options, "post_hooks: []\n").unwrap();
    let arguments = [
        "generate",
        "--meta",
        "none",
        "--path",
        text(&file),
        "--output-path",
        text(&package),
        "--config",
        text(&options),
    ];
    tool::run(&python("openapi-python-client"), &arguments).unwrap();
    // The generator does not support bodies that are TOML or plain text.
    assert_eq!(not_generated(&file, &package), ["apply_config", "import_rules"]);
    let url = format!("http://{}", daemon.api_address());
    let token = std::fs::read_to_string(daemon.data().join("token")).unwrap();
    let arguments = [CLIENT, text(scratch.path()), &url, token.trim()];
    let told = tool::run(&python("python"), &arguments).unwrap();
    assert_eq!(told, "made disk, granted in default, listed, released, gone\n");
    assert_eq!(api.get("/v1/permits").expect(200), serde_json::json!([]));
}
