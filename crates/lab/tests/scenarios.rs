//! The scenarios that come with the project.

use longhaul_lab::Scenario;
use std::path::Path;

#[test]
fn all_are_valid_and_named_after_their_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(path.file_stem().unwrap().to_str(), Some(scenario.name.as_str()));
        count += 1;
    }
    assert!(count >= 6);
}
