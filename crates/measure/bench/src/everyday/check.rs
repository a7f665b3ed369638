//! Whether what a job left, or said, is right.

use std::collections::HashSet;

use super::job::Job;

/// What a job says, without what may differ between file systems: order, and sizes and link counts of directories.
pub(super) fn comparable(job: Job, output: &str, directories: &HashSet<String>) -> Vec<String> {
    let lines = output.lines();
    let mut lines: Vec<String> = match job {
        Job::Ls => lines.filter_map(listed).collect(),
        Job::Du => lines.map(|line| added_up(line, directories)).collect(),
        _ => lines.map(str::to_owned).collect(),
    };
    if job != Job::Ls {
        lines.sort();
    }
    lines
}

/// A line of `ls -lR`.
fn listed(line: &str) -> Option<String> {
    if line.starts_with("total ") {
        return None;
    }
    let words = line.split_whitespace();
    Some(if line.starts_with('d') {
        let kept = words
            .enumerate()
            .filter(|(place, _)| ![1, 4].contains(place));
        kept.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    } else {
        // Columns are as wide as the widest size.
        words.collect::<Vec<_>>().join(" ")
    })
}

/// A line of `du`.
fn added_up(line: &str, directories: &HashSet<String>) -> String {
    match line.split_once('\t') {
        Some((_, path)) if directories.contains(path) => path.to_owned(),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_directories_do_not_count_and_those_of_files_do() {
        let directories = HashSet::from([".".to_owned(), "./a".to_owned()]);
        let of = |text: &str| comparable(Job::Du, text, &directories);
        assert_eq!(
            of("60\t./a\n9\t./a/b\n69\t."),
            of("9\t./a/b\n4096\t./a\n4105\t.")
        );
        assert_ne!(of("9\t./a/b"), of("8\t./a/b"));

        let of = |text: &str| comparable(Job::Ls, text, &directories);
        let one = ".:\ntotal 4\ndrwxr-xr-x 2 root root   60 Jan  1 a\n-rw-r--r-- 1 root root    9 Jan  1 b";
        let two =
            ".:\ntotal 8\ndrwxr-xr-x 3 root root 4096 Jan  1 a\n-rw-r--r-- 1 root root 9 Jan  1 b";
        assert_eq!(of(one), of(two));
        assert_ne!(of(one), of(&two.replace("root 9", "root 8")));
        assert_ne!(of(one), of(&two.replace("drwxr", "drwx-")));
    }
}
