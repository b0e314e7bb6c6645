//! Rows of the table Resource.

use crate::ids::Ids;
use crate::reader::Reader;
use paceline_claims::{Resource, ResourceId};

/// The resource that a row describes. A parent that does not exist is ignored: the database removes such references
/// by itself.
pub(crate) fn read(row: Reader<'_>, ids: &Ids) -> Option<Resource> {
    let id = ResourceId(ids.known(row.uuid())?);
    let parents = row.uuids("parents").filter_map(|parent| ids.known(parent)).map(ResourceId);
    Some(Resource { id, name: row.text("name").into(), parents: parents.collect() })
}
