//! Enumerations whose values have a name in tables and documents.

/// Declares an enumeration with the name of each value: `name()`, `named()` and `ALL`.
macro_rules! names {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $type:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        $visibility enum $type { $($(#[$value_meta])* #[serde(rename = $name)] $value,)+ }

        impl $type {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the name of the value in tables and documents.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }

            /// Returns the value of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl $crate::system::table::CellValue for $type {
            const CONTENT: $crate::system::table::CellContent = $crate::system::table::CellContent::Text;

            fn to_cell(&self) -> $crate::system::table::Cell {
                $crate::system::table::Cell::Text(self.name().into())
            }

            fn from_cell(cell: &$crate::system::table::Cell) -> Result<Self, String> {
                let text = $crate::system::table::text_of(cell)?;
                Self::named(text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("`{text}` is none of {}", names.join(", "))
                })
            }
        }
    };
}

pub(crate) use names;
