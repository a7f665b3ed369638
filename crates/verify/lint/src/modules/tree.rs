//! The modules of a crate, and the names in each.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, ItemMod, ItemUse, Lit, Meta, Token, UseTree, Visibility};

/// A place in the tree: position in [`Crate::modules`].
pub(super) type Id = usize;

/// A module. Inline ones have names of their own to look up, and count as part of their file.
pub(super) struct Module {
    /// Path of the file's module below the crate's root; `crate` for the root.
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) parent: Option<Id>,
    pub(super) children: HashMap<String, Id>,
    /// Names of items that are defined here.
    pub(super) defined: HashSet<String>,
    pub(super) imports: Vec<Import>,
    pub(super) items: Vec<Item>,
}

/// One name that a `use` brings.
pub(super) struct Import {
    /// `None`: all names of the module (`*`).
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) is_reexport: bool,
    pub(super) line: usize,
}

/// A crate's modules; the first is the root.
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
}

/// The roots of a crate's library and binaries, with the name to report each under.
pub(super) fn targets(directory: &Path, name: &str) -> Vec<(String, PathBuf)> {
    let source = directory.join("src");
    let mut targets = vec![
        (name.to_owned(), source.join("lib.rs")),
        (format!("{name}/main"), source.join("main.rs")),
    ];
    let mut binaries: Vec<PathBuf> = fs::read_dir(source.join("bin"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    binaries.sort();
    for path in binaries {
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let root = if path.is_dir() {
            path.join("main.rs")
        } else {
            path
        };
        targets.push((format!("{name}/{stem}"), root));
    }
    targets.retain(|(_, root)| root.is_file());
    targets
}

impl Crate {
    /// Reads the root and every file it leads to. Paths are kept relative to `base`.
    pub(super) fn read(root: &Path, base: &Path) -> Result<Crate, String> {
        let mut read = Crate {
            modules: Vec::new(),
        };
        let directory = root.parent().unwrap_or(Path::new("."));
        read.add_file("crate", None, root, directory, base)?;
        Ok(read)
    }

    /// `directory` is where the files of the module's children are.
    fn add_file(
        &mut self,
        name: &str,
        parent: Option<Id>,
        file: &Path,
        directory: &Path,
        base: &Path,
    ) -> Result<Id, String> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed =
            syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let id = self.push(name, file.strip_prefix(base).unwrap_or(file), parent);
        self.add_items(id, parsed.items, directory, base)?;
        Ok(id)
    }

    fn push(&mut self, name: &str, file: &Path, parent: Option<Id>) -> Id {
        self.modules.push(Module {
            name: name.to_owned(),
            file: file.to_owned(),
            parent,
            children: HashMap::new(),
            defined: HashSet::new(),
            imports: Vec::new(),
            items: Vec::new(),
        });
        self.modules.len() - 1
    }

    fn add_items(
        &mut self,
        id: Id,
        items: Vec<Item>,
        directory: &Path,
        base: &Path,
    ) -> Result<(), String> {
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(module) => self.add_module(id, module, directory, base)?,
                Item::Use(import) => self.add_import(id, &import),
                item => {
                    self.modules[id].defined.extend(defined_name(&item));
                    self.modules[id].items.push(item);
                }
            }
        }
        Ok(())
    }

    fn add_module(
        &mut self,
        id: Id,
        module: ItemMod,
        directory: &Path,
        base: &Path,
    ) -> Result<(), String> {
        let name = module.ident.to_string();
        if let Some((_, items)) = module.content {
            let Module {
                name: whole, file, ..
            } = &self.modules[id];
            let child = self.push(&whole.clone(), &file.clone(), Some(id));
            self.modules[id].children.insert(name.clone(), child);
            return self.add_items(child, items, &directory.join(name), base);
        }
        let Some((file, below)) = file_of(
            &name,
            &module.attrs,
            &self.modules[id].file,
            directory,
            base,
        ) else {
            return Ok(());
        };
        let path = match self.modules[id].name.as_str() {
            "crate" => name.clone(),
            parent => format!("{parent}::{name}"),
        };
        let child = self.add_file(&path, Some(id), &file, &below, base)?;
        self.modules[id].children.insert(name, child);
        Ok(())
    }

    fn add_import(&mut self, id: Id, import: &ItemUse) {
        let is_reexport = !matches!(import.vis, Visibility::Inherited);
        let imports = &mut self.modules[id].imports;
        flatten(&import.tree, &mut Vec::new(), &mut |name, path, line| {
            imports.push(Import {
                name,
                path,
                is_reexport,
                line,
            });
        });
    }
}

/// The file of a declared module and the directory of its children; `None` for one of another crate (`#[path]`).
fn file_of(
    name: &str,
    attributes: &[Attribute],
    parent: &Path,
    directory: &Path,
    base: &Path,
) -> Option<(PathBuf, PathBuf)> {
    if let Some(path) = path_attribute(attributes) {
        let file = base.join(parent).parent()?.join(&path);
        let below = file.parent()?.to_owned();
        return (!path.starts_with("..") && file.is_file()).then_some((file, below));
    }
    let below = directory.join(name);
    [directory.join(format!("{name}.rs")), below.join("mod.rs")]
        .into_iter()
        .find(|file| file.is_file())
        .map(|file| (file, below))
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

/// Whether an item is compiled for tests only: `#[cfg(test)]`, `#[cfg(all(test, …))]`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args()
                    .is_ok_and(|meta| asks_for_test(&meta)))
    })
}

fn asks_for_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(asks_for_test)),
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Calls `found` with name, path and line of every import in a tree.
fn flatten(
    tree: &UseTree,
    path: &mut Vec<String>,
    found: &mut impl FnMut(Option<String>, Vec<String>, usize),
) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, path, found)),
        UseTree::Glob(glob) => found(None, path.clone(), glob.star_token.spans[0].start().line),
        UseTree::Name(name) => {
            let line = name.ident.span().start().line;
            let (name, path) = last(name.ident.to_string(), path);
            found(Some(name), path, line);
        }
        UseTree::Rename(rename) => {
            let line = rename.ident.span().start().line;
            let (_, path) = last(rename.ident.to_string(), path);
            found(Some(rename.rename.to_string()), path, line);
        }
    }
}

/// The whole path of a name in a tree, and the name it brings: `a::{self}` brings `a`.
fn last(name: String, path: &[String]) -> (String, Vec<String>) {
    let mut whole = path.to_vec();
    if name != "self" || path.is_empty() {
        whole.push(name);
    }
    (whole.last().cloned().unwrap_or_default(), whole)
}
