//! Pages in a real browser. Without Chromium that is skipped, and says so.

use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the script found.
#[derive(Debug, Deserialize)]
struct Findings {
    width: f64,
    scroll_width: f64,
    plots: usize,
    texts: usize,
    problems: Vec<String>,
}

/// The page, `width` pixels wide, has no fault, and so many plots.
pub fn check(browser: &str, page: &str, width: u32, plots: usize) {
    let folder = tempfile::tempdir().unwrap();
    let findings = look(browser, page, width, folder.path());
    assert_eq!(findings.width, f64::from(width), "{findings:?}");
    assert!(findings.problems.is_empty() && findings.scroll_width <= findings.width, "{findings:#?}");
    assert_eq!(findings.plots, plots, "{findings:?}");
    assert!(findings.texts > 5 * plots, "{findings:?}");
}

/// The page in a frame: windows have a least width of their own, frames have none.
fn look(browser: &str, page: &str, width: u32, folder: &Path) -> Findings {
    let inner = page.replace("</body>", &format!("<script>{SCRIPT}</script></body>"));
    let framed = inner.replace('&', "&amp;").replace('"', "&quot;");
    let outer = format!(
        "<!DOCTYPE html><meta charset=utf-8><body style=margin:0><pre id=findings></pre>\
         <iframe style=\"border:0;width:{width}px;height:900px\" srcdoc=\"{framed}\"></iframe>"
    );
    let file = folder.join("page.html");
    fs::write(&file, outer).unwrap();
    let dom = headless(browser, folder, &["--dump-dom", &format!("file://{}", file.display())]);
    let (_, found) = dom.split_once(BEGIN).unwrap_or_else(|| panic!("the script did not run: {dom}"));
    let (json, _) = found.split_once(END).expect("what was begun ends");
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

/// What the browser prints.
fn headless(browser: &str, folder: &Path, args: &[&str]) -> String {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1600,1000",
            &profile,
        ])
        .args(args)
        .stderr(Stdio::null())
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What starts one, if there is one.
pub fn browser() -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&folders).flat_map(|folder| BROWSERS.map(|name| folder.join(name)));
    let found: Option<PathBuf> = files.into_iter().find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: no Chromium here (apt-get install chromium)");
    }
    found.map(|file| file.display().to_string())
}

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const BEGIN: &str = "BEGIN-OF-FINDINGS";
const END: &str = "END-OF-FINDINGS";
/// Measures what is to be seen, and writes it into the page around.
const SCRIPT: &str = r##"
const problems = [];
const apart = (what, boxes) => boxes.forEach(([text, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
  const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (wide > 1 && high > 1) problems.push(`${what}: "${text}" and "${other}" overlap by ${wide} and ${high}`);
}));
const plots = [...document.querySelectorAll("svg.plot")];
let texts = 0;
plots.forEach(plot => {
  const name = plot.querySelector("title").textContent;
  const box = plot.getBoundingClientRect();
  if (box.width < 200 || box.height < 60) problems.push(`${name} is ${box.width} by ${box.height}`);
  const view = plot.viewBox.baseVal;
  const all = [...plot.querySelectorAll("text")];
  texts += all.length;
  all.forEach(text => {
    const { x, y, width, height } = text.getBBox();
    if (x < 0 || y < 0 || x + width > view.width || y + height > view.height)
      problems.push(`${name}: "${text.textContent.trim()}" at ${x}, ${y} is out of the picture, ${width} by ${height}`);
  });
  apart(name, all.map(text => [text.textContent.trim(), text.getBoundingClientRect()]));
  const size = parseFloat(getComputedStyle(all[0]).fontSize) * box.width / view.width;
  if (size < 8) problems.push(`${name}: letters are ${size} pixels high`);
});
document.querySelectorAll(".legend").forEach(legend =>
  apart("legend", [...legend.children].map(one => [one.textContent, one.getBoundingClientRect()])));
const wide = document.documentElement.clientWidth;
document.querySelectorAll("body *").forEach(one => {
  const box = one.getBoundingClientRect();
  if (!one.closest(".scroll, svg, script") && box.right > wide + 0.5)
    problems.push(`<${one.tagName} class=${one.className}> ends at ${box.right}`);
});
const found = { width: innerWidth, scroll_width: document.documentElement.scrollWidth, plots: plots.length, texts, problems };
parent.document.getElementById("findings").textContent =
  "BEGIN-OF-" + "FINDINGS" + JSON.stringify(found) + "END-OF-" + "FINDINGS";
"##;
