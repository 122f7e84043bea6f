//! No two modules of a crate use each other, not by way of others either: among the files and folders of each
//! folder the arrows run one way. A module and what it is made of may know each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// A module by its names from the crate's root.
type Name = Vec<String>;

/// What a module holds and uses. Tests are no part of it.
#[derive(Default)]
struct Module {
    /// The paths into its own crate that it uses.
    used: Vec<Name>,
    /// What it defines.
    defined: BTreeSet<String>,
    /// Under which names it brings in what other modules define; `None` for all that there is.
    brought: Vec<(Option<String>, Name)>,
}

/// Who uses whom among the modules of one folder.
type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = fs::read_dir(workspace.join("crates")).unwrap().map(|item| item.unwrap().path());
    let others = ["bindings/c", "bindings/python", "fuzz"].map(|name| workspace.join(name));
    let (mut read, mut circles) = (0, vec![]);
    for folder in crates.chain(others) {
        let modules = modules(&folder.join("src"));
        read += modules.len();
        for (parent, arrows) in arrows(&modules) {
            // Whatever an arrow leads to and comes back from is part of a circle.
            for (from, used) in &arrows {
                let back = used.iter().filter(|to| reached(&arrows, to).contains(from));
                circles.extend(back.map(|to| format!("{}: {parent:?} {from} → {to}", folder.display())));
            }
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
    assert!(read > 300, "{read} modules were found");
}

#[test]
fn a_module_that_is_reached_through_another_ones_names_is_found() {
    let module = |defined: &str, brought: &[(Option<&str>, &str)], used: &str| {
        let name = |path: &str| -> Name { path.split("::").map(String::from).collect() };
        let brought = brought.iter().map(|(as_name, path)| (as_name.map(String::from), name(path)));
        Module { used: vec![name(used)], defined: [defined.into()].into(), brought: brought.collect() }
    };
    let root = Module {
        brought: vec![(None, vec!["a".into()]), (Some("Renamed".into()), vec!["b".into(), "B".into()])],
        ..Module::default()
    };
    let modules: BTreeMap<Name, Module> = [
        (vec![], root),
        (vec!["a".into()], module("A", &[], "Renamed::new")),
        (vec!["b".into()], module("B", &[], "A")),
    ]
    .into();
    let arrows = &arrows(&modules)[&vec![]];
    assert!(reached(arrows, "a").contains("a"), "{arrows:?}");
}

/// The modules below a crate's `src`.
fn modules(src: &Path) -> BTreeMap<Name, Module> {
    let mut found: BTreeMap<Name, Module> = BTreeMap::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = module_of(src, &path) {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
                let module = found.entry(name.clone()).or_default();
                module.defined.extend(file.items.iter().filter_map(defined));
                Uses { name, module }.visit_file(&file);
            }
        }
    }
    found
}

/// The name that an item is known by in its module.
fn defined(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn module_of(src: &Path, file: &Path) -> Option<Name> {
    let name = file.strip_prefix(src).unwrap().to_str().unwrap().strip_suffix(".rs")?;
    let mut module: Name = name.split('/').map(String::from).collect();
    if module.iter().any(|name| name.ends_with("tests")) {
        return None;
    }
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

/// Collects what a file uses of its own crate.
struct Uses<'a> {
    name: Name,
    module: &'a mut Module,
}

impl Uses<'_> {
    /// From the crate's root, if it leads into this crate.
    fn absolute(&self, path: &[String]) -> Option<Name> {
        let up = path.iter().take_while(|name| *name == "super").count();
        match path.first().map(String::as_str) {
            Some("crate") => Some(path[1..].to_vec()),
            Some("self") => Some([&self.name[..], &path[1..]].concat()),
            Some("super") if up <= self.name.len() => {
                Some([&self.name[..self.name.len() - up], &path[up..]].concat())
            }
            // Of a module below this one, as in `pub use below::Item`.
            _ => None,
        }
    }

    fn note(&mut self, path: &[String]) {
        self.module.used.extend(self.absolute(path));
    }

    fn bring(&mut self, path: &[String], name: Option<&syn::Ident>) {
        let below = || [&self.name[..], path].concat();
        let from = self.absolute(path).unwrap_or_else(below);
        self.module.brought.push((name.map(syn::Ident::to_string), from));
        self.note(path);
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.bring(&with(&name.ident), Some(&name.ident)),
            syn::UseTree::Rename(name) => self.bring(&with(&name.ident), Some(&name.rename)),
            syn::UseTree::Glob(_) => self.bring(before, None),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(before, item)),
        }
    }

    /// What is handed to a macro is no syntax tree: any words in it may be a path.
    fn text(&mut self, tokens: &str) {
        let tokens = tokens.replace(" ::", "::").replace(":: ", "::");
        for word in tokens.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')) {
            self.note(&word.split("::").map(String::from).collect::<Vec<_>>());
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Uses<'_> {
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

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.text(&call.tokens.to_string());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.text(&list.tokens.to_string());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}

/// The module that a path leads to: its longest beginning that is one, or where that has the next name from.
fn module_at(modules: &BTreeMap<Name, Module>, path: &[String], hops: usize) -> Name {
    let end = (0..=path.len()).rev().find(|end| modules.contains_key(&path[..*end])).unwrap_or(0);
    let here = path[..end].to_vec();
    let (Some(module), Some(name)) = (modules.get(&here), path.get(end)) else { return here };
    if module.defined.contains(name) || hops == 0 {
        return here;
    }
    let has = |at: &[String]| modules.get(at).is_some_and(|module| module.defined.contains(name));
    for (as_name, from) in &module.brought {
        match as_name {
            Some(as_name) if as_name == name => return module_at(modules, from, hops - 1),
            None if has(from) => return from.clone(),
            _ => {}
        }
    }
    here
}

/// The arrows among the modules of each folder.
fn arrows(modules: &BTreeMap<Name, Module>) -> BTreeMap<Name, Arrows> {
    let mut all: BTreeMap<Name, Arrows> = BTreeMap::new();
    for (from, module) in modules {
        for path in &module.used {
            let to = module_at(modules, path, HOPS_MAX);
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
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

/// A name is brought in from where it was brought in, and so on; more often than anywhere.
const HOPS_MAX: usize = 4;
