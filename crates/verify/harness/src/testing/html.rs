//! Whether HTML is well-formed.

/// Elements that HTML never closes.
const VOID: [&str; 2] = ["meta", "br"];

/// The elements still open at the end.
///
/// # Errors
/// The first end tag that closes another element than the last opened.
pub fn unclosed(page: &str) -> Result<Vec<String>, String> {
    let mut open: Vec<String> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').ok_or("a tag without end")?;
        let name: String = inside
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if inside.starts_with('!') || inside.ends_with('/') || VOID.contains(&name.as_str()) {
            continue;
        }
        if inside.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Err(format!("</{name}> after {last:?}")),
            }
        } else {
            open.push(name);
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclosed_and_crossed_elements_are_found() {
        assert_eq!(unclosed("<p><b></b>").unwrap(), ["p"]);
        assert!(unclosed("<p><b></p></b>").is_err());
        assert_eq!(unclosed("<p><line x=\"1\"/><meta a></p>"), Ok(vec![]));
    }
}
