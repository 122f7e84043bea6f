//! Where the links in the documents lead, and which documents are on the site.

use crate::common::run;
use longhaul_testing::documents;
use std::collections::BTreeSet;
use std::ffi::OsStr;
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

#[test]
fn the_results_page_says_what_the_lines_of_the_full_run_say() {
    let made = tempfile::tempdir().unwrap();
    let (page, table) = (made.path().join("page.html"), made.path().join("results.md"));
    let results = workspace().join("docs/results");
    let args = ["lab", "report", "--results"].map(OsStr::new);
    let files =
        [results.as_os_str(), "--out".as_ref(), page.as_os_str(), "--markdown".as_ref(), table.as_os_str()];
    run(args.into_iter().chain(files)).expect_code(0);
    let (made, kept) = (fs::read_to_string(table).unwrap(), workspace().join("docs/results.md"));
    let kept = fs::read_to_string(kept).unwrap();
    for (line, (made, kept)) in made.lines().zip(kept.lines()).enumerate() {
        assert_eq!(
            kept,
            made,
            "line {}; make it anew: longhaul lab report --results docs/results --markdown docs/results.md",
            line + 1
        );
    }
    assert_eq!(kept.lines().count(), made.lines().count());
}

#[test]
fn the_readme_counts_the_papers_claims_as_the_results_page_does() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    let page = read("docs/results.md");
    let row = page.lines().find_map(|line| line.strip_prefix("| all | ")).unwrap();
    let counts: Vec<usize> =
        row.trim_end_matches(" |").split(" | ").map(|cell| cell.parse().unwrap()).collect();
    let [claims, reproduced, somewhere, _, _, measured] = counts[..] else { panic!("{counts:?}") };
    let words = read("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("Of {claims} claims in their texts {} hold here", reproduced + somewhere),
        format!("{somewhere} of them only under some of the conditions"),
        format!("{measured} hold over real sockets"),
    ] {
        assert!(words.contains(&said), "{said}");
    }
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
