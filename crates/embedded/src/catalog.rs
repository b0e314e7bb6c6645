//! The system catalogues: `pg_catalog` and `information_schema` as tables that hold what SQLite's schema says.
//!
//! Owns their columns and rows. A statement that names one gets it as a TEMP table of the session, filled before it
//! runs, so that clients join, filter and sort as they like. What has no counterpart here (policies, publications,
//! inheritance) is a table without rows.

mod definition;
mod rows;
mod standard;

pub use definition::{constraints, index_definition, view_text};

use crate::functions::Shared;
use crate::schema::Schema;
use crate::types::{Declared, Type};
use rusqlite::types::Value;

/// A catalogue: its name and its columns as `name:type`.
#[derive(Debug)]
pub struct Catalog {
    pub name: &'static str,
    columns: &'static str,
}

/// The catalogue with this name, in lower case.
pub fn find(name: &str) -> Option<&'static Catalog> {
    CATALOGS.iter().find(|catalog| catalog.name == name)
}

impl Catalog {
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Type)> {
        self.columns.split_whitespace().map(|column| {
            let (name, kind) = column.split_once(':').unwrap_or((column, "text"));
            let kind = if kind == "char" { "\"char\"" } else { kind };
            (name, Declared::read(kind).map_or(Type::Text, |declared| declared.kind))
        })
    }

    /// All rows, with a value for each column.
    pub fn rows(&self, schema: &Schema, shared: &Shared) -> Vec<Vec<Value>> {
        let sparse = match self.name.starts_with("information_schema.") {
            true => standard::rows(self.name, schema, shared),
            false => rows::rows(self.name, schema, shared),
        };
        sparse.into_iter().map(|row| self.complete(row)).collect()
    }

    /// What a row does not say is false, zero or NULL.
    fn complete(&self, mut row: Sparse) -> Vec<Value> {
        self.columns()
            .map(|(name, kind)| {
                let given = row.iter().position(|(own, _)| *own == name);
                given.map(|at| row.swap_remove(at).1).unwrap_or(match kind {
                    Type::Bool => Value::Integer(0),
                    kind if kind.is_number() => Value::Integer(0),
                    _ => Value::Null,
                })
            })
            .collect()
    }
}

/// The values of a row that are not the usual ones.
type Sparse = Vec<(&'static str, Value)>;

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

const CATALOGS: &[Catalog] = &[
    Catalog {
        name: "pg_class",
        columns: "oid:oid relname:name relnamespace:oid reltype:oid reloftype:oid relowner:oid relam:oid relfilenode:oid reltablespace:oid relpages:int4 reltuples:float4 relallvisible:int4 reltoastrelid:oid relhasindex:bool relisshared:bool relpersistence:char relkind:char relnatts:int2 relchecks:int2 relhasrules:bool relhastriggers:bool relhassubclass:bool relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool relreplident:char relispartition:bool relrewrite:oid relacl:text[] reloptions:text[] relpartbound:text relhasoids:bool",
    },
    Catalog { name: "pg_namespace", columns: "oid:oid nspname:name nspowner:oid nspacl:text[]" },
    Catalog {
        name: "pg_attribute",
        columns: "attrelid:oid attname:name atttypid:oid attstattarget:int4 attlen:int2 attnum:int2 attndims:int4 atttypmod:int4 attbyval:bool attalign:char attstorage:char attcompression:char attnotnull:bool atthasdef:bool atthasmissing:bool attidentity:char attgenerated:char attisdropped:bool attislocal:bool attinhcount:int4 attcollation:oid attacl:text[] attoptions:text[] attfdwoptions:text[]",
    },
    Catalog { name: "pg_attrdef", columns: "oid:oid adrelid:oid adnum:int2 adbin:text" },
    Catalog {
        name: "pg_type",
        columns: "oid:oid typname:name typnamespace:oid typowner:oid typlen:int2 typbyval:bool typtype:char typcategory:char typispreferred:bool typisdefined:bool typdelim:char typrelid:oid typelem:oid typarray:oid typinput:text typoutput:text typreceive:text typsend:text typbasetype:oid typtypmod:int4 typndims:int4 typcollation:oid typnotnull:bool typdefault:text",
    },
    Catalog {
        name: "pg_index",
        columns: "indexrelid:oid indrelid:oid indnatts:int2 indnkeyatts:int2 indisunique:bool indnullsnotdistinct:bool indisprimary:bool indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indcheckxmin:bool indisready:bool indislive:bool indisreplident:bool indkey:int2vector indcollation:oidvector indclass:oidvector indoption:int2vector indexprs:text indpred:text",
    },
    Catalog {
        name: "pg_constraint",
        columns: "oid:oid conname:name connamespace:oid contype:char condeferrable:bool condeferred:bool convalidated:bool conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype:char confdeltype:char confmatchtype:char conislocal:bool coninhcount:int4 connoinherit:bool conkey:text[] confkey:text[] conbin:text conexclop:text[] confdelsetcols:text[]",
    },
    Catalog {
        name: "pg_database",
        columns: "oid:oid datname:name datdba:oid encoding:int4 datlocprovider:char datistemplate:bool datallowconn:bool datconnlimit:int4 dattablespace:oid datcollate:text datctype:text daticulocale:text datacl:text[]",
    },
    Catalog {
        name: "pg_roles",
        columns: "oid:oid rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool rolreplication:bool rolconnlimit:int4 rolpassword:text rolvaliduntil:timestamptz rolbypassrls:bool rolconfig:text[]",
    },
    Catalog {
        name: "pg_user",
        columns: "usename:name usesysid:oid usecreatedb:bool usesuper:bool",
    },
    Catalog { name: "pg_am", columns: "oid:oid amname:name amhandler:text amtype:char" },
    Catalog {
        name: "pg_collation",
        columns: "oid:oid collname:name collnamespace:oid collowner:oid collprovider:char collisdeterministic:bool collencoding:int4 collcollate:text collctype:text",
    },
    Catalog {
        name: "pg_settings",
        columns: "name:text setting:text unit:text category:text short_desc:text context:text vartype:text source:text",
    },
    Catalog {
        name: "pg_tables",
        columns: "schemaname:name tablename:name tableowner:name tablespace:name hasindexes:bool hasrules:bool hastriggers:bool rowsecurity:bool",
    },
    Catalog {
        name: "pg_views",
        columns: "schemaname:name viewname:name viewowner:name definition:text",
    },
    Catalog {
        name: "pg_indexes",
        columns: "schemaname:name tablename:name indexname:name tablespace:name indexdef:text",
    },
    Catalog {
        name: "pg_description",
        columns: "objoid:oid classoid:oid objsubid:int4 description:text",
    },
    Catalog { name: "pg_shdescription", columns: "objoid:oid classoid:oid description:text" },
    Catalog {
        name: "pg_proc",
        columns: "oid:oid proname:name pronamespace:oid proowner:oid prolang:oid prokind:char prorettype:oid pronargs:int2 proargtypes:oidvector proretset:bool proisagg:bool prosrc:text",
    },
    Catalog {
        name: "pg_inherits",
        columns: "inhrelid:oid inhparent:oid inhseqno:int4 inhdetachpending:bool",
    },
    Catalog {
        name: "pg_policy",
        columns: "oid:oid polname:name polrelid:oid polcmd:char polpermissive:bool polroles:text[] polqual:text polwithcheck:text",
    },
    Catalog { name: "pg_publication", columns: "oid:oid pubname:name puballtables:bool" },
    Catalog {
        name: "pg_publication_rel",
        columns: "oid:oid prpubid:oid prrelid:oid prqual:text prattrs:text[]",
    },
    Catalog { name: "pg_publication_namespace", columns: "oid:oid pnpubid:oid pnnspid:oid" },
    Catalog {
        name: "pg_statistic_ext",
        columns: "oid:oid stxrelid:oid stxname:name stxnamespace:oid stxowner:oid stxkeys:int2vector stxkind:text[] stxstattarget:int4",
    },
    Catalog {
        name: "pg_trigger",
        columns: "oid:oid tgrelid:oid tgparentid:oid tgname:name tgfoid:oid tgtype:int2 tgenabled:char tgisinternal:bool tgconstraint:oid",
    },
    Catalog {
        name: "pg_rewrite",
        columns: "oid:oid rulename:name ev_class:oid ev_type:char ev_enabled:char is_instead:bool",
    },
    Catalog {
        name: "pg_sequence",
        columns: "seqrelid:oid seqtypid:oid seqstart:int8 seqincrement:int8 seqmax:int8 seqmin:int8 seqcache:int8 seqcycle:bool",
    },
    Catalog {
        name: "pg_enum",
        columns: "oid:oid enumtypid:oid enumsortorder:float4 enumlabel:name",
    },
    Catalog {
        name: "pg_range",
        columns: "rngtypid:oid rngsubtype:oid rngmultitypid:oid rngcollation:oid",
    },
    Catalog {
        name: "pg_auth_members",
        columns: "roleid:oid member:oid grantor:oid admin_option:bool",
    },
    Catalog { name: "pg_tablespace", columns: "oid:oid spcname:name spcowner:oid" },
    Catalog {
        name: "pg_extension",
        columns: "oid:oid extname:name extowner:oid extnamespace:oid extversion:text",
    },
    Catalog { name: "pg_foreign_table", columns: "ftrelid:oid ftserver:oid ftoptions:text[]" },
    Catalog {
        name: "pg_partitioned_table",
        columns: "partrelid:oid partstrat:char partnatts:int2",
    },
    Catalog {
        name: "pg_depend",
        columns: "classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 deptype:char",
    },
    Catalog { name: "pg_opclass", columns: "oid:oid opcname:name opcmethod:oid opcdefault:bool" },
    Catalog { name: "pg_locks", columns: "locktype:text pid:int4 mode:text granted:bool" },
    Catalog {
        name: "pg_matviews",
        columns: "schemaname:name matviewname:name matviewowner:name definition:text",
    },
    Catalog {
        name: "pg_sequences",
        columns: "schemaname:name sequencename:name sequenceowner:name last_value:int8",
    },
    Catalog {
        name: "information_schema.tables",
        columns: "table_catalog:name table_schema:name table_name:name table_type:varchar is_insertable_into:varchar",
    },
    Catalog {
        name: "information_schema.views",
        columns: "table_catalog:name table_schema:name table_name:name view_definition:varchar check_option:varchar is_updatable:varchar",
    },
    Catalog {
        name: "information_schema.columns",
        columns: "table_catalog:name table_schema:name table_name:name column_name:name ordinal_position:int4 column_default:varchar is_nullable:varchar data_type:varchar character_maximum_length:int4 numeric_precision:int4 numeric_scale:int4 datetime_precision:int4 udt_catalog:name udt_schema:name udt_name:name is_identity:varchar identity_generation:varchar is_generated:varchar is_updatable:varchar collation_name:name",
    },
    Catalog {
        name: "information_schema.schemata",
        columns: "catalog_name:name schema_name:name schema_owner:name",
    },
    Catalog {
        name: "information_schema.table_constraints",
        columns: "constraint_catalog:name constraint_schema:name constraint_name:name table_catalog:name table_schema:name table_name:name constraint_type:varchar is_deferrable:varchar initially_deferred:varchar",
    },
    Catalog {
        name: "information_schema.key_column_usage",
        columns: "constraint_catalog:name constraint_schema:name constraint_name:name table_catalog:name table_schema:name table_name:name column_name:name ordinal_position:int4 position_in_unique_constraint:int4",
    },
    Catalog {
        name: "information_schema.referential_constraints",
        columns: "constraint_catalog:name constraint_schema:name constraint_name:name unique_constraint_schema:name unique_constraint_name:name match_option:varchar update_rule:varchar delete_rule:varchar",
    },
    Catalog {
        name: "information_schema.constraint_column_usage",
        columns: "table_catalog:name table_schema:name table_name:name column_name:name constraint_catalog:name constraint_schema:name constraint_name:name",
    },
    Catalog {
        name: "information_schema.sequences",
        columns: "sequence_catalog:name sequence_schema:name sequence_name:name data_type:varchar",
    },
    Catalog {
        name: "information_schema.routines",
        columns: "routine_schema:name routine_name:name routine_type:varchar data_type:varchar",
    },
];

#[cfg(test)]
mod tests {
    use super::{CATALOGS, find};
    use crate::types::Type;

    #[test]
    fn every_column_has_a_known_type() {
        for catalog in CATALOGS {
            for (column, written) in catalog.columns().zip(catalog.columns.split_whitespace()) {
                let is_text = written.ends_with(":text");
                assert_eq!(column.1 == Type::Text, is_text, "{} {written}", catalog.name);
            }
        }
        assert!(find("pg_class").is_some() && find("information_schema.tables").is_some());
    }
}
