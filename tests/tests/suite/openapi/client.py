"""Asks for a permit with a client that was generated from the OpenAPI document, and releases it.

Arguments: the folder that has the package `generated`, the URL of the API, a token.
"""

import sys

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)

from generated import AuthenticatedClient  # noqa: E402
from generated.api.permits import ask_permit, get_permit, list_permits, release_permit  # noqa: E402
from generated.api.resources import put_resource  # noqa: E402
from generated.models import Error, NewResource, Permit, PermitRequest, PermitRequestAttributesType0  # noqa: E402

client = AuthenticatedClient(base_url=url, token=token)
made = put_resource.sync("disk", client=client, body=NewResource(persistent=True))
attributes = PermitRequestAttributesType0.from_dict({"task": "generated"})
permit = ask_permit.sync(client=client, body=PermitRequest(lease="1m", cost=1, attributes=attributes))
assert isinstance(permit, Permit), permit
listed = list_permits.sync(client=client)
assert [one.request for one in listed] == [permit.request], listed
released = release_permit.sync_detailed(client=client, permit=permit.permit)
assert released.status_code == 204, released
gone = get_permit.sync(client=client, permit=permit.permit)
assert isinstance(gone, Error), gone
print(f"made {made.name}, granted in {permit.pool}, listed, released, gone")
