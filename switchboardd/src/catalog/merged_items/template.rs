//! Matches URIs against URI templates, just well enough to find the child that owns a URI.

/// Whether the template covers the URI. A plain variable matches one or more characters except `/`. A
/// variable with an operator matches any text; only for `+` the text must not be empty. Takes time
/// proportional to the product of both lengths.
pub(super) fn covers(template: &str, uri: &str) -> bool {
    let steps = steps(template);
    // The steps that can come next, over all ways to read the URI so far.
    let mut next = vec![false; steps.len() + 1];
    next[0] = true;
    skip_optional(&steps, &mut next);
    for letter in uri.chars() {
        let mut after = vec![false; steps.len() + 1];
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| next[*at]) {
            match step {
                TemplateStep::Letter(wanted) => after[at + 1] |= *wanted == letter,
                TemplateStep::Variable { wide, .. } if *wide || letter != '/' => {
                    after[at] = true;
                    after[at + 1] = true;
                }
                TemplateStep::Variable { .. } => {}
            }
        }
        next = after;
        skip_optional(&steps, &mut next);
    }
    next[steps.len()]
}

enum TemplateStep {
    Letter(char),
    Variable { wide: bool, optional: bool },
}

fn steps(template: &str) -> Vec<TemplateStep> {
    let mut steps = Vec::new();
    let mut rest = template;
    while let Some(letter) = rest.chars().next() {
        let variable = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        if let Some((variable, behind)) = variable {
            let wide = variable.starts_with(['+', '#', '?', '&', '/', '.', ';']);
            steps.push(TemplateStep::Variable { wide, optional: wide && !variable.starts_with('+') });
            rest = behind;
        } else {
            steps.push(TemplateStep::Letter(letter));
            rest = &rest[letter.len_utf8()..];
        }
    }
    steps
}

fn skip_optional(steps: &[TemplateStep], next: &mut [bool]) {
    for (at, step) in steps.iter().enumerate() {
        if next[at] && matches!(step, TemplateStep::Variable { optional: true, .. }) {
            next[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_cover_matching_uris() {
        for (template, uri) in [
            ("test://t/{id}/data", "test://t/7/data"),
            ("file:///{+path}", "file:///a/b/c"),
            ("x:{a}-{b}", "x:1-2-3"),
            ("x:q{?page}", "x:q"),
            ("x:q{?page}", "x:q?page=2"),
            ("x:{a", "x:{a"),
        ] {
            assert!(covers(template, uri), "{template} {uri}");
        }
        for (template, uri) in [
            ("test://t/{id}/data", "test://t/a/b/data"),
            ("x:{a}", "x:"),
            ("x:{a}", "y:1"),
            ("x:{a}b", "x:1"),
        ] {
            assert!(!covers(template, uri), "{template} {uri}");
        }
    }
}
