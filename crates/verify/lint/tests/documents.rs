//! Documents hold no bare paths: `serde` refuses those that are no UTF-8, and a name made by another user would end the command.

use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};

/// The types of fields that JSON may not have: `NamedPath`, or `exact_path` in what is read again, stand for them.
const BARE: [&str; 4] = ["PathBuf", "Path", "OsString", "OsStr"];

#[derive(Default)]
struct Bare {
    found: Vec<String>,
    last: Option<String>,
}

impl Visit<'_> for Bare {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        if is_serialized(&item.attrs) {
            self.fields(&item.ident, &item.fields);
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        let is_serialized = is_serialized(&item.attrs);
        for variant in item.variants.iter().filter(|_| is_serialized) {
            self.fields(&item.ident, &variant.fields);
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_path_segment(&mut self, segment: &syn::PathSegment) {
        self.last = (self.last.take()).or_else(|| {
            let name = segment.ident.to_string();
            BARE.contains(&name.as_str()).then_some(name)
        });
        visit::visit_path_segment(self, segment);
    }
}

impl Bare {
    fn fields(&mut self, owner: &syn::Ident, fields: &syn::Fields) {
        for field in fields.iter().filter(|field| !has_own_way(&field.attrs)) {
            self.last = None;
            self.visit_type(&field.ty);
            let bare = self.last.take().map(|bare| format!("{owner} has a {bare}"));
            self.found.extend(bare);
        }
    }
}

fn is_serialized(attributes: &[syn::Attribute]) -> bool {
    let mut derives = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"));
    derives.any(|derive| mentions(derive, &["Serialize"]))
}

fn has_own_way(attributes: &[syn::Attribute]) -> bool {
    let mut serde = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("serde"));
    serde.any(|serde| {
        mentions(
            serde,
            &["with", "serialize_with", "skip", "skip_serializing"],
        )
    })
}

fn mentions(attribute: &syn::Attribute, words: &[&str]) -> bool {
    let mut is_there = false;
    // What has a value is read over; attributes of other forms mention nothing.
    let _ = attribute.parse_nested_meta(|meta| {
        is_there |= words.iter().any(|word| meta.path.is_ident(word));
        if let Ok(value) = meta.value() {
            value.parse::<syn::Expr>()?;
        }
        Ok(())
    });
    is_there
}

fn bare_in(text: &str) -> Vec<String> {
    let mut bare = Bare::default();
    bare.visit_file(&syn::parse_file(text).unwrap());
    bare.found
}

fn sources(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found)
        } else {
            found.extend(
                path.extension()
                    .is_some_and(|end| end == "rs")
                    .then_some(path),
            )
        }
    }
}

#[test]
fn bare_paths_are_found_and_those_with_a_way_are_not() {
    let text = "#[derive(Debug, Serialize)] struct A { a: Option<PathBuf>, #[serde(default, with = \"x\")] b: PathBuf, c: u8 }
        #[derive(serde::Deserialize)] struct B { a: PathBuf }
        #[derive(Serialize)] enum C { A(Vec<std::ffi::OsString>), B(NamedPath) }";
    assert_eq!(bare_in(text), ["A has a PathBuf", "C has a OsString"]);
}

#[test]
fn no_document_of_this_repository_holds_a_bare_path() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut files = Vec::new();
    for path in egeria_lint::crates(&root).unwrap().into_values() {
        let source = path.join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let mut found = Vec::new();
    for file in files {
        let bare = bare_in(&fs::read_to_string(&file).unwrap());
        found.extend(
            bare.into_iter()
                .map(|what| format!("{}: {what}", file.display())),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}
