//! Checks of settings by name. The kinds of settings have no trait in common, so this is a macro.

macro_rules! checks_of {
    ($settings:ty) => {
        /// The error for this value; it changes nothing and is one line.
        fn refused(name: &str, value: &str) -> String {
            let mut settings = <$settings>::default();
            let error = settings.set(name, value).expect_err("refused").to_string();
            assert_eq!(settings, <$settings>::default(), "{error}");
            assert!(!error.contains('\n'), "{error}");
            error
        }

        fn assert_names_are(mut fields: Vec<&str>) {
            let mut names: Vec<&str> = <$settings>::names().map(|(name, _)| name).collect();
            names.sort_unstable();
            fields.sort_unstable();
            assert_eq!(names, fields);
        }

        fn assert_unknown_name_lists(name: &str, known: &str) {
            let error = refused(name, "1");
            let listed = format!("{known}, ");
            assert!(error.contains(name) && error.contains(&listed), "{error}");
        }

        fn assert_range_is_stated(values: &[(&str, &str)]) {
            for (name, value) in values {
                let error = refused(name, value);
                let (_, wanted) = <$settings>::names()
                    .find(|each| each.0 == *name)
                    .expect("known");
                assert!(error.contains(name) && error.contains(wanted), "{error}");
            }
        }
    };
}
pub(crate) use checks_of;

/// The names of a struct's fields, as JSON has them.
pub(crate) fn fields_of(json: &serde_json::Value) -> Vec<&str> {
    let fields = json.as_object().expect("a struct").keys();
    fields.map(String::as_str).collect()
}
