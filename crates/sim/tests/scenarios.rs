//! The scenario files that come with the project.

use longhaul_sim::scenario::Scenario;
use std::path::Path;

#[test]
fn all_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
            found += 1;
        }
    }
    assert!(found > 0);
}
