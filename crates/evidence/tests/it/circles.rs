//! No two modules of a crate use each other, not by way of others either: among the files and folders of each
//! folder the arrows run one way. A module and what it is made of may know each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// A module by its names from the crate's root.
type Module = Vec<String>;

/// Who uses whom among the modules of one folder.
type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = fs::read_dir(workspace.join("crates")).unwrap().map(|item| item.unwrap().path());
    let bindings = ["c", "python"].map(|name| workspace.join("bindings").join(name));
    let mut read = 0;
    for folder in crates.chain(bindings) {
        let modules = modules(&folder.join("src"));
        read += modules.len();
        for (parent, arrows) in arrows(&modules) {
            let round = arrows.keys().filter(|name| reached(&arrows, name).contains(*name));
            let round: Vec<_> = round.collect();
            assert!(round.is_empty(), "{}, in {parent:?}: {round:?} of {arrows:#?}", folder.display());
        }
    }
    assert!(read > 300, "{read} modules were found");
}

/// The modules below a crate's `src`, each with the paths that it uses. Tests are no part of it.
fn modules(src: &Path) -> BTreeMap<Module, Vec<Module>> {
    let mut found: BTreeMap<Module, Vec<Module>> = BTreeMap::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(module) = module_of(src, &path) {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
                let mut uses = Uses { module: module.clone(), found: vec![] };
                uses.visit_file(&file);
                found.entry(module).or_default().extend(uses.found);
            }
        }
    }
    found
}

fn module_of(src: &Path, file: &Path) -> Option<Module> {
    let name = file.strip_prefix(src).unwrap().to_str().unwrap().strip_suffix(".rs")?;
    let mut module: Module = name.split('/').map(String::from).collect();
    if module.iter().any(|name| name.ends_with("tests")) {
        return None;
    }
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

/// Collects the paths into its own crate that a file uses.
struct Uses {
    module: Module,
    found: Vec<Module>,
}

impl Uses {
    fn note(&mut self, path: Vec<String>) {
        let up = path.iter().take_while(|name| *name == "super").count();
        let from = match path.first().map(String::as_str) {
            Some("crate") => return self.found.push(path[1..].to_vec()),
            Some("self") => return self.found.push([&self.module[..], &path[1..]].concat()),
            Some("super") if up <= self.module.len() => &self.module[..self.module.len() - up],
            _ => return,
        };
        self.found.push([from, &path[up..]].concat());
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.note(with(&name.ident)),
            syn::UseTree::Rename(name) => self.note(with(&name.ident)),
            syn::UseTree::Glob(_) => self.note(before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(before, item)),
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// The arrows among the modules of each folder.
fn arrows(modules: &BTreeMap<Module, Vec<Module>>) -> BTreeMap<Module, Arrows> {
    let mut all: BTreeMap<Module, Arrows> = BTreeMap::new();
    for (from, used) in modules {
        for path in used {
            // The longest beginning that is a module; the rest are names in it.
            let end = (0..=path.len()).rev().find(|end| modules.contains_key(&path[..*end])).unwrap_or(0);
            let to = &path[..end];
            let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(user), Some(of)) = (from.get(shared), to.get(shared)) {
                let arrows = all.entry(from[..shared].to_vec()).or_default();
                arrows.entry(user.clone()).or_default().insert(of.clone());
            }
        }
    }
    all
}

fn reached(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(name) = next.pop() {
        let used = arrows.get(&name).into_iter().flatten();
        next.extend(used.filter(|name| seen.insert((*name).clone())).cloned());
    }
    seen
}
