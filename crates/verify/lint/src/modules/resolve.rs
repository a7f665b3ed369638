//! From the paths in a module to the modules that define what they name.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ItemUse, Macro, Path};

use super::graph::Graph;
use super::tree::{Crate, Id, Import, Module, is_for_tests};

/// Re-exports are followed no deeper; a ring of globs ends here.
const MAX_DEPTH: u32 = 8;

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// Something that this module defines.
    ItemOf(Id),
    /// The module itself.
    Module(Id),
}

/// Adds an edge for every module that another one depends on.
pub(super) fn dependencies(all: &Crate, graph: &mut Graph) {
    for (id, module) in all.modules.iter().enumerate() {
        for import in module
            .imports
            .iter()
            .filter(|import| !import.is_reexport && import.name.is_some())
        {
            add(all, graph, id, &import.path, import.line);
        }
        let mut visitor = Paths { all, graph, id };
        module
            .items
            .iter()
            .for_each(|item| visitor.visit_item(item));
    }
}

fn add(all: &Crate, graph: &mut Graph, from: Id, path: &[String], line: usize) {
    // A module's own name brings nothing by itself; the paths that begin with it do.
    let Some(Target::ItemOf(to)) = resolve(all, from, path, 0) else {
        return;
    };
    let (Module { name, file, .. }, to) = (&all.modules[from], &all.modules[to].name);
    if name != to {
        graph.add(
            name,
            to,
            format!("{}:{line}: {}", file.display(), path.join("::")),
        );
    }
}

/// What a path in a module names; `None` when it is not of this crate, or unknown.
fn resolve(all: &Crate, from: Id, path: &[String], depth: u32) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" | "$crate" => walk(all, 0, rest, depth),
        "self" => walk(all, from, rest, depth),
        "super" => walk(all, all.modules[from].parent?, rest, depth),
        // The path of an import begins with no name of a glob: most are crates, and all globs would be searched for them.
        name if depth > 0 => step(all, lookup_named(all, from, name, depth)?, rest, depth),
        name => step(all, lookup(all, from, name, depth)?, rest, depth),
    }
}

fn step(all: &Crate, target: Target, rest: &[String], depth: u32) -> Option<Target> {
    match target {
        Target::Module(module) => walk(all, module, rest, depth),
        item => Some(item),
    }
}

/// Follows a path whose beginning led to a module.
fn walk(all: &Crate, module: Id, path: &[String], depth: u32) -> Option<Target> {
    let Some((first, rest)) = path.split_first() else {
        return Some(Target::Module(module));
    };
    if first == "super" {
        return walk(all, all.modules[module].parent?, rest, depth);
    }
    match lookup(all, module, first, depth) {
        Some(target) => step(all, target, rest, depth),
        // Made by a macro, perhaps: then it is where it was looked for.
        None => Some(Target::ItemOf(module)),
    }
}

/// What a name means in a module: its own, imported, or of a glob.
fn lookup(all: &Crate, id: Id, name: &str, depth: u32) -> Option<Target> {
    if depth > MAX_DEPTH {
        return None;
    }
    lookup_named(all, id, name, depth).or_else(|| {
        let imports = all.modules[id].imports.iter();
        let mut globs = imports.filter(|import| import.name.is_none());
        globs.find_map(|import| match resolve(all, id, &import.path, depth + 1)? {
            Target::Module(module) if module != id => lookup(all, module, name, depth + 1),
            _ => None,
        })
    })
}

/// The same without globs.
fn lookup_named(all: &Crate, id: Id, name: &str, depth: u32) -> Option<Target> {
    let module = &all.modules[id];
    if let Some(child) = module.children.get(name) {
        return Some(Target::Module(*child));
    }
    if module.defined.contains(name) {
        return Some(Target::ItemOf(id));
    }
    // `use name;` would lead to itself for ever.
    let is_it = |import: &&Import| import.name.as_deref() == Some(name) && import.path != [name];
    let import = module.imports.iter().find(is_it)?;
    if depth > MAX_DEPTH {
        return None;
    }
    resolve(all, id, &import.path, depth + 1)
}

/// Collects the paths of a module's items.
struct Paths<'a> {
    all: &'a Crate,
    graph: &'a mut Graph,
    id: Id,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        let line = path
            .segments
            .first()
            .map_or(0, |part| part.ident.span().start().line);
        if path.leading_colon.is_none() {
            add(self.all, self.graph, self.id, &names, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        // The macro's own path is left out: `crate::name!` says nothing about where it is defined.
        self.visit_tokens(called.tokens.clone());
    }

    fn visit_item_use(&mut self, _: &'ast ItemUse) {
        // Inside a function it is nearly always `use Kind::*`, of a type whose path is visited elsewhere.
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }
}

impl Paths<'_> {
    /// Paths in a macro's tokens: identifiers with `::` between them.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let (mut names, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if !names.is_empty() && colons == 2 => {
                    names.push(name.to_string())
                }
                TokenTree::Ident(name) => {
                    self.end_path(&mut names, line);
                    line = name.span().start().line;
                    names.push(name.to_string());
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !names.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.end_path(&mut names, line);
                    self.visit_tokens(group.stream());
                }
                _ => self.end_path(&mut names, line),
            }
            colons = 0;
        }
        self.end_path(&mut names, line);
    }

    /// Single names may be anything in a macro: fields, labels, variables. Only paths count.
    fn end_path(&mut self, names: &mut Vec<String>, line: usize) {
        if names.len() > 1 {
            add(self.all, self.graph, self.id, names, line);
        }
        names.clear();
    }
}
