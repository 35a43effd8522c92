//! Tables of a system-level trace: typed rows, their columns and cells.
//!
//! A row type declares its table once with `rows!`: name, columns, units, meanings. The Parquet files, their check
//! when they are read, and the page of the format follow from that declaration.

use std::borrow::Cow;

use seeklab_core::ProcessName;

/// A value of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// Text.
    Text(Cow<'static, str>),
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellContent {
    /// Unsigned 64-bit numbers.
    Number,
    /// Signed 64-bit numbers.
    Signed,
    /// Text in UTF-8.
    Text,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column, with its unit.
    pub name: &'static str,
    /// Type of the column.
    pub content: CellContent,
    /// True if a row may have no value.
    pub is_optional: bool,
    /// Meaning of the column.
    pub meaning: &'static str,
}

/// A row of a table.
pub trait TableRow: Sized {
    /// Name of the table, which is also the name of its file.
    const TABLE: &'static str;
    /// Meaning of a row.
    const MEANING: &'static str;
    /// Columns of the table.
    const COLUMNS: &'static [TableColumn];

    /// Appends the values of the row, in the order of the columns.
    fn put(&self, cells: &mut Vec<Cell>);

    /// Reads a row from its values, in the order of the columns.
    ///
    /// # Errors
    /// A value that the column cannot have, with the name of the column.
    fn take(cells: &[Cell]) -> Result<Self, String>;
}

/// A type of values of a column.
pub trait CellValue: Sized {
    /// Type of the column.
    const CONTENT: CellContent;
    /// True if the column may have no value.
    const IS_OPTIONAL: bool = false;

    /// Returns the value as a cell.
    fn to_cell(&self) -> Cell;

    /// Reads the value from a cell.
    ///
    /// # Errors
    /// The value found, and the values allowed.
    fn from_cell(cell: &Cell) -> Result<Self, String>;
}

/// Returns the text of a cell.
pub(crate) fn text_of(cell: &Cell) -> Result<&str, String> {
    match cell {
        Cell::Text(text) => Ok(text),
        Cell::Null => Err("the value is absent".to_owned()),
        other => Err(format!("{other:?} is no text")),
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl CellValue for $type {
            const CONTENT: CellContent = CellContent::Number;

            fn to_cell(&self) -> Cell {
                Cell::Number(u64::from(*self))
            }

            fn from_cell(cell: &Cell) -> Result<Self, String> {
                let Cell::Number(number) = cell else { return Err("the value is absent".to_owned()) };
                (*number).try_into().map_err(|_| format!("{number} is above {}", Self::MAX))
            }
        }
    )+};
}

numbers!(u16, u32, u64);

impl CellValue for bool {
    const CONTENT: CellContent = CellContent::Number;

    fn to_cell(&self) -> Cell {
        Cell::Number(u64::from(*self))
    }

    fn from_cell(cell: &Cell) -> Result<Self, String> {
        match cell {
            Cell::Number(number @ 0..=1) => Ok(*number == 1),
            other => Err(format!("{other:?} is neither 0 nor 1")),
        }
    }
}

impl CellValue for i64 {
    const CONTENT: CellContent = CellContent::Signed;

    fn to_cell(&self) -> Cell {
        Cell::Signed(*self)
    }

    fn from_cell(cell: &Cell) -> Result<Self, String> {
        match cell {
            Cell::Signed(number) => Ok(*number),
            other => Err(format!("{other:?} is no signed number")),
        }
    }
}

impl CellValue for ProcessName {
    const CONTENT: CellContent = CellContent::Text;

    fn to_cell(&self) -> Cell {
        Cell::Text(self.to_string().into())
    }

    fn from_cell(cell: &Cell) -> Result<Self, String> {
        Ok(process_name(text_of(cell)?))
    }
}

impl<V: CellValue> CellValue for Option<V> {
    const CONTENT: CellContent = V::CONTENT;
    const IS_OPTIONAL: bool = true;

    fn to_cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, V::to_cell)
    }

    fn from_cell(cell: &Cell) -> Result<Self, String> {
        match cell {
            Cell::Null => Ok(None),
            cell => V::from_cell(cell).map(Some),
        }
    }
}

/// Returns a name cut to the length that the kernel keeps.
pub(crate) fn process_name(text: &str) -> ProcessName {
    let mut bytes = [0; 16];
    let length = text.len().min(15);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    ProcessName(bytes)
}

/// Declares a row type with its table.
macro_rules! rows {
    (
        $(#[doc = $doc:literal])+
        $type:ident in $table:literal {
            $($(#[doc = $meaning:literal])+ $column:ident: $value:ty,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $type {
            $($(#[doc = $meaning])+ pub $column: $value,)+
        }

        impl $crate::system::table::TableRow for $type {
            const TABLE: &'static str = $table;
            const MEANING: &'static str = concat!($($doc),+);
            const COLUMNS: &'static [$crate::system::table::TableColumn] = &[
                $($crate::system::table::TableColumn {
                    name: stringify!($column),
                    content: <$value as $crate::system::table::CellValue>::CONTENT,
                    is_optional: <$value as $crate::system::table::CellValue>::IS_OPTIONAL,
                    meaning: concat!($($meaning),+),
                },)+
            ];

            fn put(&self, cells: &mut Vec<$crate::system::table::Cell>) {
                use $crate::system::table::CellValue as _;
                $(cells.push(self.$column.to_cell());)+
            }

            fn take(cells: &[$crate::system::table::Cell]) -> Result<Self, String> {
                let mut cells = cells.iter();
                $(
                    let cell = cells.next().ok_or_else(|| concat!("there is no `", stringify!($column), "`"))?;
                    let $column = <$value as $crate::system::table::CellValue>::from_cell(cell)
                        .map_err(|problem| format!(concat!("`", stringify!($column), "`: {}"), problem))?;
                )+
                Ok(Self { $($column),+ })
            }
        }
    };
}

pub(crate) use rows;
