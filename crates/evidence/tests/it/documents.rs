//! Where the links in the documents lead, and which documents are on the site.

use longhaul_testing::documents;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn every_link_in_the_documents_leads_to_a_file_and_a_chapter_that_are_there() {
    let mut count = 0;
    for (path, text) in documents::all() {
        for link in links(&text) {
            let (file, chapter) = link.split_once('#').map_or((link.as_str(), None), |(f, c)| (f, Some(c)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{} leads to {link}", path.display());
            if let Some(chapter) = chapter {
                let there = chapters(&fs::read_to_string(&target).unwrap());
                assert!(there.contains(chapter), "{} leads to {link}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 150, "{count} links were found");
}

/// What `make site` makes itself is not here.
#[test]
fn the_site_has_every_document_that_users_read_and_no_other() {
    const MADE: [&str; 2] = ["reference/README.md", "docs/plots.md"];
    let summary = fs::read_to_string(workspace().join("site/SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary)
        .into_iter()
        .filter(|link| !MADE.contains(&link.as_str()))
        .map(PathBuf::from)
        .collect();
    let all = documents::all().into_iter().map(|(path, _)| path.canonicalize().unwrap());
    let mut documents: BTreeSet<PathBuf> =
        all.map(|path| path.strip_prefix(workspace()).unwrap().to_owned()).collect();
    documents.insert("CHANGELOG.md".into());
    assert_eq!(listed, documents);
}

/// Where the links of a text lead, but for those to other sites.
fn links(text: &str) -> Vec<String> {
    let sentences: String = text.split("\n```").step_by(2).collect();
    let links = sentences.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://")).map(String::from).collect()
}

/// What the chapters of a document are called in links.
fn chapters(text: &str) -> BTreeSet<String> {
    let sentences: String = text.split("\n```").step_by(2).collect();
    let heads = sentences.lines().filter(|line| line.starts_with('#'));
    let name = |head: &str| {
        let head = head.trim_start_matches('#').trim().to_lowercase();
        let kept = head.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    heads.map(name).collect()
}

#[test]
fn chapters_are_called_as_code_hosts_call_them() {
    let text = "# Any program's traffic\n\n### `--control pcp`\n\n```sh\n# no chapter\n```\n## A b\n";
    let expected = ["any-programs-traffic", "--control-pcp", "a-b"].map(String::from);
    assert_eq!(chapters(text), expected.into());
    assert_eq!(links("[a](b.md#c)\n```\n[x](y)\n```\n[d](https://e.example)"), ["b.md#c"]);
}
