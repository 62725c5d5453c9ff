"""How the addresses that pods report map to the loopback addresses that their processes listen on.

The API server refuses loopback addresses in EndpointSlices, and without privileges no other network can be
made. So a pod reports ``10.244.a.b`` while its process listens on ``127.244.a.b``; everything that connects
uses this mapping, and no byte is ever sent to a ``10.244`` address itself.
"""

import ipaddress

POD_NETWORK = ipaddress.ip_network("10.244.0.0/16")
"""The network of the addresses that pods report."""

LISTEN_PREFIX = "127.244."
"""The first two numbers of the addresses that pods' processes listen on."""


def listen_address(pod_ip: str) -> str:
    """The loopback address on which the process of the pod with this reported address listens.

    Raises ValueError for an address outside the pod network, so that nothing leaves this machine by mistake.
    """
    if ipaddress.ip_address(pod_ip) not in POD_NETWORK:
        raise ValueError(f"{pod_ip} is not a pod address of the development cluster ({POD_NETWORK})")
    return LISTEN_PREFIX + pod_ip.split(".", 2)[2]
