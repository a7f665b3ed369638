//! Tables of names: one place for what exists, in which order, and how each is called.

/// An enum with the list of all its variants and a name for each.
macro_rules! named {
    ($(#[$attribute:meta])* $visible:vis enum $type:ident {
        $($(#[$about:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$attribute])*
        $visible enum $type { $($(#[$about])* $variant,)* }

        impl $type {
            /// All of them.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// Its name in words.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }
    };
}

/// The operations: what each is about in the order of its text, `verb argument argument`.
macro_rules! operations {
    ($($(#[$about:meta])* $variant:ident = $verb:literal $({ $($field:ident: $type:ty),* })?,)*) => {
        /// One operation, by path.
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum Operation { $($(#[$about])* $variant $({ $($field: $type),* })?,)* }

        /// As [`Operation::from_str`] reads it.
        impl fmt::Display for Operation {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Operation::$variant $({ $($field),* })? => {
                        out.write_str($verb)?;
                        $($(write!(out, " {}", $field.word())?;)*)?
                    })*
                }
                Ok(())
            }
        }

        impl FromStr for Operation {
            type Err = String;

            /// A verb and what it is about, as `write d/x 4000 100`.
            fn from_str(text: &str) -> Result<Operation, String> {
                let mut words = text.split_whitespace();
                let mut next = || words.next().ok_or("a word is missing");
                let operation = match next()? {
                    $($verb => Operation::$variant $({ $($field: Word::read(next()?)?),* })?,)*
                    verb => return Err(format!("{verb} is no operation")),
                };
                match words.next() {
                    None => Ok(operation),
                    Some(word) => Err(format!("{word} is too much")),
                }
            }
        }
    };
}

pub(crate) use {named, operations};
