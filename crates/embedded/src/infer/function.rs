//! What functions return.

use crate::management::{Function, Returns};
use crate::types::Type;

const TEXT: &[&str] = &[
    "lower",
    "upper",
    "trim",
    "ltrim",
    "rtrim",
    "btrim",
    "substr",
    "substring",
    "replace",
    "concat",
    "concat_ws",
    "left",
    "right",
    "lpad",
    "rpad",
    "repeat",
    "reverse",
    "initcap",
    "split_part",
    "md5",
    "to_char",
    "version",
    "format",
    "format_type",
    "pg_get_expr",
    "pg_get_constraintdef",
    "pg_get_indexdef",
    "pg_get_viewdef",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "string_agg",
    "group_concat",
    "array_to_string",
    "obj_description",
    "col_description",
    "shobj_description",
    "hex",
    "typeof",
    "pg_typeof",
    "current_setting",
    "set_config",
    "chr",
    "encode",
    "json_extract",
    "json_object",
    "json_array",
    "pg_size_pretty",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_triggerdef",
    "strftime",
    "json_agg",
    "json_build_object",
    "pg_get_serial_sequence",
    "translate",
];
const NAMES: &[&str] = &[
    "current_database",
    "current_schema",
    "current_user",
    "session_user",
    "pg_get_userbyid",
    "pg_encoding_to_char",
    "current_catalog",
    "user",
];
const INT4: &[&str] = &[
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "position",
    "strpos",
    "ascii",
    "pg_backend_pid",
    "array_length",
    "array_upper",
    "array_lower",
    "cardinality",
    "instr",
    "unicode",
    "sign",
    "json_array_length",
];
const INT8: &[&str] = &[
    "count",
    "row_number",
    "rank",
    "dense_rank",
    "ntile",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_relation_size",
    "pg_database_size",
    "txid_current",
    "last_insert_rowid",
    "changes",
    "lastval",
];
const FLOAT8: &[&str] = &[
    "random",
    "sqrt",
    "power",
    "pow",
    "exp",
    "ln",
    "log",
    "pi",
    "sin",
    "cos",
    "tan",
    "total",
    "percent_rank",
    "cume_dist",
    "date_part",
    "extract",
];
const BOOL: &[&str] = &[
    "pg_table_is_visible",
    "pg_function_is_visible",
    "pg_type_is_visible",
    "bool_and",
    "bool_or",
    "every",
    "has_table_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "has_column_privilege",
    "has_any_column_privilege",
    "has_sequence_privilege",
    "has_function_privilege",
    "pg_is_in_recovery",
    "pg_is_other_temp_schema",
    "starts_with",
    "pg_relation_is_publishable",
    "pg_advisory_unlock",
    "pg_try_advisory_lock",
    "json_valid",
    "like",
    "regexp",
];
/// Functions whose result has the type of their arguments.
const SAME: &[&str] = &[
    "min",
    "max",
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "abs",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
    "ifnull",
    "iif",
];

/// The type of a word that is a value.
pub fn word(name: &str) -> Option<Type> {
    Some(match name {
        "current_timestamp" => Type::Timestamptz,
        "localtimestamp" => Type::Timestamp,
        "current_date" => Type::Date,
        "current_user" | "session_user" | "user" | "current_role" | "current_catalog"
        | "current_schema" => Type::Name,
        _ => return None,
    })
}

/// The type of a call with arguments of these types.
pub fn returns(name: &str, args: &mut dyn Iterator<Item = Option<Type>>) -> Option<Type> {
    if let Some(function) = Function::find(name) {
        return match function.returns {
            Returns::Value(kind) => Some(kind),
            Returns::Rows => None,
        };
    }
    let is = |list: &[&str]| list.contains(&name);
    match name {
        "now" | "statement_timestamp" | "clock_timestamp" | "transaction_timestamp" => {
            Some(Type::Timestamptz)
        }
        "pg_postmaster_start_time" | "to_timestamp" => Some(Type::Timestamptz),
        "date_trunc" => args
            .nth(1)
            .flatten()
            .filter(|kind| *kind == Type::Timestamptz)
            .or(Some(Type::Timestamp)),
        "date" => Some(Type::Date),
        "datetime" => Some(Type::Timestamp),
        "gen_random_uuid" => Some(Type::Uuid),
        "to_regclass" | "to_regtype" => Some(Type::Oid),
        "pg_advisory_lock" | "pg_advisory_unlock_all" | "pg_sleep" => Some(Type::Void),
        "current_schemas" | "string_to_array" => Some(Type::TextArray),
        "array_agg" => Some(match args.next().flatten() {
            Some(Type::Bool) => Type::BoolArray,
            Some(kind) if kind.is_integer() => Type::Int8Array,
            _ => Type::TextArray,
        }),
        "sum" => match args.next().flatten()? {
            Type::Int2 | Type::Int4 => Some(Type::Int8),
            Type::Int8 => Some(Type::Numeric),
            kind => Some(kind),
        },
        "avg" => match args.next().flatten()? {
            Type::Float4 | Type::Float8 => Some(Type::Float8),
            _ => Some(Type::Numeric),
        },
        "round" | "trunc" | "floor" | "ceil" | "ceiling" | "mod" => match args.next().flatten()? {
            Type::Float4 | Type::Float8 => Some(Type::Float8),
            kind if kind.is_integer() && name == "mod" => Some(kind),
            kind if kind.is_number() => Some(Type::Numeric),
            _ => None,
        },
        _ if is(SAME) => args.flatten().next(),
        _ if is(TEXT) => Some(Type::Text),
        _ if is(NAMES) => Some(Type::Name),
        _ if is(INT4) => Some(Type::Int4),
        _ if is(INT8) => Some(Type::Int8),
        _ if is(FLOAT8) => Some(Type::Float8),
        _ if is(BOOL) => Some(Type::Bool),
        _ => None,
    }
}
