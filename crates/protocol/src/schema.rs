//! The vocabulary of `core` as it stands in the API's document. The words come from `core` itself, so
//! the two cannot differ.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

fn words(all: impl Iterator<Item = &'static str>) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .enum_values(Some(all))
        .into()
}

macro_rules! word_schemas {
    ($($name:ident),+ $(,)?) => {
        $(
            /// Stands for the words of the same name in `core`.
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    words(sortie_core::$name::ALL.iter().map(|word| word.as_str()))
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )+
    };
}

word_schemas!(
    BudgetKind,
    ChangesFate,
    Decision,
    Delivery,
    Isolation,
    Lane,
    Lang,
    Layer,
    Priority,
    Reason,
    Status,
    WaitingOn,
);
