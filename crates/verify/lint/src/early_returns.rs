//! Tests that return before their end and say nothing: they would look like a success. A test returns early below a condition
//! that calls `skip`, directly or through other functions of tests, or that reads the environment, as children of tests do.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Arm, Expr, ExprCall, ExprClosure, ExprIf, ExprMatch, ExprReturn, ImplItem, Item, ItemFn,
    ItemImpl, Local, Macro, Type,
};

use crate::files;

/// What notes a skip, and what tells a child of a test that it is one.
const KNOWN: [&str; 3] = ["skip", "var", "var_os"];

/// A line for each such return.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let sources = sources(root)?;
    let mut functions = Functions::default();
    sources
        .iter()
        .for_each(|(_, file)| functions.visit_file(file));
    let skipping = functions.skipping();
    let mut wrong = Vec::new();
    for (path, file) in &sources {
        let mut returns = Returns {
            skipping: &skipping,
            lines: Vec::new(),
        };
        visit_tests(file, |test| returns.visit_block(&test.block));
        let path = path.strip_prefix(root).unwrap_or(path).display();
        wrong.extend(returns.lines.iter().map(|line| {
            format!(
                "{path}:{line}: a test returns early and notes nothing; call harness::testing::skip"
            )
        }));
    }
    Ok(wrong)
}

/// Files with tests, and those that only tests use.
fn sources(root: &Path) -> Result<Vec<(PathBuf, syn::File)>, String> {
    let mut sources = Vec::new();
    for path in files::below(&root.join("crates")).map_err(|error| format!("crates: {error}"))? {
        let name = path.to_string_lossy();
        if !name.ends_with(".rs") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let is_for_tests = name.contains("/tests/") || name.contains("/testing/");
        if is_for_tests || text.contains("#[test]") {
            let mut file = syn::parse_file(&text).map_err(|error| format!("{name}: {error}"))?;
            if !is_for_tests {
                file.items
                    .retain(|item| matches!(item, Item::Mod(module) if module.ident == "tests"));
            }
            sources.push((path, file));
        }
    }
    Ok(sources)
}

/// Functions by name, and what each calls. Names are those of [`Calls`].
#[derive(Default)]
struct Functions(HashMap<String, HashSet<String>>);

impl Functions {
    /// Those that note a skip, directly or through others; and what is known.
    fn skipping(&self) -> HashSet<String> {
        let mut found: HashSet<String> = KNOWN.map(str::to_owned).into();
        loop {
            let is_new = |(name, calls): &(&String, &HashSet<String>)| {
                !found.contains(*name) && !found.is_disjoint(calls)
            };
            let more: Vec<String> = self
                .0
                .iter()
                .filter(is_new)
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let calls = Calls::of(|calls| calls.visit_block(&function.block));
        self.0
            .entry(function.sig.ident.to_string())
            .or_default()
            .extend(calls.0);
    }

    fn visit_item_impl(&mut self, of: &'ast ItemImpl) {
        let Type::Path(path) = &*of.self_ty else {
            return;
        };
        let Some(own) = path.path.segments.last() else {
            return;
        };
        for item in &of.items {
            let ImplItem::Fn(function) = item else {
                continue;
            };
            let name = &function.sig.ident;
            let key = format!("{}::{name}", own.ident);
            let calls = Calls::of(|calls| calls.visit_block(&function.block));
            let own = |call: String| call.replacen("Self::", &format!("{}::", own.ident), 1);
            self.0
                .entry(key)
                .or_default()
                .extend(calls.0.into_iter().map(own));
        }
    }
}

/// What a part of the code calls: functions by their last name, those of a type as `Type::name`, but no methods, whose types
/// are not known here. In macros only functions by their last name.
#[derive(Default)]
struct Calls(HashSet<String>);

impl Calls {
    fn of(look: impl FnOnce(&mut Calls)) -> Calls {
        let mut calls = Calls::default();
        look(&mut calls);
        calls
    }

    /// The names before parentheses, but no methods.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut before, mut is_method) = (None, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    before = Some(name.to_string()).filter(|_| !is_method);
                    is_method = false;
                }
                TokenTree::Group(group) => {
                    let is_call = group.delimiter() == Delimiter::Parenthesis;
                    self.0.extend(before.take().filter(|_| is_call));
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(sign) => (before, is_method) = (None, sign.as_char() == '.'),
                TokenTree::Literal(_) => before = None,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let names = path.path.segments.iter().rev();
            let mut names = names.map(|segment| segment.ident.to_string());
            let last = names.next().unwrap_or_default();
            let of_type = names
                .next()
                .filter(|name| name.starts_with(char::is_uppercase));
            self.0.insert(match of_type {
                Some(of) => format!("{of}::{last}"),
                None => last,
            });
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.add_tokens(called.tokens.clone());
    }
}

fn visit_tests(file: &syn::File, look: impl FnMut(&ItemFn)) {
    struct Tests<F>(F);
    impl<'ast, F: FnMut(&ItemFn)> Visit<'ast> for Tests<F> {
        fn visit_item_fn(&mut self, function: &'ast ItemFn) {
            let mut attributes = function.attrs.iter();
            if attributes.any(|attribute| attribute.path().is_ident("test")) {
                (self.0)(function);
            }
        }
    }
    Tests(look).visit_file(file);
}

/// Lines of returns below no condition that notes a skip.
struct Returns<'a> {
    skipping: &'a HashSet<String>,
    lines: Vec<usize>,
}

impl Returns<'_> {
    fn notes(&self, calls: &Calls) -> bool {
        !calls.0.is_disjoint(self.skipping)
    }
}

impl<'ast> Visit<'ast> for Returns<'_> {
    fn visit_expr_return(&mut self, found: &'ast ExprReturn) {
        self.lines.push(found.return_token.span.start().line);
    }

    fn visit_expr_if(&mut self, condition: &'ast ExprIf) {
        let calls = Calls::of(|calls| {
            calls.visit_expr(&condition.cond);
            calls.visit_block(&condition.then_branch);
        });
        if !self.notes(&calls) {
            self.visit_block(&condition.then_branch);
        }
        if let Some((_, other)) = &condition.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let calls = Calls::of(|calls| calls.visit_local(local));
        if !self.notes(&calls) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_match(&mut self, choice: &'ast ExprMatch) {
        let calls = Calls::of(|calls| calls.visit_expr(&choice.expr));
        if !self.notes(&calls) {
            choice.arms.iter().for_each(|arm| self.visit_arm(arm));
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let calls = Calls::of(|calls| calls.visit_arm(arm));
        if !self.notes(&calls) {
            self.visit_expr(&arm.body);
        }
    }

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}

    fn visit_item_fn(&mut self, _: &'ast ItemFn) {}
}
